//! The last failures of a job, for people.

use std::collections::VecDeque;

/// So many failures are remembered (Flink's `web.exception-history-size`).
pub const EXCEPTIONS: usize = 16;

/// One failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExceptionEntry {
    /// When the job knew what follows from it: milliseconds since 1970.
    pub at_ms: i64,
    /// What happened.
    pub message: String,
    /// The task that failed, where that is known: "`map` subtask 3".
    pub task: Option<String>,
    /// Whether another attempt follows; otherwise it ends the job.
    pub restarted: bool,
}

/// The last ones, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Exceptions(VecDeque<ExceptionEntry>);

impl Exceptions {
    pub(super) fn push(&mut self, entry: ExceptionEntry) {
        self.0.push_back(entry);
        if self.0.len() > EXCEPTIONS {
            self.0.pop_front();
        }
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &ExceptionEntry> {
        self.0.iter()
    }
}
