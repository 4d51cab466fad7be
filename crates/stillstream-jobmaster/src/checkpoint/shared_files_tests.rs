//! Random interleavings against a disk: what anybody names is never deleted, and in the end nothing else is
//! left.

use super::*;

struct Pending {
    base: Option<CheckpointId>,
    names: BTreeSet<String>,
}

/// A job whose tasks name new files and those of the newest checkpoint that was completed when they were
/// triggered.
#[derive(Default)]
struct World {
    seed: u64,
    random: u64,
    files: SharedFiles,
    disk: BTreeSet<String>,
    metadata: BTreeMap<CheckpointId, BTreeSet<String>>,
    completed: Vec<CheckpointId>,
    retained: Vec<CheckpointId>,
    pending: BTreeMap<CheckpointId, Pending>,
    used: CheckpointId,
    first_own: CheckpointId,
    written: u64,
    deleted: usize,
    refused: usize,
}

impl World {
    fn below(&mut self, n: usize) -> usize {
        // SplitMix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    fn chosen<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let at = self.below(all.len());
        all.get(at).copied()
    }

    fn refs(ids: &[CheckpointId]) -> Vec<CompletedRef> {
        ids.iter().map(|id| CompletedRef { id: *id, path: format!("chk-{id}") }).collect()
    }

    fn named(&self) -> Vec<CheckpointId> {
        self.completed.iter().chain(&self.retained).copied().collect()
    }

    /// Everything that must be on the disk: of whoever stays, is under way, or may be built on.
    fn needed(&self) -> BTreeSet<&String> {
        let ids = self.named().into_iter().chain(self.pending.values().filter_map(|pending| pending.base));
        let of_named = ids.filter_map(|id| self.metadata.get(&id)).flatten();
        of_named.chain(self.pending.values().flat_map(|pending| &pending.names)).collect()
    }

    fn delete(&mut self, paths: Vec<String>, what: &str) {
        let needed = self.needed();
        for path in &paths {
            assert!(!needed.contains(path), "seed {}: {what} deletes {path}, which is needed", self.seed);
        }
        self.deleted += paths.iter().filter(|path| self.disk.remove(*path)).count();
    }

    fn release(&mut self) {
        let bases = self.pending.values().filter_map(|pending| pending.base);
        let needed = self.named().into_iter().chain(self.pending.keys().copied()).chain(bases).collect();
        let released = self.files.release(&needed);
        self.delete(released, "release");
    }

    fn write(&mut self, by: CheckpointId) -> String {
        self.written += 1;
        let path = checkpoint_paths::shared_file(by, &format!("f{}", self.written));
        self.disk.insert(path.clone());
        path
    }

    fn trigger(&mut self) {
        self.used = self.used.next();
        let base = self.completed.iter().max().copied();
        self.pending.insert(self.used, Pending { base, names: BTreeSet::new() });
    }

    fn acknowledge(&mut self, id: CheckpointId) {
        let mut names: Vec<String> = (0..self.below(3)).map(|_| self.write(id)).collect();
        let base = self.pending[&id].base.and_then(|base| self.metadata.get(&base).cloned());
        names.extend(base.into_iter().flatten().filter(|_| self.below(3) > 0).collect::<Vec<_>>());
        let registered = self.files.register(id, names.iter().map(String::as_str));
        assert_eq!(registered, Ok(()), "seed {}: files of a completed checkpoint may be named", self.seed);
        self.pending.get_mut(&id).unwrap().names.extend(names);
    }

    /// A task that errs: it names a file of a checkpoint that was never completed.
    fn acknowledge_wrongly(&mut self, id: CheckpointId) {
        let others = self.pending.iter().filter(|(other, _)| **other != id);
        let mut wrong = others
            .flat_map(|(other, p)| p.names.iter().filter(|n| checkpoint_paths::creator(n) == Some(*other)));
        let Some(wrong) = wrong.next().cloned() else { return };
        let own = self.write(id);
        let registered = self.files.register(id, [own.as_str(), wrong.as_str()]);
        assert!(registered.is_err(), "seed {}: {wrong} is not confirmed", self.seed);
        self.refused += 1;
        self.abort(id);
        assert!(!self.disk.contains(&own), "seed {}", self.seed);
    }

    fn abort(&mut self, id: CheckpointId) {
        let Some(pending) = self.pending.remove(&id) else { return };
        let aborted = self.files.abort(id);
        self.delete(aborted, "abort");
        for path in pending.names.iter().filter(|path| checkpoint_paths::creator(path) == Some(id)) {
            assert!(!self.disk.contains(path), "seed {}: {path} of an aborted checkpoint stays", self.seed);
        }
        self.release();
        // one more task comes too late; another repeats itself
        let late = self.write(id);
        let paths: Vec<String> = pending.names.into_iter().chain([late]).collect();
        let strays = self.files.strays(id, paths.iter().map(String::as_str));
        assert!(strays.len() <= paths.len());
        self.delete(strays, "late acknowledgement");
    }

