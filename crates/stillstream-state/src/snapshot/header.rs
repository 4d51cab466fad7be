//! The header: what the stream holds.

use stillstream_types::{KeyGroups, KeyedStateHandle};

use crate::StateError;
use crate::data::{Compatibility, Data, DecodeError, Key, Schema};
use crate::meta::StateMeta;

const MAGIC: [u8; 4] = *b"SSKS";
/// The version that this release writes, and the newest that it reads.
pub(crate) const VERSION: u32 = 1;

/// Key type, number of key groups and states of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The type of the keys.
    pub key: Schema,
    /// The number of key groups.
    pub max_parallelism: u32,
    /// The states.
    pub states: Vec<StateMeta>,
}

impl Header {
    /// Its bytes, behind magic number and version.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        VERSION.encode(&mut out);
        self.encode(&mut out);
        out
    }

    /// What stands behind magic number and version.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.key.to_bytes().encode(out);
        self.max_parallelism.encode(out);
        (self.states.len() as u32).encode(out);
        self.states.iter().for_each(|state| state.encode(out));
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let key = Schema::from_bytes(&Vec::decode(input)?)?;
        let max_parallelism = u32::decode(input)?;
        let mut states = Vec::new();
        for _ in 0..u32::decode(input)? {
            states.push(StateMeta::decode(input)?);
        }
        Ok(Self { key, max_parallelism, states })
    }

    /// Reads a header; `path` is only for the error.
    pub fn from_bytes(bytes: &[u8], path: &str) -> Result<Self, StateError> {
        read_versioned(bytes, MAGIC, VERSION, "it is not a keyed state of Stillstream", path, Self::decode)
    }

    /// Refuses a snapshot with keys of another type or another number of key groups than the program's.
    pub fn check<K: Key>(&self, groups: KeyGroups, path: &str) -> Result<(), StateError> {
        if self.max_parallelism != groups.max_parallelism() {
            return Err(StateError::MaxParallelism {
                path: path.into(),
                stored: self.max_parallelism,
                wanted: groups.max_parallelism(),
            });
        }
        self.check_key(&K::schema())
    }

    /// Refuses a snapshot with keys of another type than the program's.
    pub fn check_key(&self, wanted: &Schema) -> Result<(), StateError> {
        match wanted.compatible_with(&self.key) {
            Compatibility::AsIs => Ok(()),
            _ => Err(StateError::KeyIncompatible {
                names: self.names(),
                stored: self.key.to_string(),
                wanted: wanted.to_string(),
            }),
        }
    }

    /// The states' names, for an error.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.states.iter().map(|state| format!("`{}`", state.name)).collect();
        names.join(", ")
    }
}

/// Reads something behind a magic number and a version; `path` is only for the error.
pub(crate) fn read_versioned<T>(
    bytes: &[u8],
    magic: [u8; 4],
    supported: u32,
    not: &str,
    path: &str,
    read: impl FnOnce(&mut &[u8]) -> Result<T, DecodeError>,
) -> Result<T, StateError> {
    let malformed = |why: String| StateError::Malformed { path: path.into(), part: "its header".into(), why };
    let Some(mut input) = bytes.strip_prefix(&magic) else { return Err(malformed(not.into())) };
    match u32::decode(&mut input) {
        Ok(found) if found != supported => {
            Err(StateError::FormatVersion { path: path.into(), found, supported })
        }
        Ok(_) => read(&mut input).map_err(|error| malformed(error.to_string())),
        Err(error) => Err(malformed(error.to_string())),
    }
}

/// What an error calls the place where a snapshot lies.
pub(crate) fn path_of(handle: &KeyedStateHandle) -> &str {
    handle.stream.path().unwrap_or("(inline state)")
}
