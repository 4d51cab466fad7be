//! What operations do. Each call blocks, and is made on the operation's own thread.

use std::path::PathBuf;

use serde_json::{Value, json};
use stillstream_jobmaster::CheckpointReport;
use stillstream_runtime::job::JobClient;
use stillstream_storage::{Location, StorageError, dispose_of_savepoint};
use stillstream_types::{CheckpointType, Error, ErrorKind, Result, SavepointFormat};

use crate::jobs::Jobs;

/// A savepoint that somebody asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// The directory in which its own is made; `None`: that of the settings.
    pub directory: Option<String>,
    pub format: SavepointFormat,
}

fn location(report: CheckpointReport) -> Value {
    json!({ "location": report.path })
}

pub(crate) fn checkpoint(job: &JobClient, kind: CheckpointType) -> Result<Value> {
    let report = job.trigger_checkpoint_of_type(kind)?;
    Ok(json!({ "checkpointId": report.id.0, "stillstream-location": report.path }))
}

pub(crate) fn savepoint(job: &JobClient, wanted: &Wanted) -> Result<Value> {
    job.trigger_savepoint(wanted.directory.as_deref(), wanted.format).map(location)
}

pub(crate) fn stop(job: &JobClient, wanted: &Wanted, drain: bool) -> Result<Value> {
    job.stop_with_savepoint(wanted.directory.as_deref(), drain, wanted.format).map(location)
}

/// Deletes a savepoint that no job of this process has begun with.
pub(crate) fn dispose(jobs: &Jobs, path: &str) -> Result<Value> {
    for job in jobs.all().iter().filter(|job| !job.has_ended()) {
        let from =
            job.restored_from().and_then(|from| from.location).or_else(|| job.info().from_snapshot.clone());
        if from.is_some_and(|from| same_place(&from, path)) {
            return Err(Error::new(
                ErrorKind::Storage,
                format!(
                    "`{path}` is not deleted: job `{}` was started from it and may need it for a restart",
                    job.name()
                ),
            ));
        }
    }
    // the jobs of a process reach their stores in one way, as a rule; one without a job is left with the
    // environment
    let options = jobs.all().first().map(|job| job.storage_options().clone()).unwrap_or_default();
    dispose_of_savepoint(path, &options).map_err(StorageError::into_error)?;
    Ok(json!({}))
}

/// Whether two texts name the same directory.
fn same_place(one: &str, other: &str) -> bool {
    fn place(path: &str) -> Location {
        let place = match Location::parse(path) {
            // what is not there any more has no links that could be followed
            Ok(Location::Local(path)) => Location::Local(std::fs::canonicalize(&path).unwrap_or(path)),
            Ok(remote) => remote,
            Err(_) => Location::Local(PathBuf::from(path)),
        };
        match place.split() {
            Some((above, name)) if name == "_metadata" => above,
            _ => place,
        }
    }
    place(one) == place(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_savepoint_is_known_by_any_way_to_write_its_path() {
        for path in ["/s/savepoint-1", "/s/savepoint-1/", "file:///s/savepoint-1", "/s/savepoint-1/_metadata"]
        {
            assert!(same_place(path, "/s/savepoint-1"), "{path}");
        }
        for path in ["s3://b/s-1", "s3a://b/s-1/", "s3://b/s-1/_metadata"] {
            assert!(same_place(path, "s3://b/s-1") && !same_place(path, "s3://b/s-2"), "{path}");
        }
        assert!(!same_place("/s/savepoint-1", "/s/savepoint-11"));
    }
}
