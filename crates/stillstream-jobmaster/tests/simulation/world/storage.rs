//! The disk and the register: what is asked of them happens, does not happen, or nobody knows.

use super::*;

impl World {
    pub(super) fn compare_and_set(
        &mut self,
        node: Option<usize>,
        expected: Option<RegisterRecord>,
        record: RegisterRecord,
    ) {
        let (fault, kind) = (self.fault(), self.below(4));
        if fault && kind == 0 {
            let outcome = RegisterOutcome::Failed("refused".into());
            return self.answer(node, Event::RegisterUpdated { outcome });
        }
        if fault {
            self.unknown_writes += 1;
            if kind == 1 {
                // it arrives later, perhaps after it was read
                let (expected, record) = (expected.clone(), record.clone());
                self.bag.push(Action::CompareAndSet { node: None, expected, record });
            }
        }
        let happens = self.register == expected && !(fault && kind <= 2);
        let outcome = match &self.register {
            _ if fault => RegisterOutcome::Unknown("timed out".into()),
            _ if happens => RegisterOutcome::Written,
            Some(found) if found.generation > record.generation => RegisterOutcome::Fenced(found.generation),
            _ => RegisterOutcome::Unknown("the record has changed".into()),
        };
        if happens {
            if let Some(old) = &self.register {
                assert!(
                    record.generation >= old.generation
                        && record.last_checkpoint_id >= old.last_checkpoint_id
                );
                if record.outcome == JobOutcome::Running && old.outcome == JobOutcome::Running {
                    let newest = |r: &RegisterRecord| r.completed.last().map(|c| c.id);
                    assert!(
                        newest(&record) >= newest(old),
                        "seed {}: the newest checkpoint went back",
                        self.seed
                    );
                }
            }
            self.register = Some(record);
        }
        self.answer(node, Event::RegisterUpdated { outcome });
    }

    pub(super) fn write_metadata(
        &mut self,
        node: Option<usize>,
        path: String,
        metadata: Box<CheckpointMetadata>,
    ) {
        let checkpoint = metadata.id;
        let (fault, kind) = (self.fault(), self.below(4));
        let outcome = match (fault, kind) {
            (true, 0) => WriteOutcome::Failed("no space".into()),
            (true, _) => WriteOutcome::Unknown("timed out".into()),
            _ => WriteOutcome::Written,
        };
        match (fault, kind) {
            (true, 0 | 1) => {}
            (true, 2) => {
                let (node, path) = (None, path.clone());
                self.bag.push(Action::WriteMetadata { node, path, metadata });
            }
            _ => {
                self.files.entry(path.clone()).or_default().insert(format!("{path}/_metadata"));
                self.metadata.insert(path, *metadata);
            }
        }
        self.answer(node, Event::MetadataWritten { checkpoint, outcome });
    }

    pub(super) fn delete(&mut self, node: Option<usize>, discard: DiscardId, target: DiscardTarget) {
        let mut failure = None;
        if self.fault() {
            failure = Some("hung".to_owned());
        } else {
            match target {
                DiscardTarget::Directory { path, shared } => {
                    self.files.remove(&path);
                    self.metadata.remove(&path);
                    if self.fault() {
                        failure = Some("died half way".to_owned());
                    } else {
                        self.delete_files(&shared);
                    }
                }
                DiscardTarget::Files(files) => self.delete_files(&files),
            }
        }
        self.answer(node, Event::DiscardDone { discard, failure });
    }

    fn delete_files(&mut self, files: &[String]) {
        for file in files {
            let directory = file.split('/').next().unwrap_or_default();
            if let Some(all) = self.files.get_mut(directory)
                && all.remove(file)
            {
                self.shared_deleted += u64::from(directory == checkpoint_paths::SHARED_FOLDER);
            }
        }
        self.files.retain(|_, files| !files.is_empty());
    }

    pub(super) fn read_references(
        &mut self,
        node: usize,
        completed: &[CompletedRef],
        retained: &[CompletedRef],
    ) {
        let mut references = References::default();
        for checkpoint in completed.iter().chain(retained) {
            let fault = self.fault();
            match self.metadata.get(&checkpoint.path).filter(|_| !fault) {
                Some(metadata) => references.found.push((checkpoint.id, shared_of(metadata.streams()))),
                None => references.unreadable.push(format!("{} cannot be read", checkpoint.path)),
            }
        }
        self.answer(Some(node), Event::ReferencesRead { references });
    }

    pub(super) fn list_shared(&mut self, node: usize) {
        let files = self.files.get(checkpoint_paths::SHARED_FOLDER).into_iter().flatten().cloned().collect();
        let result = if self.fault() { Err("unreachable".into()) } else { Ok(files) };
        self.answer(Some(node), Event::SharedListed { result });
    }
}

/// The shared files among these.
pub(super) fn shared_of<'a>(streams: impl Iterator<Item = &'a StreamHandle>) -> Vec<String> {
    let shared: BTreeSet<&str> =
        streams.filter(|stream| stream.is_shared()).filter_map(StreamHandle::path).collect();
    shared.into_iter().map(str::to_owned).collect()
}
