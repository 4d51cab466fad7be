//! `gc`: what the files in a job's directory are for, and deleting those that nothing needs.

use serde_json::json;
use stillstream_storage::{FileUse, Location, StorageError};
use stillstream_types::{Error, ErrorKind, JobOutcome};

use crate::arguments::JobArguments;
use crate::places;
use crate::table::{bytes, table};
use crate::{Answer, Reach};

/// Whether a file has a kind of use.
type Is = fn(&FileUse) -> bool;

/// Files that are named one by one at most.
const NAMED: usize = 50;

pub(crate) fn run(
    arguments: &JobArguments,
    delete: bool,
    take_over: bool,
    reach: &Reach,
) -> Result<Answer, Error> {
    let job = places::job(arguments, reach)?;
    let survey = job.survey().map_err(StorageError::into_error)?;
    let kinds: [(&str, Is); 5] = [
        ("register and lock", |used| matches!(used, FileUse::Register)),
        ("checkpoints", |used| matches!(used, FileUse::Checkpoint(_))),
        ("shared by checkpoints", |used| matches!(used, FileUse::Shared(_))),
        ("orphans", |used| matches!(used, FileUse::Orphan)),
        ("left alone", |used| matches!(used, FileUse::Unsure(_))),
    ];
    let mut rows = vec![vec!["what".to_owned(), "files".into(), "size".into()]];
    let mut totals = serde_json::Map::new();
    for (name, is) in kinds {
        let (files, size) = survey.total(is);
        rows.push(vec![name.into(), files.to_string(), bytes(size)]);
        totals.insert(name.into(), json!({ "files": files, "bytes": size }));
    }
    let mut text = format!("job `{}` in {}\n{}", survey.record.job_name, job.display(), table(&rows));
    let why = |used: &FileUse| match used {
        FileUse::Orphan => Some("orphan"),
        FileUse::Unsure(why) => Some(*why),
        _ => None,
    };
    let named: Vec<_> = survey.files.iter().filter_map(|file| Some((file, why(&file.used)?))).collect();
    for (file, why) in named.iter().take(NAMED) {
        text.push_str(&format!("  {} ({}): {why}\n", file.path, bytes(file.len)));
    }
    if named.len() > NAMED {
        text.push_str(&format!("  ... {} more\n", named.len() - NAMED));
    }
    let (orphans, size) = survey.total(|used| matches!(used, FileUse::Orphan));
    let mut deleted = None;
    match (delete, orphans) {
        (_, 0) => text.push_str("nothing is left over\n"),
        (false, orphans) => {
            text.push_str(&format!("{orphans} files, {}, would go with --delete\n", bytes(size)));
        }
        (true, _) => {
            let may_run = survey.record.outcome == JobOutcome::Running;
            if may_run && !take_over && matches!(Location::parse(&job.display()), Ok(Location::Remote(_))) {
                let text = format!(
                    "`{}` is reached over the network, and nobody sees whether a process runs the job there: stop the job first, \
                     or add `--take-over` if none runs (one that does would end)",
                    job.display()
                );
                return Err(Error::new(ErrorKind::Fenced, text));
            }
            // the claim refuses where a process owns the job, and fences off one that looks dead and is not
            let mut lease = job.claim(&survey.record.job_name).map_err(StorageError::into_error)?;
            lease.refresh().map_err(StorageError::into_error)?;
            let report = job.sweep_orphans(lease.record(), lease.generation());
            deleted = Some(report.files.deleted);
            text.push_str(&format!("{} files were deleted\n", report.files.deleted));
            report.left.iter().for_each(|left| text.push_str(&format!("  left alone: {left}\n")));
            if let Some(failed) = report.files.failed.first() {
                let count = report.files.failed.len();
                let text =
                    format!("{count} files could not be deleted, and stay for the next time: {failed}");
                return Err(Error::new(ErrorKind::Storage, text));
            }
        }
    }
    let files = named.iter().map(|(file, why)| json!({ "path": file.path, "bytes": file.len, "why": why }));
    let json = json!({
        "job": survey.record.job_name, "id": survey.record.job.to_string(), "totals": totals,
        "files": files.collect::<Vec<_>>(), "deleted": deleted,
    });
    Ok(Answer { text, json, damaged: false })
}
