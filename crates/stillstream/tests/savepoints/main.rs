//! Savepoints and stops, as the program that runs a job sees them: what they leave, and what goes on from
//! there.

mod drain;
mod failures;
mod kills;
#[path = "../paced/mod.rs"]
mod paced;
mod program;
mod running;
mod stops;
