//! The disk and the register: what is asked of them happens, does not happen, or nobody knows.

use super::*;

/// Whether the call changes something, and so may do that after its caller has gone.
pub fn is_write(call: &StorageCall) -> bool {
    use StorageCall::{Discard, UpdateRegister, WriteMetadata};
    matches!(call, UpdateRegister { .. } | WriteMetadata { .. } | Discard { .. })
}

impl World {
    fn answer(&mut self, node: Option<usize>, answer: StorageAnswer) {
        if let Some(node) = node {
            self.deliver(node, JobEvent::Storage(answer));
        }
    }

    pub(super) fn call(&mut self, node: Option<usize>, call: StorageCall) {
        if self.faults.away && self.while_away(node, &call) {
            return;
        }
        match call {
            StorageCall::UpdateRegister { expected, record } => self.compare_and_set(node, expected, record),
            StorageCall::ReadRegister => {
                let fault = self.fault();
                let result = match &self.register {
                    _ if fault => Err("unreachable".into()),
                    Some(found) if node == Some(self.owner) => Ok(FoundRegister::Own(found.clone())),
                    Some(found) => Ok(FoundRegister::Foreign(found.generation)),
                    None => Ok(FoundRegister::Missing),
                };
                self.answer(node, StorageAnswer::RegisterRead { result });
            }
            StorageCall::WriteMetadata { metadata, savepoint } => {
                let checkpoint = metadata.id;
                assert_eq!(savepoint.is_some(), metadata.kind == CheckpointKind::Savepoint);
                let outcome = self.write_metadata(metadata, savepoint);
                self.answer(node, StorageAnswer::MetadataWritten { checkpoint, outcome });
            }
            StorageCall::ListDirectories => {
                let names = self.files.keys().cloned().collect();
                self.answer(node, StorageAnswer::DirectoriesListed { names });
            }
            StorageCall::ReadReferences { completed, retained } => {
                let references = self.read_references(&completed, &retained);
                self.answer(node, StorageAnswer::ReferencesRead { references });
            }
            StorageCall::ListShared => {
                let files = self.files.get(checkpoint_paths::SHARED_FOLDER).into_iter().flatten();
                let files = files.cloned().collect();
                let result = if self.fault() { Err("unreachable".into()) } else { Ok(files) };
                self.answer(node, StorageAnswer::SharedListed { result });
            }
            StorageCall::Discard { discard, target } => {
                let failure = self.delete(target);
                self.answer(node, StorageAnswer::DiscardDone { discard, failure });
            }
        }
    }

    /// The call is made, and that is the last that one hears of it; or it fails.
    fn while_away(&mut self, node: Option<usize>, call: &StorageCall) -> bool {
        let answer = self.below(3);
        let (text, silent) = ("no such folder".to_owned(), answer == 0);
        match call {
            StorageCall::UpdateRegister { .. } if !silent => {
                let outcome = match answer {
                    1 => RegisterOutcome::Failed(text),
                    _ => RegisterOutcome::Unknown("timed out".into()),
                };
                self.answer(node, StorageAnswer::RegisterUpdated { outcome });
            }
            StorageCall::WriteMetadata { metadata, .. } if !silent => {
                let outcome =
                    if answer == 1 { WriteOutcome::Failed(text) } else { WriteOutcome::Unknown(text) };
                self.answer(node, StorageAnswer::MetadataWritten { checkpoint: metadata.id, outcome });
            }
            StorageCall::ReadRegister if !silent => {
                self.answer(node, StorageAnswer::RegisterRead { result: Err(text) });
            }
            StorageCall::UpdateRegister { .. }
            | StorageCall::WriteMetadata { .. }
            | StorageCall::ReadRegister => {}
            _ => return false,
        }
        true
    }

