//! Jobs and checkpoints in Flink's JSON.
//!
//! | file | what is inside |
//! |---|---|
//! | `overview` | the process and its jobs: `/overview`, `/config`, `/jobs`, `/jobs/overview` |
//! | `job` | one job: `/jobs/:id`, its plan, its settings, its event time |
//! | `checkpoints` | its checkpoints: statistics, settings |
//! | `details` | one checkpoint, task by task and subtask by subtask |
//! | `exceptions` | its failures |

pub(crate) mod checkpoints;
pub(crate) mod details;
pub(crate) mod exceptions;
pub(crate) mod job;
pub(crate) mod overview;

use std::time::Duration;

/// The names of Flink's states of a task.
const TASK_STATES: [&str; 10] = [
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
    "INITIALIZING",
];

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
