//! What a keyed backend is, and what it is written with.
//!
//! A backend is a crate that implements [`KeyedBackend`] and a [`BackendFactory`] and passes the suite in
//! `conformance`. A job learns of it in one line, where the runtime names the backends that it can choose
//! from as one [`Either`] of factories.
//!
//! | file | what is inside |
//! |---|---|
//! | `keyed` | [`KeyedBackend`]: the kinds of state that a backend must have, its snapshots, its restore |
//! | `typed` | [`KeyedValues`], [`NamespacedValues`], [`TimerService`]: state whose key type is known |
//! | `either` | [`Either`]: one of two backends, so of any number |
//! | `registry` | [`Registry`]: the states of a backend by name |
//! | `frozen` | [`FrozenCheckpoint`]: the asynchronous part of a checkpoint |
//!
//! What a backend needs beside: stores for the kinds of state ([`ValueStore`](crate::kinds::ValueStore) and
//! its like), entries to be written and as they were read ([`Run`](crate::snapshot::Run),
//! [`Chunk`](crate::snapshot::Chunk)), and what it must know of states with a time to live
//! ([`Rules`](crate::ttl::Rules)).

mod either;
mod frozen;
mod keyed;
mod registry;
mod typed;

pub use either::Either;
pub use frozen::FrozenCheckpoint;
pub use keyed::{BackendFactory, KeyedBackend};
pub use registry::Registry;
pub use typed::{KeyedValues, Namespace, NamespaceWalk, NamespacedValues, TimerService};

use stillstream_types::{KeyGroupRange, KeyGroups};

use crate::StateKind;

/// How a keyed backend is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackendOptions {
    /// Whether processing goes on while a snapshot is written (copy-on-write tables), or waits while it is
    /// encoded (plain maps). The default is asynchronous.
    pub asynchronous: bool,
    /// Whether a checkpoint writes only what changed since the last completed one, where backend and storage
    /// can do that. The default is no.
    pub incremental: bool,
    /// The job's key groups.
    pub groups: KeyGroups,
    /// The key groups of this subtask.
    pub range: KeyGroupRange,
}

impl BackendOptions {
    /// Asynchronous snapshots for this range.
    pub fn new(groups: KeyGroups, range: KeyGroupRange) -> Self {
        Self { asynchronous: true, incremental: false, groups, range }
    }

    /// Whether processing goes on while a snapshot is written.
    pub fn asynchronous(self, asynchronous: bool) -> Self {
        Self { asynchronous, ..self }
    }

    /// Whether a checkpoint writes only what changed since the last completed one.
    pub fn incremental(self, incremental: bool) -> Self {
        Self { incremental, ..self }
    }
}

/// How large a state is, so that one can say which one grows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateSize {
    /// The state's name.
    pub name: String,
    /// Its kind.
    pub kind: StateKind,
    /// Keys, keys by namespace, or timers.
    pub entries: usize,
    /// Bytes of the table; what values own elsewhere (strings, vectors) is not counted.
    pub memory_bytes: usize,
}
