//! The tasks: each snapshot has a file of its own, and names its local files as an incremental backend does: those that a
//! confirmed checkpoint has by the path that they have there, all others newly written.

use super::*;

/// Local files by their names, which are numbers here, and where each lies on storage.
type Sent = BTreeMap<u64, String>;

/// What one subtask of one attempt knows.
#[derive(Default)]
pub struct Known {
    /// The local files. One that is gone never comes back under its name.
    local: BTreeSet<u64>,
    /// The newest checkpoint that it knows to be completed, and what it named for that.
    confirmed: CheckpointId,
    files: Sent,
    /// What it named for checkpoints of which it has not heard yet.
    sent: BTreeMap<CheckpointId, Sent>,
}

impl World {
    /// An attempt begins: its tasks build on the checkpoint that they are restored from.
    pub(super) fn restore(&mut self, generation: Generation, from: Option<&CompletedRef>) {
        for subtask in self.subtasks() {
            let metadata = from.and_then(|from| self.metadata.get(&from.path));
            let operators = metadata.iter().flat_map(|metadata| &metadata.operators);
            let own = operators.filter(|operator| operator.id == Self::operator(subtask));
            let handles =
                own.flat_map(|operator| operator.subtasks.values()).flat_map(|state| &state.incremental);
            let named = |file: &NamedStream| Some((file.name.parse().ok()?, file.stream.path()?.to_owned()));
            let files: Sent = handles.flat_map(|handle| &handle.files).filter_map(named).collect();
            let local = files.keys().copied().collect();
            let confirmed = from.map_or(CheckpointId(0), |from| from.id);
            let known = Known { local, confirmed, files, sent: BTreeMap::new() };
            self.built_on.insert((generation, subtask), known);
        }
    }

    /// A subtask hears that a checkpoint is completed.
    pub(super) fn confirm(&mut self, generation: Generation, subtask: SubtaskId, checkpoint: CheckpointId) {
        let known = self.built_on.entry((generation, subtask)).or_default();
        if checkpoint > known.confirmed
            && let Some(files) = known.sent.remove(&checkpoint)
        {
            (known.confirmed, known.files) = (checkpoint, files);
        }
    }

    pub(super) fn snapshot(
        &mut self,
        node: usize,
        generation: Generation,
        checkpoint: CheckpointId,
        path: &str,
        subtask: SubtaskId,
    ) {
        let mut known = self.built_on.remove(&(generation, subtask)).unwrap_or_default();
        known.local.retain(|_| self.below(4) > 0);
        for _ in 0..self.below(3) {
            self.local += 1;
            known.local.insert(self.local);
        }
        // a savepoint owns all its files
        let is_savepoint = path.starts_with("savepoint-");
        let mut sent = Sent::new();
        for name in known.local.iter().filter(|_| !is_savepoint) {
            let file = known.files.get(name).cloned();
            sent.insert(*name, file.unwrap_or_else(|| self.upload(checkpoint, generation, subtask)));
        }
        known.sent.insert(checkpoint, sent.clone());
        self.built_on.insert((generation, subtask), known);
        if self.fault() {
            // what it has written by then is in no report
            let event = Event::Decline { generation, checkpoint, subtask, message: "test".into() };
            return self.answer(Some(node), event);
        }
        self.written += 1;
        let file = format!("{path}/{generation}-{subtask}-{}", self.written);
        self.files.entry(path.to_owned()).or_default().insert(file.clone());
        let stream = |path: String| StreamHandle::File { path, len: 1, crc32c: 0 };
        let named =
            |(name, path): (u64, String)| NamedStream { name: name.to_string(), stream: stream(path) };
        let incremental = IncrementalHandle {
            range: KeyGroupRange::new(0, 128),
            format: IncrementalFormat::RocksDb,
            backend: generation.0,
            meta: stream(file),
            files: sent.into_iter().map(named).collect(),
        };
        let state =
            OperatorSubtaskState { incremental: vec![incremental], ..OperatorSubtaskState::default() };
        let snapshot = TaskSnapshot { operators: vec![(Self::operator(subtask), state)] };
        let metrics = AckMetrics::default();
        let node = if self.nodes[node].is_some() { node } else { self.alive().unwrap_or(node) };
        let event = Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics };
        self.answer(Some(node), event);
    }

    fn upload(&mut self, checkpoint: CheckpointId, generation: Generation, subtask: SubtaskId) -> String {
        self.shared_written += 1;
        let rest = format!("{generation}-{subtask}-{}", self.shared_written);
        let file = checkpoint_paths::shared_file(checkpoint, &rest);
        self.files.entry(checkpoint_paths::SHARED_FOLDER.into()).or_default().insert(file.clone());
        file
    }
}
