//! State of Stillstream jobs: kinds, serializers, keyed and operator backends, timers, snapshot and restore.
//!
//! | module | what is inside |
//! |---|---|
//! | [`data`] | [`Data`]: binary form, schema and hash of users' types |
//! | [`table`] | the copy-on-write table of the heap backend |
//! | [`kinds`] | [`ValueState`] and the other handles that users hold |

extern crate self as stillstream_state;

pub mod data;
#[doc(hidden)]
pub mod derive_support;
mod error;
pub mod kinds;
pub mod table;

#[doc(hidden)]
pub use derive_support as __private;

pub use data::{Compatibility, Data, DecodeError, Field, Key, KeyHasher, Schema};
#[cfg(feature = "serde-adapter")]
pub use data::Serde;
pub use error::StateError;
pub use kinds::{
    Aggregate, AggregatingState, CurrentKey, Keyed, ListState, MapState, ReducingState, StateKind, ValueState,
};
pub use stillstream_derive::Data;
