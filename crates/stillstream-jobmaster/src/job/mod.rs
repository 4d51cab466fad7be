//! The life of a job: attempts, failures and restarts, and its one end.
//!
//! | file | what is inside |
//! |---|---|
//! | [`interface`] | what goes in and out |
//! | [`engine`] | what the coordinator's decisions mean for the job |
//! | `deploy` | the start of an attempt |
//! | `running` | what the workers of an attempt report |
//! | `stop_request` | a person stops or suspends the job |
//! | `stopping` | how an attempt stops, and what follows |
//! | `ending` | how the job ends |
//! | `figures`, `exceptions` | what the run has come to, and its last failures |
//! | [`restart`] | restart strategies |
//! | [`status`] | the states that a person sees |
//! | [`start`] | whether a start runs the job at all |
//!
//! # Phases
//!
//! ```text
//! Preparing ─► Deploying ─► Running ─► Draining ─► Ended
//!     ▲            │           │          │
//!     │            ▼           ▼          ▼
//!     │          Stopping ◄────┴──────────┘        every worker drops its dataflow, or is replaced
//!     │            │   │
//!     │            ▼   └─────► Ending ─► Ended     the outcome is being recorded
//!     └─ WaitingToRestart
//! ```
//!
//! Each wait has a deadline: *Preparing* that of the register's claim and then that of the snapshot's read,
//! *Deploying* and *Running* the heartbeats of the workers, *Draining* and *Stopping*
//! `task.cancellation.timeout`, *Ending* that of the coordinator's record.

mod deploy;
mod ending;
pub(crate) mod engine;
pub(crate) mod exceptions;
pub(crate) mod figures;
pub(crate) mod interface;
pub(crate) mod restart;
mod running;
pub(crate) mod start;
pub(crate) mod status;
mod stop_request;
mod stopping;
#[cfg(test)]
mod tests;