    fn complete(&mut self, id: CheckpointId) {
        let retain = 1 + (self.seed % 3) as usize;
        if self.completed.len() >= retain && self.completed[0] > id {
            return self.abort(id); // it would be dropped at once
        }
        let Some(pending) = self.pending.remove(&id) else { return };
        self.metadata.insert(id, pending.names);
        self.completed.push(id);
        self.completed.sort();
        self.files.confirm(id);
        while self.completed.len() > retain {
            self.completed.remove(0);
        }
        if self.seed.is_multiple_of(2) {
            let older: Vec<_> = self.pending.range(..id).map(|(id, _)| *id).collect();
            older.into_iter().for_each(|id| self.abort(id));
        }
        self.release();
    }

    /// The process dies and another one takes over; one checkpoint may be unreadable to it.
    fn restart(&mut self, unreadable: bool) {
        self.pending.clear();
        self.first_own = self.used.next();
        self.files = SharedFiles::default();
        let named = Self::refs(&self.named());
        // a job whose newest checkpoint cannot be read does not start
        let newest = self.completed.last().copied();
        let lost =
            if unreadable { self.chosen(&self.named()) } else { None }.filter(|id| Some(*id) != newest);
        let missing = self.files.missing(named.iter()).unwrap();
        self.files.distrust(self.first_own);
        let found = missing.into_iter().filter(|id| Some(*id) != lost);
        let found: Vec<_> =
            found.map(|id| (id, self.metadata.get(&id).into_iter().flatten().cloned().collect())).collect();
        let unreadable = lost.into_iter().map(|id| format!("chk-{id}")).collect();
        let known = self.files.recover(References { found, kept: vec![], unreadable }, named.iter());
        assert_eq!(known, lost.is_none());
        self.sweep();
    }

    fn sweep(&mut self) {
        let listed = self.disk.iter().cloned().collect();
        let orphans = self.files.orphans(listed, |by| by <= self.used && !self.pending.contains_key(&by));
        self.delete(orphans, "sweep");
    }

    fn step(&mut self) {
        let pending: Vec<CheckpointId> = self.pending.keys().copied().collect();
        let one = self.chosen(&pending);
        match (self.below(40), one) {
            (0..8, _) if pending.len() < 3 => self.trigger(),
            (8..20, Some(id)) => self.acknowledge(id),
            (20..27, Some(id)) => self.complete(id),
            (27..31, Some(id)) => self.abort(id),
            (31, Some(id)) => self.acknowledge_wrongly(id),
            (32, _) => self.restart(false),
            (33, _) => self.restart(true),
            (34, _) => self.sweep(),
            (35, _) => {
                // cancelled, with its checkpoints retained; the next run begins afresh
                self.retained.append(&mut self.completed);
                self.restart(false);
            }
            (36, _) => {
                let owned = self.chosen(&self.retained.clone());
                self.retained.retain(|id| Some(*id) != owned);
            }
            _ => {}
        }
        let gone: Vec<_> = self.needed().into_iter().filter(|path| !self.disk.contains(*path)).collect();
        assert!(gone.is_empty(), "seed {}: {gone:?} are needed and gone", self.seed);
    }
}

#[test]
fn in_no_order_of_events_is_a_named_file_deleted_or_an_unnamed_one_left_for_ever() {
    let (mut written, mut deleted, mut refused) = (0, 0, 0);
    for seed in 0..3000 {
        let mut world = World { seed, random: seed, ..World::default() };
        world.restart(false);
        for _ in 0..150 {
            world.step();
        }
        world.restart(false);
        let left: BTreeSet<String> = world.disk.clone();
        let needed: BTreeSet<String> = world.needed().into_iter().cloned().collect();
        assert_eq!(left, needed, "seed {seed}: what nobody names is left");
        written += world.written;
        deleted += world.deleted;
        refused += world.refused;
    }
    // an interleaving in which nothing happens proves nothing
    println!("{written} written, {deleted} deleted, {refused} refused");
    assert!(written > 30_000 && deleted > 30_000 && refused > 300);
}

#[test]
fn without_a_restart_and_with_one_checkpoint_at_a_time_nothing_has_to_be_swept() {
    for seed in 0..500 {
        let mut world = World { seed, random: seed, ..World::default() };
        world.restart(false);
        for _ in 0..60 {
            world.trigger();
            let id = world.used;
            (0..3).for_each(|_| world.acknowledge(id));
            if world.below(4) == 0 {
                world.abort(id)
            } else {
                world.complete(id)
            }
            let newest = world.completed.last().copied().unwrap_or_default();
            // at most too careful: by as long as an aborted checkpoint's use of an older file
            let between = |path: &String| world.files.files[path].last > newest;
            let needed = world.needed();
            let extra: Vec<_> =
                world.disk.iter().filter(|path| !needed.contains(path) && !between(path)).collect();
            assert!(extra.is_empty(), "seed {seed}: {extra:?}");
        }
    }
}
