//! The workers of a job: threads of this process, or processes on this machine.
//!
//! | module | what is inside |
//! |---|---|
//! | `fleet` | what an attempt needs of any fleet of workers, and the fleet of threads |
//! | `remote`, `process` | worker processes: the JobManager's side, and theirs |
//! | `wire` | the messages between the two |
//! | `door`, `peers` | who may connect to the JobManager, and to a worker process |

mod door;
pub(crate) mod fleet;
mod peers;
pub(crate) mod process;
pub(crate) mod remote;
mod wire;

/// 128 random bits as text.
pub(crate) fn random_token() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let word = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", word(), word())
}
