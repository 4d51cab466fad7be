//! The failures of a job.

use serde_json::{Value, json};
use stillstream_runtime::job::JobClient;

/// `/jobs/:id/exceptions`.
pub(crate) fn exceptions(_job: &JobClient) -> Value {
    json!({ "exceptionHistory": { "entries": [], "truncated": false } })
}