    fn compare_and_set(
        &mut self,
        node: Option<usize>,
        expected: Option<RegisterRecord>,
        record: RegisterRecord,
    ) {
        let (fault, kind) = (self.fault(), self.below(4));
        if fault && kind == 0 {
            let outcome = RegisterOutcome::Failed("refused".into());
            return self.answer(node, StorageAnswer::RegisterUpdated { outcome });
        }
        if fault {
            self.tally.unknown_writes += 1;
            if kind == 1 {
                // it arrives later, perhaps after it was read
                let (expected, record) = (expected.clone(), record.clone());
                let call = StorageCall::UpdateRegister { expected, record };
                self.bag.push(Action::Call { node: None, call });
            }
        }
        let happens = self.register == expected && !(fault && kind <= 2);
        let outcome = match &self.register {
            _ if fault => RegisterOutcome::Unknown("timed out".into()),
            _ if happens => RegisterOutcome::Written,
            Some(found) if node != Some(self.owner) => RegisterOutcome::Fenced(found.generation),
            _ => RegisterOutcome::Unknown("the record has changed".into()),
        };
        if happens {
            self.write_register(record);
        }
        self.answer(node, StorageAnswer::RegisterUpdated { outcome });
    }

    fn write_register(&mut self, record: RegisterRecord) {
        if let Some(old) = &self.register {
            assert!(
                record.generation >= old.generation && record.last_checkpoint_id >= old.last_checkpoint_id,
                "{old:?} -> {record:?}"
            );
            let newest = |r: &RegisterRecord| r.completed.last().map(|c| c.id);
            if record.outcome == JobOutcome::Running && old.outcome == JobOutcome::Running {
                assert!(newest(&record) >= newest(old), "the newest checkpoint went back");
            }
            // what has ended does not end otherwise, and begins only under another generation than it ended
            let is_over = !matches!(old.outcome, JobOutcome::Running | JobOutcome::Failed);
            assert!(
                !is_over || record.outcome == old.outcome || !self.ends.contains_key(&record.generation),
                "{old:?} -> {record:?}"
            );
        }
        for savepoint in record.completed.iter().filter(|named| named.is_savepoint()) {
            assert!(self.stop_places.contains(&savepoint.path), "{savepoint} is in the register: {record:?}");
            // whatever becomes of the stop
            self.savepoints.insert(savepoint.path.clone());
        }
        let before = self.register.as_ref().and_then(|old| old.ended.clone());
        match record.outcome {
            JobOutcome::Running => self.recorded = false,
            outcome if record.ended != before => {
                self.recorded = true;
                self.ends.insert(record.generation, outcome);
            }
            _ => {}
        }
        self.register = Some(record);
    }

    fn write_metadata(
        &mut self,
        metadata: Box<CheckpointMetadata>,
        savepoint: Option<Arc<str>>,
    ) -> WriteOutcome {
        let path = match &savepoint {
            Some(location) => location.to_string(),
            None => checkpoint_paths::checkpoint(metadata.id),
        };
        let (fault, kind) = (self.fault(), self.below(4));
        let outcome = match (fault, kind) {
            (true, 0) => WriteOutcome::Failed("no space".into()),
            (true, _) => WriteOutcome::Unknown("timed out".into()),
            _ => WriteOutcome::Written,
        };
        match (fault, kind) {
            (true, 0 | 1) => {}
            (true, 2) => {
                let call = StorageCall::WriteMetadata { metadata, savepoint };
                self.bag.push(Action::Call { node: None, call });
            }
            _ => {
                self.files.entry(path.clone()).or_default().insert(format!("{path}/_metadata"));
                self.metadata.insert(path, *metadata);
            }
        }
        outcome
    }

    /// The metadata that this process is writing, and its last word about it.
    pub(super) fn metadata_of(&mut self, at: usize) {
        let is_metadata = |action: &Action| match action {
            Action::Call { node, call: StorageCall::WriteMetadata { .. } } => *node == Some(at),
            Action::Deliver { node, event: JobEvent::Storage(StorageAnswer::MetadataWritten { .. }) } => {
                *node == at
            }
            _ => false,
        };
        while let Some(next) = self.bag.iter().position(is_metadata) {
            let action = self.bag.swap_remove(next);
            self.act(action);
            if !self.is_alive(at) {
                return;
            }
        }
    }

