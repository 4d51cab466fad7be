//! `verify`: does everything that a checkpoint names exist, whole?

use serde_json::{Value, json};
use stillstream_storage::{Location, RetainedCheckpoint, StorageError, StorageOptions};
use stillstream_types::{CheckpointMetadata, CompletedRef, Error, StreamHandle, checkpoint_paths};

use crate::places;
use crate::table::bytes;
use crate::{Answer, Reach};

/// What was found in one checkpoint.
struct Found {
    path: String,
    files: usize,
    size: u64,
    wrong: Vec<String>,
}

fn look(path: &str, lengths: bool, options: &StorageOptions) -> Result<Found, Error> {
    let mut found = Found { path: path.to_owned(), files: 0, size: 0, wrong: Vec::new() };
    let opened = match RetainedCheckpoint::open(path, options) {
        Ok(opened) => opened,
        // that is no damage, unless it is the folder of a checkpoint
        Err(error @ StorageError::BadLocation { .. }) if !is_of_a_checkpoint(path) => {
            return Err(error.into_error());
        }
        Err(error) => {
            found.wrong.push(error.to_string());
            return Ok(found);
        }
    };
    let metadata: &CheckpointMetadata = opened.metadata();
    let mut seen = std::collections::HashSet::new();
    for stream in metadata.streams() {
        if stream.path().is_some_and(|path| !seen.insert(path.to_owned())) {
            continue;
        }
        found.files += usize::from(stream.path().is_some());
        found.size += StreamHandle::len(stream);
        let looked = match lengths {
            true => opened.streams().check_len(stream),
            false => opened.streams().check_sum(stream),
        };
        // all that is wrong, and not only the first thing
        found.wrong.extend(looked.err().map(|error| error.to_string()));
    }
    Ok(found)
}

/// Whether this folder is there, under a name that a checkpoint or savepoint gets.
fn is_of_a_checkpoint(path: &str) -> bool {
    let Ok(place) = Location::parse(path) else { return false };
    let is_there = match &place {
        Location::Local(path) => path.is_dir(),
        // its metadata was missed, and no store of this kind has folders without a file in them
        Location::Remote(_) => true,
    };
    let named =
        |name: &str| checkpoint_paths::checkpoint_of(name).is_some() || name.starts_with("savepoint-");
    is_there && place.split().is_some_and(|(_, name)| named(&name))
}

/// The checkpoint at `path`, or all of the job whose directory it is.
fn paths(path: &str, reach: &Reach) -> Result<Vec<String>, Error> {
    let is_job = std::path::Path::new(path.trim_end_matches('/')).file_name().and_then(|name| name.to_str());
    if is_job.is_none_or(|name| name.parse::<stillstream_types::JobId>().is_err()) {
        return Ok(vec![path.to_owned()]);
    }
    let mut paths = Vec::new();
    for job in places::jobs(path, reach)? {
        let loaded = job.load_register().map_err(StorageError::into_error)?;
        let record = loaded.map(|loaded| loaded.record);
        let named = record.iter().flat_map(|record| record.retained.iter().chain(&record.completed));
        let owner_has = |named: &&CompletedRef| {
            // a savepoint may be moved or deleted by whoever asked for it, which is no damage to the job
            let open = || RetainedCheckpoint::open(&named.path, &reach.options);
            !named.is_savepoint() || !matches!(open(), Err(StorageError::BadLocation { .. }))
        };
        paths.extend(named.filter(owner_has).map(|named| places::directory(&job, named)));
    }
    Ok(paths)
}

pub(crate) fn run(path: &str, lengths: bool, reach: &Reach) -> Result<Answer, Error> {
    let (mut text, mut shown, mut damaged) = (String::new(), Vec::new(), false);
    for checkpoint in paths(path, reach)? {
        let found = match look(&checkpoint, lengths, &reach.options) {
            // the register names it
            Err(error) if checkpoint != path => {
                Found { path: checkpoint, files: 0, size: 0, wrong: vec![error.to_string()] }
            }
            found => found?,
        };
        let Found { path, files, size, wrong } = found;
        let size_text = bytes(size);
        let what = if lengths { "are there with their lengths" } else { "have their checksums" };
        match wrong.is_empty() {
            true => text
                .push_str(&format!("{path}: whole: {files} files and inline state, {size_text}, {what}\n")),
            false => {
                damaged = true;
                text.push_str(&format!("{path}: DAMAGED\n"));
                wrong.iter().for_each(|wrong| text.push_str(&format!("  {wrong}\n")));
            }
        }
        shown.push(json!({
            "path": path, "files": files, "bytes": size, "damaged": !wrong.is_empty(), "errors": wrong,
        }));
    }
    if shown.is_empty() {
        text = format!("`{path}` has no completed checkpoint\n");
    }
    Ok(Answer { text, json: Value::Array(shown), damaged })
}
