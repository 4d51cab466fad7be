//! Users' functions with state: the traits, and what each call is told.
//!
//! | trait | input |
//! |---|---|
//! | [`KeyedProcess`] | one keyed stream |
//! | [`CoProcess`] | two keyed streams with one key |
//! | [`BroadcastProcess`] | a keyed stream, and one whose every record goes to every subtask |
//! | [`Process`] | one stream without keys |
//! | [`ConnectedProcess`] | two streams without keys, of which one may be broadcast |

mod broadcast_process;
mod co_process;
mod context;
mod each_key;
mod expiring;
mod keyed_process;
mod plain_process;
mod process;
mod runtime_context;
mod states;

pub use broadcast_process::{BroadcastContext, BroadcastProcess};
pub use co_process::{CoContext, CoProcess, CoStates};
pub use context::{KeyedContext, TimerAccess};
pub use each_key::EachKey;
pub use expiring::ExpiringStates;
pub use keyed_process::{Context, KeyedProcess, States};
pub use plain_process::ProcessContext;
pub use process::{ConnectedProcess, OperatorStates, Process, TimedContext};
pub use runtime_context::{Counter, RuntimeContext};
pub use states::{BroadcastStates, KeyedStates};
