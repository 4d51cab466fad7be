//! What can still be known about a job when versions of its register are lost.

use std::collections::BTreeMap;

use stillstream_types::{CheckpointId, CheckpointKind, CheckpointMetadata, CompletedRef, checkpoint_paths};

use crate::checkpoint::JobStorage;
use crate::error::StorageError;
use crate::metadata::METADATA_FILE;
use crate::register::Loaded;
use crate::retained::RetainedCheckpoint;
use crate::verify::VerifyMode;

/// The checkpoints that have a directory, and whether `_metadata` is there.
pub(crate) fn checkpoint_dirs(storage: &JobStorage) -> Result<BTreeMap<CheckpointId, bool>, StorageError> {
    let mut dirs = BTreeMap::new();
    for entry in storage.store().list(&storage.streams.anchor)? {
        let Some((dir, file)) = storage.path_of(&entry.key).and_then(|path| path.split_once('/')) else {
            continue;
        };
        if let Some(id) = checkpoint_paths::checkpoint_of(dir) {
            *dirs.entry(id).or_insert(false) |= file == METADATA_FILE;
        }
    }
    Ok(dirs)
}

/// Brings the last whole record up to date.
///
/// A whole checkpoint that is newer than the record is either what a lost version named, or one that was
/// complete but not announced yet. Both are consistent cuts, and no other run went on from an older one: that
/// run's start would have deleted it.
pub(crate) fn salvage(storage: &JobStorage, mut loaded: Loaded) -> Result<Loaded, StorageError> {
    let record = &mut loaded.record;
    // each lost version raised the generation by one at most
    record.generation.0 = record.generation.0.saturating_add(loaded.damaged.len() as u64);
    let newest = record.completed.last().map_or(CheckpointId(0), |completed| completed.id);
    let named = record.completed.len();
    let mut reasons = Vec::new();
    let found = |completed: &CompletedRef| match completed.is_savepoint() {
        true => RetainedCheckpoint::open(&completed.path, &storage.options)?.verify(VerifyMode::Lengths),
        false => whole(storage, completed.id).map(drop),
    };
    record.completed.retain(|completed| match found(completed) {
        Ok(()) => true,
        Err(error) => {
            reasons.push(error.to_string());
            false
        }
    });
    for (&id, &has_metadata) in &checkpoint_dirs(storage)? {
        record.last_checkpoint_id = record.last_checkpoint_id.max(id);
        if id <= newest || !has_metadata {
            continue;
        }
        match whole(storage, id) {
            Ok(metadata) if metadata.kind != CheckpointKind::Savepoint => {
                let path = checkpoint_paths::checkpoint(id);
                record.generation = record.generation.max(metadata.generation);
                record.completed.push(CompletedRef { id, path });
            }
            Ok(_) => {}
            Err(error) => reasons.push(error.to_string()),
        }
    }
    if record.completed.is_empty() && (named > 0 || !reasons.is_empty()) {
        let looked_at = storage.register.display();
        let reason = format!(
            "{} damaged, and no checkpoint is whole: {}",
            loaded.damaged.join(", "),
            reasons.join("; ")
        );
        return Err(StorageError::RegisterUnreadable { looked_at, reason });
    }
    for reason in reasons {
        tracing::warn!(%reason, "a checkpoint is not used");
    }
    Ok(loaded)
}

fn whole(storage: &JobStorage, id: CheckpointId) -> Result<CheckpointMetadata, StorageError> {
    let metadata = storage.read_metadata(&checkpoint_paths::checkpoint(id))?;
    storage.verify(&metadata, VerifyMode::Lengths)?;
    Ok(metadata)
}
