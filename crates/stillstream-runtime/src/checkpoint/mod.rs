//! A checkpoint's part in a process: the threads that write snapshots, and the stores that they write to.

pub(crate) mod snapshot_pool;
pub(crate) mod stores;
