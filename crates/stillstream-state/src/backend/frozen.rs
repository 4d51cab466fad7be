//! [`FrozenCheckpoint`]: what a backend hands to the snapshot pool.

use std::fmt;

use stillstream_types::KeyedSnapshot;
use stillstream_types::streams::SnapshotStore;

use crate::StateError;
use crate::snapshot::FrozenKeyedState;

/// The asynchronous part of a checkpoint of keyed state; written on the snapshot pool.
pub struct FrozenCheckpoint(Form);

type WriteOwnForm = dyn FnOnce(&dyn SnapshotStore, &str) -> Result<KeyedSnapshot, StateError> + Send;

enum Form {
    Canonical(FrozenKeyedState),
    Own(Box<WriteOwnForm>),
}

impl fmt::Debug for FrozenCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Canonical(frozen) => frozen.fmt(f),
            Form::Own(_) => f.write_str("FrozenCheckpoint"),
        }
    }
}

impl From<FrozenKeyedState> for FrozenCheckpoint {
    fn from(frozen: FrozenKeyedState) -> Self {
        Self(Form::Canonical(frozen))
    }
}

impl FrozenCheckpoint {
    /// A snapshot in the backend's own form, which `write` writes.
    pub fn own(
        write: impl FnOnce(&dyn SnapshotStore, &str) -> Result<KeyedSnapshot, StateError> + Send + 'static,
    ) -> Self {
        Self(Form::Own(Box::new(write)))
    }

    /// Writes it to `store`; `name` tells a person what is inside. Blocks.
    pub fn write(self, store: &dyn SnapshotStore, name: &str) -> Result<KeyedSnapshot, StateError> {
        match self.0 {
            Form::Canonical(frozen) => {
                Ok(KeyedSnapshot { keyed: frozen.write(store, name)?, ..KeyedSnapshot::default() })
            }
            Form::Own(write) => write(store, name),
        }
    }
}
