//! What workers tell one another beside the records: credits, and how far groups of sources are in event
//! time.
//!
//! 1. Whoever sends a batch counts it as in flight on its edge to that worker
//!    ([`Credits::sent`](credits::Credits::sent)).
//! 2. A task that has processed a batch counts it as owed to its sender
//!    ([`Credits::processed`](credits::Credits::processed)).
//! 3. What is owed becomes a note of a second, small dataflow when it is much, or when the worker has nothing
//!    else to do ([`Notes`](notes::Notes)). A worker that owes something does not fall asleep: its senders
//!    may be waiting for nothing else.
//! 4. The note takes what it names out of the sender's count, brings the new limit, and wakes the tasks that
//!    wait.
//!
//! Notes lie outside of the job's dataflow, so nothing that holds a record or a barrier back holds a credit
//! back.
//!
//! | module | what is inside |
//! |---|---|
//! | `credits` | what is in flight on each edge, and what is owed for it |
//! | `pace` | how fast a task works its input off, which decides how much may be in flight before it |
//! | [`watermark_groups`] | sources that keep together in event time |
//! | `notes` | the second dataflow |

use std::cell::RefCell;

pub(crate) mod credits;
pub(crate) mod notes;
pub(crate) mod pace;
pub mod watermark_groups;

use credits::{Credits, FlowLimits};
use watermark_groups::WatermarkGroups;

/// What one worker knows of the others during one attempt.
pub(crate) struct Flow {
    /// The worker's index.
    worker: usize,
    pub credits: RefCell<Credits>,
    pub watermark_groups: WatermarkGroups,
}

impl Flow {
    pub fn new(worker: usize, workers: usize, edges: usize, limits: FlowLimits) -> Self {
        Self {
            worker,
            credits: RefCell::new(Credits::new(worker, workers, edges, limits)),
            watermark_groups: WatermarkGroups::new(worker),
        }
    }
}
