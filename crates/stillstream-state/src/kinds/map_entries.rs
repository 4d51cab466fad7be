//! [`MapEntries`]: the map of one key in the heap backend.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use stillstream_types::KeyGroups;

use crate::data::{Data, DecodeError, Key, Schema, decode_stored};

/// A hash map that needs no more of its keys than that they are [`Key`]s. The hash is fixed, so equal runs
/// are equal.
#[derive(Clone, Debug)]
pub struct MapEntries<MK, MV>(HashTable<(MK, MV)>);

fn hash<MK: Key>(map_key: &MK) -> u64 {
    let bits = map_key.key_hash(KeyGroups::new(1)).bits();
    bits | (bits >> 32) << 48
}

impl<MK, MV> Default for MapEntries<MK, MV> {
    fn default() -> Self {
        Self(HashTable::new())
    }
}

impl<MK: Key, MV> MapEntries<MK, MV> {
    /// The value of an entry.
    pub fn get(&self, map_key: &MK) -> Option<&MV> {
        self.0.find(hash(map_key), |(k, _)| k == map_key).map(|(_, v)| v)
    }

    /// Sets an entry.
    pub fn insert(&mut self, map_key: MK, value: MV) {
        match self.0.entry(hash(&map_key), |(k, _)| *k == map_key, |(k, _)| hash(k)) {
            Entry::Occupied(mut entry) => entry.get_mut().1 = value,
            Entry::Vacant(entry) => {
                entry.insert((map_key, value));
            }
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, map_key: &MK) {
        if let Ok(entry) = self.0.find_entry(hash(map_key), |(k, _)| k == map_key) {
            entry.remove();
        }
    }

    /// Removes the entries for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&MV) -> bool) {
        self.0.retain(|(_, value)| keep(value));
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = &(MK, MV)> {
        self.0.iter()
    }

    /// How many entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<MK: Key, MV: Data> Data for MapEntries<MK, MV> {
    const DEPTH: usize = 1 + if MK::DEPTH > MV::DEPTH { MK::DEPTH } else { MV::DEPTH };

    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        for (map_key, value) in self.iter() {
            map_key.encode(out);
            value.encode(out);
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let mut entries = Self::default();
        for _ in 0..u32::decode(input)? {
            entries.insert(MK::decode(input)?, MV::decode(input)?);
        }
        Ok(entries)
    }

    fn schema() -> Schema {
        Schema::Map(Box::new(MK::schema()), Box::new(MV::schema()))
    }

    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        let Schema::Map(_, stored_value) = stored else {
            return Err(DecodeError::other_form("map", stored));
        };
        let mut entries = Self::default();
        for _ in 0..u32::decode(input)? {
            entries.insert(MK::decode(input)?, decode_stored(stored_value, input)?);
        }
        Ok(entries)
    }
}
