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
pub(crate) struct Header {
    pub key: Schema,
    pub max_parallelism: u32,
    pub states: Vec<StateMeta>,
}

impl Header {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        VERSION.encode(&mut out);
        self.key.to_bytes().encode(&mut out);
        self.max_parallelism.encode(&mut out);
        (self.states.len() as u32).encode(&mut out);
        self.states.iter().for_each(|state| state.encode(&mut out));
        out
    }

    /// Reads a header; `path` is only for the error.
    pub fn from_bytes(mut bytes: &[u8], path: &str) -> Result<Self, StateError> {
        let malformed =
            |why: String| StateError::Malformed { path: path.into(), part: "its header".into(), why };
        let input = &mut bytes;
        if !input.starts_with(&MAGIC) {
            return Err(malformed("it is not a keyed state of Stillstream".into()));
        }
        *input = &input[MAGIC.len()..];
        let mut read = || -> Result<Result<Self, u32>, DecodeError> {
            let version = u32::decode(input)?;
            if version != VERSION {
                return Ok(Err(version));
            }
            let key = Schema::from_bytes(&Vec::decode(input)?)?;
            let max_parallelism = u32::decode(input)?;
            let mut states = Vec::new();
            for _ in 0..u32::decode(input)? {
                states.push(StateMeta::decode(input)?);
            }
            Ok(Ok(Self { key, max_parallelism, states }))
        };
        match read() {
            Ok(Ok(header)) => Ok(header),
            Ok(Err(found)) => Err(StateError::FormatVersion { path: path.into(), found, supported: VERSION }),
            Err(error) => Err(malformed(error.to_string())),
        }
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
        if K::schema().compatible_with(&self.key) != Compatibility::AsIs {
            return Err(StateError::KeyIncompatible {
                names: self.names(),
                stored: self.key.to_string(),
                wanted: K::schema().to_string(),
            });
        }
        Ok(())
    }

    /// The states' names, for an error.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.states.iter().map(|state| format!("`{}`", state.name)).collect();
        names.join(", ")
    }
}

/// What an error calls the place where a snapshot lies.
pub(crate) fn path_of(handle: &KeyedStateHandle) -> &str {
    handle.stream.path().unwrap_or("(inline state)")
}
