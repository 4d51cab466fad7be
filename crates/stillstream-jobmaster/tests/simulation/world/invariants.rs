//! What must hold after each step, and in the end.

use super::*;

impl World {
    fn assert_whole(&self, path: &str, what: &str) {
        let seed = self.seed;
        let Some(metadata) = self.metadata.get(path) else {
            panic!("seed {seed}: {what} {path} has no metadata");
        };
        let files = &self.files[path];
        assert!(files.contains(&format!("{path}/_metadata")), "seed {seed}: {what} {path}");
        assert_eq!(metadata.operators.len(), self.tasks as usize, "seed {seed}: {what} {path} misses a task");
        let shared = self.files.get(checkpoint_paths::SHARED_FOLDER);
        for stream in metadata.streams() {
            let file = stream.path().unwrap();
            let files = if stream.is_shared() { shared } else { Some(files) };
            let there = files.is_some_and(|files| files.contains(file));
            assert!(there, "seed {seed}: {what} {path} names {file}, which is gone");
        }
    }

    pub(super) fn check(&self) {
        for checkpoint in self.register.iter().flat_map(|r| r.completed.iter().chain(&r.retained)) {
            self.assert_whole(&checkpoint.path, "checkpoint");
        }
        for path in &self.savepoints {
            self.assert_whole(path, "savepoint");
        }
    }

    /// From here on nothing goes wrong: the job must finish, and a start after it must find nothing but what is named.
    pub fn end_well(&mut self) {
        self.faults = Faults::none();
        let mut newest = self.nodes.len() - 1;
        if self.nodes[newest].is_none() {
            self.start_node();
            newest = self.nodes.len() - 1;
        }
        for at in 0..newest {
            self.nodes[at] = None;
        }
        for _ in 0..5000 {
            let Some(me) = self.nodes[newest].as_ref() else {
                // a former leader's claim arrived late: who is elected starts anew
                self.start_node();
                newest = self.nodes.len() - 1;
                continue;
            };
            if me.finished {
                break;
            }
            if let Some(generation) = me.running {
                self.feed(newest, Event::SourceEnded { generation, subtask: SubtaskId::new(0, 0) });
            }
            self.step();
        }
        let seed = self.seed;
        assert!(
            self.nodes[newest].as_ref().is_some_and(|n| n.finished),
            "seed {seed}: the job does not finish"
        );
        self.drain();
        self.nodes[newest] = None;
        self.start_node();
        self.faults = Faults::none();
        for _ in 0..200 {
            if self.nodes.last().is_some_and(|node| node.as_ref().is_some_and(|n| n.running.is_some())) {
                break;
            }
            self.step();
        }
        // the listing and its deletions
        let last = self.nodes.len() - 1;
        if let Some(generation) = self.nodes[last].as_ref().and_then(|n| n.running) {
            self.feed(last, Event::AttemptStopped { generation, reason: "over".into() });
        }
        self.drain();
        let named: BTreeSet<&str> = self
            .register
            .iter()
            .flat_map(|r| r.completed.iter().chain(&r.retained))
            .map(|c| &*c.path)
            .collect();
        for path in self.files.keys().filter(|path| !path.starts_with("savepoint-") && *path != "shared") {
            assert!(named.contains(path.as_str()), "seed {seed}: {path} is left behind");
        }
        let shared: BTreeSet<String> =
            named.iter().flat_map(|path| storage::shared_of(self.metadata[*path].streams())).collect();
        for file in self.files.get(checkpoint_paths::SHARED_FOLDER).into_iter().flatten() {
            assert!(shared.contains(file), "seed {seed}: {file} is left behind");
        }
    }

    fn drain(&mut self) {
        for _ in 0..2000 {
            match self.bag.pop() {
                Some(Action::Deliver { event: Event::AttemptStarted { .. }, .. }) => {}
                Some(action) => self.act(action),
                None => return,
            }
            self.check();
        }
        panic!("seed {}: never quiet", self.seed);
    }
}
