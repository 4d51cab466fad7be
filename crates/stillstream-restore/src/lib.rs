//! Whether a snapshot can be restored into a program, known before anything is started.
//!
//! Both sides are described as data: a program by [`PlanDescription`], which is made by opening its operators
//! without running them, and a snapshot by the headers of its files. [`check`] compares the two and says for
//! each state what becomes of it. The start of a job and the command `stillstream restore-plan` call the same
//! function, so they use the same sentences.
//!
//! | module | what is inside |
//! |---|---|
//! | `description` | what a program has: operators, and their states with types; as JSON |
//! | `contents` | what a snapshot has: states with types, by its headers alone |
//! | `check` | what becomes of each state, and why a restore is refused |
//! | `show` | both for people |

mod check;
mod contents;
mod description;
mod show;

pub use check::{
    Choices, KeyGroupsFrom, LeftBehind, OperatorCheck, RestoreCheck, StateCheck, SubtaskCheck, Verdict, check,
};
pub use contents::{States, states_of};
pub use description::{
    Backend, DescriptionError, Kind, OperatorDescription, PLAN_VERSION, PlanDescription, StateDescription,
    Type,
};
pub use show::without_uid;
