//! What every kind of state in RocksDB needs: scratch space, decoding, limits, and the view of the backend.

use stillstream_data::{Data, Key};
use stillstream_data::{DecodeError, Schema, decode_stored};
use stillstream_state::StateError;
use stillstream_state::kinds::CurrentKey;

use crate::db::Family;

/// Scratch space for one entry.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Entry {
    pub fn set<V: Data>(&mut self, value: &V) {
        self.value.clear();
        value.encode(&mut self.value);
    }
}

/// The key as the backend's own type.
#[inline]
pub(crate) fn typed<'a, K: Key>(family: &Family, key: CurrentKey<'a>) -> Result<&'a K, StateError> {
    key.key.downcast_ref().ok_or_else(|| StateError::KeyType {
        name: family.name.to_string(),
        expected: std::any::type_name::<K>(),
    })
}

/// Reads a value that fills its bytes.
#[inline]
pub(crate) fn decode<V: Data>(family: &Family, mut bytes: &[u8]) -> Result<V, StateError> {
    let value = V::decode(&mut bytes).map_err(unreadable(family))?;
    match bytes.is_empty() {
        true => Ok(value),
        false => Err(unreadable(family)(left_over(bytes))),
    }
}

pub(crate) fn left_over(bytes: &[u8]) -> DecodeError {
    DecodeError::Invalid { what: "entry", why: format!("{} bytes are left over", bytes.len()) }
}

pub(crate) fn unreadable(family: &Family) -> impl Fn(DecodeError) -> StateError + '_ {
    |source| StateError::Decode { name: family.name.to_string(), source }
}

/// Refuses a value that RocksDB cannot hold.
#[inline]
pub(crate) fn check_size(family: &Family, value: &[u8]) -> Result<(), StateError> {
    let limit = family.database().tuning.options.max_value_bytes;
    match value.len() as u64 <= limit {
        true => Ok(()),
        false => {
            Err(StateError::EntryTooLarge { name: family.name.to_string(), size: value.len() as u64, limit })
        }
    }
}

/// A registered state, as the backend sees it.
pub(crate) trait RocksState {
    /// The entries were changed behind the state's back: what it remembers of them is read again.
    fn reload(&self) -> Result<(), StateError>;
    /// Entries that are in memory only are given to the writer: a barrier comes after them.
    fn hand_over(&self) -> Result<(), StateError> {
        Ok(())
    }
    /// How many entries, if that is known without looking.
    fn known_len(&self) -> Option<usize> {
        None
    }
}

/// Writes a stored value anew in the program's own form, from the schema that it was stored with. Each kind
/// hands out the parts of an entry that have a schema of their own: a map's values, the others' whole value.
pub(crate) type Migrate = fn(&Schema, &[u8]) -> Result<Vec<u8>, DecodeError>;

/// The [`Migrate`] of a type.
pub(crate) fn migrate<V: Data>(stored: &Schema, mut bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let value: V = decode_stored(stored, &mut bytes)?;
    if !bytes.is_empty() {
        return Err(left_over(bytes));
    }
    let mut out = Vec::new();
    value.encode(&mut out);
    Ok(out)
}
