//! Finding jobs and checkpoints at the places that a person names.

use std::path::{Path, PathBuf};

use stillstream_storage::metadata::METADATA_FILE;
use stillstream_storage::{CheckpointStorage, JobStorage, Location, StorageError, StorageOptions};
use stillstream_types::{CompletedRef, Error, ErrorKind, JobId};
use tokio::runtime::Handle;

use crate::arguments::JobArguments;

fn local(dir: &str) -> Result<PathBuf, Error> {
    let Location::Local(path) = Location::parse(dir).map_err(StorageError::into_error)?;
    std::fs::canonicalize(&path).map_err(|error| {
        Error::new(ErrorKind::Storage, format!("cannot look at `{}`: {error}", path.display()))
    })
}

fn job_id(path: &Path) -> Option<JobId> {
    path.file_name()?.to_str()?.parse().ok()
}

fn open(dir: &Path, handle: &Handle) -> Result<CheckpointStorage, Error> {
    let opened =
        CheckpointStorage::open(&dir.display().to_string(), StorageOptions::default(), handle.clone());
    opened.map_err(StorageError::into_error)
}

/// All jobs of a checkpoint directory; or the one whose directory it is.
pub(crate) fn jobs(dir: &str, handle: &Handle) -> Result<Vec<JobStorage>, Error> {
    let path = local(dir)?;
    if let (Some(id), Some(above)) = (job_id(&path), path.parent()) {
        return Ok(vec![open(above, handle)?.job(id)]);
    }
    let unreadable = |error: std::io::Error| {
        Error::new(ErrorKind::Storage, format!("cannot list `{}`: {error}", path.display()))
    };
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(unreadable)? {
        ids.extend(job_id(&entry.map_err(unreadable)?.path()));
    }
    ids.sort_by_key(JobId::to_string);
    let storage = open(&path, handle)?;
    Ok(ids.into_iter().map(|id| storage.job(id)).collect())
}

/// Where a checkpoint or savepoint lies that the job's register names.
pub(crate) fn directory(job: &JobStorage, named: &CompletedRef) -> String {
    match named.is_savepoint() {
        true => named.path.clone(),
        false => format!("{}/{}", job.display().trim_end_matches('/'), named.path),
    }
}

/// The snapshots that lie in a directory by themselves, each in a folder of its own: savepoints, if they are
/// not copies of checkpoints.
pub(crate) fn savepoints(dir: &str) -> Result<Vec<PathBuf>, Error> {
    let path = local(dir)?;
    let unreadable = |error: std::io::Error| {
        Error::new(ErrorKind::Storage, format!("cannot list `{}`: {error}", path.display()))
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?.path();
        let of_job =
            entry.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("chk-"));
        if !of_job && entry.join(METADATA_FILE).is_file() {
            found.push(entry);
        }
    }
    found.sort();
    Ok(found)
}

/// The job's name, if its register can be read.
pub(crate) fn name(job: &JobStorage) -> Option<String> {
    job.load_register().ok().flatten().map(|loaded| loaded.record.job_name)
}

/// The one job that is meant.
pub(crate) fn job(arguments: &JobArguments, handle: &Handle) -> Result<JobStorage, Error> {
    let mut jobs = jobs(&arguments.dir, handle)?;
    if let Some(wanted) = &arguments.job {
        let is_meant =
            |job: &JobStorage| job.id().to_string() == *wanted || job.id() == JobId::from_name(wanted);
        if let Some(at) = jobs.iter().position(is_meant) {
            return Ok(jobs.swap_remove(at));
        }
    } else if jobs.len() == 1 {
        return Ok(jobs.remove(0));
    }
    let known: Vec<String> = jobs
        .iter()
        .map(|job| name(job).map_or_else(|| job.id().to_string(), |name| format!("`{name}`")))
        .collect();
    let dir = &arguments.dir;
    let text = match (known.is_empty(), &arguments.job) {
        (true, _) => format!("`{dir}` has no job's directory in it: name a checkpoint directory, or a job's"),
        (false, Some(job)) => format!("`{dir}` has no job `{job}`; there are {}", known.join(", ")),
        (false, None) => {
            format!("`{dir}` has {} jobs: choose one with --job: {}", known.len(), known.join(", "))
        }
    };
    Err(Error::new(ErrorKind::Configuration, text))
}
