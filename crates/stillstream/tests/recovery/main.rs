//! Between two attempts and at the end: commits, splits, work of attempts that are over, who owns a place,
//! how a job ends.

mod commits;
mod discovery;
mod ends;
mod old_attempts;
mod ownership;
#[path = "../paced/mod.rs"]
mod paced;
mod restarts;
mod splits;
