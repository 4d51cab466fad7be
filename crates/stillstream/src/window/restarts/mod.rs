//! Window operators in restarts: subtasks that had got to different watermarks, another parallelism, skewed
//! sources.

mod by_hand;
mod model;
mod purged;
mod random;
mod skew;
