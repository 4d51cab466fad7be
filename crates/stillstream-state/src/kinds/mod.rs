//! The kinds of keyed state, as handles that users hold.
//!
//! There is no ambient current key: each call takes the context that knows it, so a state can't be read or
//! written under the key of whatever ran last. The handles do not name the key's type; a backend's own tables
//! do.

mod aggregating;
mod list;
mod map;
mod map_entries;
mod reducing;
mod timer;
mod value;

pub use aggregating::{Aggregate, AggregatingState};
pub use list::ListState;
pub use map::MapState;
pub use map_entries::MapEntries;
pub use reducing::ReducingState;
pub use timer::{TimeDomain, Timer};
pub use value::ValueState;

pub use list::ListStore;
pub use map::MapStore;
pub use value::ValueStore;

pub(crate) use aggregating::Fold;

use std::any::Any;
use std::fmt;

use stillstream_types::KeyHash;

/// The key under which state is used: the key itself and its hash, computed once per record.
#[derive(Clone, Copy)]
pub struct CurrentKey<'a> {
    /// The key: a `&K` of the backend's key type.
    pub key: &'a dyn Any,
    /// Its hash and key group.
    pub hash: KeyHash,
}

impl<'a> CurrentKey<'a> {
    /// This key, whose hash is known.
    pub fn new<K: Any>(key: &'a K, hash: KeyHash) -> Self {
        Self { key, hash }
    }
}

impl fmt::Debug for CurrentKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentKey").field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// Something that knows the current key: the context of a function call.
pub trait Keyed {
    /// The key that the call is about.
    fn current_key(&self) -> CurrentKey<'_>;
}

impl Keyed for CurrentKey<'_> {
    #[inline]
    fn current_key(&self) -> CurrentKey<'_> {
        *self
    }
}

/// What kind a state is of. Stored in snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateKind {
    /// [`ValueState`], also with a namespace.
    Value,
    /// [`ListState`].
    List,
    /// [`MapState`].
    Map,
    /// [`ReducingState`].
    Reducing,
    /// [`AggregatingState`].
    Aggregating,
    /// Timers of event time.
    EventTimers,
    /// Timers of processing time.
    ProcessingTimers,
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value => "value state",
            Self::List => "list state",
            Self::Map => "map state",
            Self::Reducing => "reducing state",
            Self::Aggregating => "aggregating state",
            Self::EventTimers => "event-time timers",
            Self::ProcessingTimers => "processing-time timers",
        })
    }
}
