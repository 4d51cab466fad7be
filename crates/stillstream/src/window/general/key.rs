//! [`WindowKey`]: a key together with a window, as one key of the state backend.

use stillstream_state::{CurrentKey, Data, DecodeError, Key, KeyHasher, Keyed, Schema};
use stillstream_types::{KeyGroups, KeyHash};

use crate::window::TimeWindow;

/// The key and its window as they are stored.
type Stored<K> = (K, Option<TimeWindow>);

/// Under what one key's state of one window lies; without a window, what the key has in all of them.
///
/// It is in the key group of the key alone, so that all of a key's windows move together when the parallelism
/// changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WindowKey<K> {
    pub key: K,
    pub window: Option<TimeWindow>,
}

impl<K: Key> Data for WindowKey<K> {
    const DEPTH: usize = Stored::<K>::DEPTH;

    fn encode(&self, out: &mut Vec<u8>) {
        self.key.encode(out);
        self.window.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (key, window) = Stored::decode(input)?;
        Ok(Self { key, window })
    }

    fn schema() -> Schema {
        Stored::<K>::schema()
    }

    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (key, window) = Stored::decode_evolved(stored, input)?;
        Ok(Self { key, window })
    }

    fn hash_key(&self, hasher: &mut KeyHasher) {
        self.key.hash_key(hasher);
        if let Some(window) = self.window {
            hasher.within_group(window.start.as_millis() as u64);
            hasher.within_group(window.end.as_millis() as u64);
        }
    }

    fn prefetch(&self) {
        self.key.prefetch();
    }
}

/// A window key and its hash.
#[derive(Clone, Debug)]
pub(crate) struct Place<K> {
    pub key: WindowKey<K>,
    pub hash: KeyHash,
}

impl<K: Key> Place<K> {
    pub fn of(key: &K, window: Option<TimeWindow>, groups: KeyGroups) -> Self {
        let key = WindowKey { key: key.clone(), window };
        let hash = key.key_hash(groups);
        Self { key, hash }
    }

    /// The same key's place of another window, or of none.
    pub fn with(&self, window: Option<TimeWindow>, groups: KeyGroups) -> Self {
        Self::of(&self.key.key, window, groups)
    }
}

impl<K: Key> Keyed for Place<K> {
    fn current_key(&self) -> CurrentKey<'_> {
        CurrentKey::new(&self.key, self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillstream_types::Timestamp;

    #[test]
    fn all_windows_of_a_key_are_in_the_keys_group_and_each_has_a_hash_of_its_own() {
        let groups = KeyGroups::new(128);
        for key in ["", "a", "hello", "user-1"].map(String::from) {
            let own = key.key_hash(groups);
            let window = |start: i64| TimeWindow {
                start: Timestamp::from_millis(start),
                end: Timestamp::from_millis(start + 5),
            };
            let places: Vec<_> =
                (0..100).map(|start| Place::of(&key, Some(window(start)), groups).hash).collect();
            assert!(places.iter().all(|hash| hash.group() == own.group()), "{key}");
            let mut bits: Vec<_> = places.iter().map(|hash| hash.bits()).collect();
            bits.extend([own.bits()]);
            bits.sort_unstable();
            bits.dedup();
            assert_eq!(bits.len(), 101, "{key}");
            assert_eq!(Place::of(&key, None, groups).hash, own, "without a window it is the key");
        }
    }

    #[test]
    fn a_window_key_reads_back_what_it_wrote() {
        for window in [None, Some(TimeWindow::GLOBAL)] {
            let key = WindowKey { key: "a".to_string(), window };
            let mut bytes = Vec::new();
            key.encode(&mut bytes);
            assert_eq!(WindowKey::decode(&mut &bytes[..]), Ok(key));
        }
    }
}
