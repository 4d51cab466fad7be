//! The enumerator of the source, and its readers: which splits were assigned, and which a reader has at each
//! barrier.
//!
//! Splits are numbers. The enumerator's state is the number of the next one, so every completed checkpoint
//! must have each number below that in exactly one reader, and no other.

use super::*;

/// What a reader has in its mailbox, in the order in which it was sent.
#[derive(Debug)]
enum Mail {
    Splits(Vec<u64>),
    Cut(CheckpointId),
}

/// The readers of one attempt, and its enumerator.
#[derive(Default, Debug)]
pub struct Splits {
    next: u64,
    mail: BTreeMap<SubtaskIndex, std::collections::VecDeque<Mail>>,
    held: BTreeMap<SubtaskIndex, BTreeSet<u64>>,
    at_barrier: BTreeMap<(CheckpointId, SubtaskIndex), BTreeSet<u64>>,
}

impl Splits {
    /// What an attempt begins with.
    pub fn restored(next: u64, held: BTreeSet<u64>, readers: u32) -> Self {
        let mut splits = Self { next, ..Self::default() };
        for split in held {
            let reader = SubtaskIndex((split % u64::from(readers)) as u32);
            splits.held.entry(reader).or_default().insert(split);
        }
        splits
    }

    /// A reader takes up to so many messages, or all up to a barrier.
    fn read(&mut self, reader: SubtaskIndex, most: usize, until: Option<CheckpointId>) {
        for _ in 0..most {
            if until.is_some_and(|id| self.at_barrier.contains_key(&(id, reader))) {
                return;
            }
            match self.mail.get_mut(&reader).and_then(|mail| mail.pop_front()) {
                None => return,
                Some(Mail::Splits(splits)) => {
                    for split in splits {
                        let new = self.held.entry(reader).or_default().insert(split);
                        assert!(new, "split {split} is assigned twice");
                    }
                }
                Some(Mail::Cut(id)) => {
                    let held = self.held.get(&reader).cloned().unwrap_or_default();
                    self.at_barrier.insert((id, reader), held);
                }
            }
        }
    }

    /// What the reader has in this checkpoint: it takes its mail up to the barrier, if it has not yet.
    pub fn at_barrier(&mut self, id: CheckpointId, reader: SubtaskIndex) -> BTreeSet<u64> {
        self.read(reader, usize::MAX, Some(id));
        self.at_barrier.get(&(id, reader)).cloned().unwrap_or_default()
    }
}

fn state(next: u64) -> Arc<[u8]> {
    next.to_le_bytes().as_slice().into()
}

/// The number of the next split, of an enumerator's state; without one it has assigned nothing.
pub fn next_of(state: Option<&Arc<[u8]>>) -> u64 {
    state.map_or(0, |state| u64::from_le_bytes(state[..].try_into().unwrap()))
}

impl World {
    /// Enumerators find splits, and readers take their mail.
    pub(super) fn enumerate(&mut self) {
        std::mem::swap(&mut self.random, &mut self.random_splits);
        self.enumerate_all();
        std::mem::swap(&mut self.random, &mut self.random_splits);
    }

    fn enumerate_all(&mut self) {
        let keys: Vec<(usize, Generation)> = self.attempts.keys().copied().collect();
        for (node, generation) in keys {
            if self.below(5) == 0 {
                self.find(node, generation);
            }
            let readers = match self.attempts.get(&(node, generation)) {
                Some(attempt) => attempt.readers(),
                None => continue,
            };
            for reader in (0..readers).map(SubtaskIndex) {
                let most = self.below(3) as usize;
                if let Some(attempt) = self.attempts.get_mut(&(node, generation)) {
                    attempt.splits.read(reader, most, None);
                }
            }
        }
    }

    fn find(&mut self, node: usize, generation: Generation) {
        let found = self.below(3);
        let Some(attempt) = self.attempts.get_mut(&(node, generation)) else { return };
        let readers = u64::from(attempt.readers());
        let from = attempt.splits.next;
        attempt.splits.next += found;
        let reader = |split: u64| SubtaskIndex((split % readers) as u32);
        let assignment = Assignment {
            operator: nodes::operator(0),
            splits: (from..from + found).map(|split| (reader(split), split.to_le_bytes().to_vec())).collect(),
            answers: None,
            no_more: false,
        };
        let enumerated = Enumerated { state: state(from + found), assignment };
        let under_way = self.nodes[node].as_ref().is_some_and(|node| !node.engine.in_progress().is_empty());
        self.tally.assigned += found;
        self.tally.assigned_in_flight += if under_way { found } else { 0 };
        self.feed(node, JobEvent::Enumerated(generation, enumerated));
    }

    /// The readers get mail.
    pub(super) fn assign(&mut self, node: usize, generation: Generation, assignment: &Assignment) {
        let Some(attempt) = self.attempts.get_mut(&(node, generation)) else { return };
        for reader in (0..attempt.readers()).map(SubtaskIndex) {
            let mine = assignment.splits.iter().filter(|(to, _)| *to == reader);
            let mine = mine.map(|(_, split)| u64::from_le_bytes(split[..].try_into().unwrap())).collect();
            attempt.splits.mail.entry(reader).or_default().push_back(Mail::Splits(mine));
        }
    }

    pub(super) fn cut_splits(&mut self, node: usize, generation: Generation, id: CheckpointId) {
        let Some(attempt) = self.attempts.get_mut(&(node, generation)) else { return };
        for reader in (0..attempt.readers()).map(SubtaskIndex) {
            attempt.splits.mail.entry(reader).or_default().push_back(Mail::Cut(id));
        }
    }

    /// The splits in these files of readers: each below `next` once, and no other.
    pub(super) fn splits_of<'a>(
        &self,
        files: impl Iterator<Item = &'a str>,
        next: u64,
        what: &str,
    ) -> BTreeSet<u64> {
        let files: BTreeSet<&str> = files.collect();
        let mut all = BTreeSet::new();
        for split in files.iter().filter_map(|file| self.contents.get(*file)).flat_map(|c| &c.splits) {
            assert!(all.insert(*split), "{what}: split {split} is in two readers");
            assert!(
                *split < next,
                "{what}: a reader has split {split}, and the enumerator will assign it again"
            );
        }
        assert_eq!(all.len() as u64, next, "{what}: splits are lost, only {all:?} of {next} are in a reader");
        all
    }

    /// A checkpoint is completed.
    pub(super) fn check_splits(&self, id: CheckpointId) {
        for metadata in self.metadata.values().filter(|metadata| metadata.id == id) {
            let source = metadata.operators.iter().find(|operator| operator.id == nodes::operator(0));
            let next = next_of(source.and_then(|source| source.enumerator.as_ref()));
            let handles = source.iter().flat_map(|source| source.subtasks.values());
            let files = handles.flat_map(|state| &state.incremental).filter_map(|handle| handle.meta.path());
            self.splits_of(files, next, &format!("checkpoint {id}"));
        }
    }
}
