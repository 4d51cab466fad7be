//! The REST interface: Flink's paths and JSON for jobs, checkpoints, savepoints, stop and cancel.
//!
//! One server answers for all jobs of a process. [`open`] starts it, or joins the one that runs, and gives a
//! [`Door`] by which a job is admitted; the server ends with the last of its jobs. `docs/rest.md` has the
//! paths, and what differs from Flink.
//!
//! A request only looks at what the JobManager publishes, or hands it a message: it never blocks a worker or
//! the JobManager. What takes its time (a checkpoint, a savepoint, a stop) is an *operation*: it runs on a
//! thread of its own, and its outcome is kept for a while under the id that the request was answered with.
//!
//! The floors of this crate, the highest first. A floor uses those below it and none above: `cargo xtask
//! rules` reads this table and checks it.
//!
//! | floor | what is inside |
//! |---|---|
//! | `process` | the server of this process: when it starts, whose jobs it shows, when it ends |
//! | `server` | the listener, its thread, and the time that a client has |
//! | `routes` | which path does what |
//! | `calls` | what operations do: a checkpoint, a savepoint, a stop, a disposal |
//! | `json` | what jobs and checkpoints look like in Flink's JSON |
//! | `operations` | operations that are under way, and what became of those that are not |
//! | `guard`, `jobs` | who may ask; the jobs that can be asked about |
//! | `reply`, `settings` | answers and errors; where the server listens |

mod calls;
mod guard;
mod jobs;
mod json;
mod operations;
mod process;
mod reply;
mod routes;
mod server;
mod settings;

pub use process::{Door, open};
pub use settings::{Ports, RestSettings};
