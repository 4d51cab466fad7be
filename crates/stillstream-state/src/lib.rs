//! State of Stillstream jobs: kinds, serializers, keyed and operator backends, timers, snapshot and restore.
//!
//! | module | what is inside |
//! |---|---|
//! | [`data`] | [`Data`]: binary form, schema and hash of users' types |
//! | [`table`] | the hash table with page-wise copy-on-write under the heap backend |

extern crate self as stillstream_state;

pub mod data;
pub mod table;

pub use data::{Data, DecodeError, Key, KeyHasher, Schema};
pub use stillstream_derive::Data;
