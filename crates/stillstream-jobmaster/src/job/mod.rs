//! The life of a job.

pub(crate) mod restart;
pub(crate) mod start;
pub(crate) mod status;
