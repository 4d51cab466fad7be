//! The failures of a job.

use serde_json::{Value, json};
use stillstream_jobmaster::ExceptionEntry;
use stillstream_runtime::job::JobClient;

/// So many are kept; one more has been forgotten when there are as many.
const KEPT: usize = 16;

/// `/jobs/:id/exceptions`. The newest comes first, as in Flink. There are no classes of exceptions here and
/// no stack traces: in their place stands the error, which says what, where and what to do.
pub(crate) fn exceptions(job: &JobClient) -> Value {
    let exceptions = job.exceptions();
    let newest = exceptions.last();
    json!({
        "root-exception": newest.map(|one| one.message.as_str()),
        "timestamp": newest.map(|one| one.at_ms),
        "all-exceptions": [],
        "truncated": false,
        "exceptionHistory": {
            "entries": exceptions.iter().rev().map(entry).collect::<Vec<_>>(),
            "truncated": exceptions.len() >= KEPT && job.restarts() >= KEPT as u64,
        },
    })
}

fn entry(one: &ExceptionEntry) -> Value {
    json!({
        "exceptionName": one.message.lines().next().unwrap_or_default(),
        "stacktrace": one.message,
        "timestamp": one.at_ms,
        "failureLabels": {},
        "taskName": one.task,
        "endpoint": null,
        "taskManagerId": null,
        "concurrentExceptions": [],
        "stillstream-restarted": one.restarted,
    })
}
