//! Whose file it is: metadata and register say which checkpoint and which job they are of, and so do the
//! names of their folders. Where the two differ somebody has moved files by hand, and what would be restored
//! is not what it seems to be.

use stillstream_types::{
    CheckpointId, CheckpointMetadata, CompletedRef, JobId, RegisterRecord, checkpoint_paths,
};

use crate::error::StorageError;

/// Compares metadata with the name of its folder, where that is `chk-<n>`, and with the job whose folder it
/// is in, where that is known. `shown` is what errors call the file.
pub(crate) fn check(
    shown: &str,
    folder: &str,
    job: Option<JobId>,
    metadata: &CheckpointMetadata,
) -> Result<(), StorageError> {
    let number = checkpoint_paths::checkpoint_of(folder.rsplit('/').next().unwrap_or_default());
    let other_number = number.is_some_and(|number| number != metadata.id);
    let other_job = job.is_some_and(|job| job != metadata.job);
    if !other_number && !other_job {
        return Ok(());
    }
    let place = |number: CheckpointId| match job {
        Some(job) => format!("checkpoint {number} of the job with id {job}"),
        None => format!("checkpoint {number}"),
    };
    Err(StorageError::Foreign {
        path: shown.into(),
        expected: place(number.unwrap_or(metadata.id)),
        found: format!("checkpoint {} of job `{}` with id {}", metadata.id, metadata.job_name, metadata.job),
    })
}

/// Compares the register with the job whose folder it is in, and the checkpoints that it names with their
/// folders.
pub(crate) fn check_record(shown: &str, job: JobId, record: &RegisterRecord) -> Result<(), StorageError> {
    if record.job != job {
        return Err(StorageError::Foreign {
            path: shown.into(),
            expected: format!("the job with id {job}"),
            found: format!("job `{}` with id {}", record.job_name, record.job),
        });
    }
    let named = record.completed.iter().chain(&record.retained);
    let fits = |named: &CompletedRef| match named.is_savepoint() {
        true => checkpoint_paths::is_location(&named.path),
        false => checkpoint_paths::checkpoint_of(&named.path) == Some(named.id),
    };
    match named.into_iter().find(|named| !fits(named)) {
        None => Ok(()),
        Some(named) => Err(StorageError::corrupt(
            shown,
            "folder of a checkpoint",
            format!("`{}`", checkpoint_paths::checkpoint(named.id)),
            format!("`{}`", named.path),
        )),
    }
}
