//! What tests of Stillstream jobs need, shipped to users.
//!
//! | module | what is inside |
//! |---|---|
//! | [`failing_store`] | a store that fails, lies or waits at a chosen operation |
//! | [`gate`] | holds a thread until the test lets it go |
//! | [`power_cut`] | a disk that loses what was not synced |
//! | [`crash_points`] | makes the process die, or a step fail, at a named place |

pub mod crash_points;
pub mod failing_store;
pub mod gate;
pub mod power_cut;

pub use crash_points::{CrashPoints, CrashRule};
pub use failing_store::{FailingStore, Fault, Op, Rule};
pub use gate::Gate;
pub use power_cut::PowerCut;