    fn delete(&mut self, target: DiscardTarget) -> Option<String> {
        if self.fault() {
            return Some("hung".to_owned());
        }
        match target {
            DiscardTarget::Directory { path, shared } => {
                for file in self.files.remove(&path).into_iter().flatten() {
                    self.contents.remove(&file);
                }
                self.metadata.remove(&path);
                if self.fault() {
                    return Some("died half way".to_owned());
                }
                self.delete_files(&shared);
            }
            DiscardTarget::Files(files) => self.delete_files(&files),
            DiscardTarget::Savepoint(location) => {
                let named = |record: &RegisterRecord| {
                    let mut all = record.completed.iter().chain(&record.retained);
                    all.any(|named| *named.path == *location)
                };
                assert!(!self.register.as_ref().is_some_and(named), "{location} is in the register");
                assert!(!self.savepoints.contains(&*location), "{location} belongs to a person");
                for file in self.files.remove(&*location).into_iter().flatten() {
                    self.contents.remove(&file);
                }
                self.metadata.remove(&*location);
            }
        }
        None
    }

    fn delete_files(&mut self, files: &[String]) {
        for file in files {
            let directory = file.split('/').next().unwrap_or_default();
            if let Some(all) = self.files.get_mut(directory)
                && all.remove(file)
            {
                self.tally.shared_deleted += u64::from(directory == checkpoint_paths::SHARED_FOLDER);
                self.contents.remove(file);
            }
        }
        self.files.retain(|_, files| !files.is_empty());
    }

    fn read_references(&mut self, completed: &[CompletedRef], retained: &[CompletedRef]) -> References {
        let mut references = References::default();
        for checkpoint in completed.iter().chain(retained) {
            assert!(!checkpoint.is_savepoint(), "{checkpoint} names no shared file");
            let fault = self.fault();
            match self.metadata.get(&checkpoint.path).filter(|_| !fault) {
                Some(metadata) => references.found.push((checkpoint.id, shared_of(metadata.streams()))),
                None => references.unreadable.push(format!("{} cannot be read", checkpoint.path)),
            }
        }
        references
    }

    pub(super) fn read_snapshot(&mut self, node: usize, generation: Generation, from: RestoreFrom) {
        if self.faults.away && self.below(2) == 0 {
            return;
        }
        let result = match self.rare_fault() || self.faults.away {
            true => Err(Error::new(ErrorKind::Storage, "unreachable")),
            false => self.restored(node, generation, &from),
        };
        self.deliver(node, JobEvent::Restored { generation, result });
    }

    fn restored(
        &self,
        node: usize,
        generation: Generation,
        from: &RestoreFrom,
    ) -> Result<Option<RestoredState>> {
        let leads = self.leads(generation);
        let path = match from {
            RestoreFrom::Own(own) => {
                let newest = self.register.as_ref().filter(|_| leads).and_then(|r| r.completed.last());
                assert!(!leads || newest == Some(own), "wrong restore: {own:?}, the register has {newest:?}");
                &own.path
            }
            RestoreFrom::Snapshot(path) => path,
            RestoreFrom::Nothing => {
                let named = self.register.iter().filter(|_| leads).flat_map(|r| &r.completed).next();
                assert_eq!(named, None, "a job that has a checkpoint starts empty");
                return Ok(None);
            }
        };
        let Some(metadata) = self.metadata.get(path) else {
            assert!(!leads, "{path} is to be restored and is gone");
            return Err(Error::new(ErrorKind::Storage, "it is gone"));
        };
        let Some(node) = self.nodes[node].as_ref() else { return Ok(None) };
        let plan = plan_restore(metadata, &nodes::operators(&node.plan), false);
        let plan = plan.unwrap_or_else(|error| panic!("{path} cannot be restored: {error}"));
        let of = |states: Vec<_>| (0..).map(SubtaskIndex).zip(states).collect();
        let operators = plan.operators.into_iter().map(|(id, states)| (id, of(states))).collect();
        Ok(Some(RestoredState {
            checkpoint: metadata.id,
            location: None,
            operators,
            enumerators: plan.enumerators,
        }))
    }
}

/// The shared files among these.
pub(super) fn shared_of<'a>(streams: impl Iterator<Item = &'a StreamHandle>) -> Vec<String> {
    let shared: BTreeSet<&str> =
        streams.filter(|stream| stream.is_shared()).filter_map(StreamHandle::path).collect();
    shared.into_iter().map(str::to_owned).collect()
}
