//! What must hold after each step, and in the end.

use super::*;

impl World {
    fn assert_whole(&self, path: &str, what: &str) {
        let Some(metadata) = self.metadata.get(path) else {
            panic!("{what} {path} has no metadata");
        };
        assert!(self.is_there(&format!("{path}/_metadata")), "{what} {path}");
        assert_eq!(metadata.operators.len(), self.plan.len(), "{what} {path} misses an operator");
        for file in metadata.streams().filter_map(StreamHandle::path) {
            assert!(self.is_there(file), "{what} {path} names {file}, which is gone");
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

    /// The newest process's job ends at this moment by a person's word, or fails for good, under these
    /// faults. `None`: there is no such process any more.
    pub fn end_now(&mut self, cancel: bool, faults: Faults) -> Option<End> {
        self.only_the_newest();
        let newest = self.newest();
        self.faults = faults;
        self.last_end = None;
        if !self.is_alive(newest) {
            return None;
        }
        let runs = self.nodes[newest].as_ref().is_some_and(|node| node.engine.status() == JobStatus::Running);
        match cancel || !runs {
            true => self.cancel(newest),
            false => self.some_fatal_failure(newest),
        }
        let until = self.now + CANCEL_TIMEOUT;
        while self.last_end.is_none() {
            assert!(self.now <= until, "no end {CANCEL_TIMEOUT:?} after it was wanted: {}", self.state());
            assert!(self.is_alive(newest), "gone without a word");
            self.step();
            if self.bag.is_empty() {
                self.sleep();
            }
        }
        self.last_end
    }

    /// From here on nothing goes wrong: the job must finish, and a start after it must find nothing but what
    /// is named.
    pub fn end_well(&mut self) {
        self.faults = Faults::none();
        if !self.is_alive(self.newest()) {
            self.start_node();
        }
        self.only_the_newest();
        self.input.get_or_insert(self.furthest + 5);
        self.last_end = None;
        let began = self.now;
        while self.last_end != Some(End::Recorded(JobOutcome::Finished)) {
            // somebody who was told to cancel, or who was taken over, ends otherwise, and is started again
            if !self.is_alive(self.newest()) {
                self.start_node();
                self.input.get_or_insert(self.furthest + 5);
                self.last_end = None;
            }
            self.step();
            let took = self.now.saturating_sub(began);
            assert!(took < Duration::from_secs(120), "the job does not finish: {}", self.state());
        }
        self.drain();
        self.assert_nothing_left_behind();
    }

    /// For messages: where everybody is.
    fn state(&self) -> String {
        let engines: Vec<_> = self.nodes.iter().flatten().map(|node| &node.engine).collect();
        format!("{engines:#?}\n{:#?}\nunder way: {:#?}\n{:#?}", self.attempts, self.bag, self.register)
    }

    /// What is under way with storage arrives.
    fn drain(&mut self) {
        let is_call = |action: &Action| matches!(action, Action::Call { .. });
        while let Some(next) = self.bag.iter().position(is_call) {
            let action = self.bag.swap_remove(next);
            self.act(action);
            self.check();
        }
    }

    /// A start cleans up what all those before it have left.
    fn assert_nothing_left_behind(&mut self) {
        let floor = self.register.as_ref().map_or(CheckpointId(0), |register| register.last_checkpoint_id);
        self.start_node();
        let newest = self.newest();
        let cleans = |action: &Action| match action {
            Action::Call { call, .. } => matches!(
                call,
                StorageCall::ListDirectories
                    | StorageCall::ReadReferences { .. }
                    | StorageCall::ListShared
                    | StorageCall::Discard { .. }
            ),
            Action::Deliver { event: JobEvent::Storage(answer), .. } => matches!(
                answer,
                StorageAnswer::DirectoriesListed { .. }
                    | StorageAnswer::ReferencesRead { .. }
                    | StorageAnswer::SharedListed { .. }
            ),
            _ => false,
        };
        for _ in 0..2000 {
            let runs =
                self.nodes[newest].as_ref().is_some_and(|node| node.engine.status() == JobStatus::Running);
            if runs && !self.bag.iter().any(cleans) {
                break;
            }
            self.step();
        }
        let named: BTreeSet<&str> = self
            .register
            .iter()
            .flat_map(|r| r.completed.iter().chain(&r.retained))
            .map(|c| &*c.path)
            .collect();
        for path in self.files.keys() {
            let old = checkpoint_paths::checkpoint_of(path).is_some_and(|id| id <= floor);
            assert!(!old || named.contains(path.as_str()), "{path} is left behind");
        }
        let shared: BTreeSet<String> =
            named.iter().flat_map(|path| storage::shared_of(self.metadata[*path].streams())).collect();
        for file in self.files.get(checkpoint_paths::SHARED_FOLDER).into_iter().flatten() {
            let old = checkpoint_paths::creator(file).is_some_and(|id| id <= floor);
            assert!(!old || shared.contains(file), "{file} is left behind");
        }
    }

    fn some_fatal_failure(&mut self, at: usize) {
        let Some(node) = self.nodes[at].as_mut() else { return };
        let generation = node.engine.generation();
        let now = self.now;
        // it has to end in the same time
        node.cancelled.get_or_insert(now);
        let error = Error::new(ErrorKind::Plan, "a failure that no restart can mend");
        self.feed(at, JobEvent::Report(generation, Report::Failed { subtask: None, error }));
    }
}
