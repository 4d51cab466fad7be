//! Finding jobs and checkpoints at the places that a person names.

use std::sync::Arc;

use stillstream_storage::metadata::METADATA_FILE;
use stillstream_storage::{BlobStore, CheckpointStorage, JobStorage, Location, StorageError};
use stillstream_types::{CompletedRef, Error, ErrorKind, JobId};

use crate::Reach;
use crate::arguments::JobArguments;

/// The place that a person means: on a disk it must be there, and links are followed.
fn place(dir: &str) -> Result<Location, Error> {
    match Location::parse(dir).map_err(StorageError::into_error)? {
        Location::Local(path) => std::fs::canonicalize(&path).map(Location::Local).map_err(|error| {
            Error::new(ErrorKind::Storage, format!("cannot look at `{}`: {error}", path.display()))
        }),
        remote => Ok(remote),
    }
}

/// The names of the folders in it.
fn folders(place: &Location, reach: &Reach) -> Result<(Arc<dyn BlobStore>, Vec<String>), Error> {
    let store = place.open(&reach.options).map_err(StorageError::into_error)?;
    let mut names = store.folders("").map_err(StorageError::into_error)?;
    names.sort();
    Ok((store, names))
}

/// All jobs of a checkpoint directory; or the one whose directory it is.
pub(crate) fn jobs(dir: &str, reach: &Reach) -> Result<Vec<JobStorage>, Error> {
    let place = place(dir)?;
    let storage = |store| CheckpointStorage::with_store(store, reach.options.clone(), reach.handle.clone());
    if let Some((above, name)) = place.split()
        && let Ok(id) = name.parse::<JobId>()
    {
        let store = above.open(&reach.options).map_err(StorageError::into_error)?;
        return Ok(vec![storage(store).job(id)]);
    }
    let (store, names) = folders(&place, reach)?;
    let storage = storage(store);
    Ok(names.iter().filter_map(|name| name.parse().ok()).map(|id| storage.job(id)).collect())
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
pub(crate) fn savepoints(dir: &str, reach: &Reach) -> Result<Vec<String>, Error> {
    let place = place(dir)?;
    let (store, names) = folders(&place, reach)?;
    let is_one = |name: &String| {
        !name.starts_with("chk-")
            && name.parse::<JobId>().is_err()
            && store.len(&format!("{name}/{METADATA_FILE}")).is_ok()
    };
    Ok(names.iter().filter(|name| is_one(name)).map(|name| place.join(name).to_string()).collect())
}

/// The job's name, if its register can be read.
pub(crate) fn name(job: &JobStorage) -> Option<String> {
    job.load_register().ok().flatten().map(|loaded| loaded.record.job_name)
}

/// The one job that is meant.
pub(crate) fn job(arguments: &JobArguments, reach: &Reach) -> Result<JobStorage, Error> {
    let mut jobs = jobs(&arguments.dir, reach)?;
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
