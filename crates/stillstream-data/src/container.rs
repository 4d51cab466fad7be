//! Options, lists, arrays, maps and boxes.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use crate::{Data, DecodeError, KeyHasher, Schema, decode_stored};

/// Reads `n` items; a damaged `n` reserves no more memory than the input has bytes.
pub(crate) fn read_items<T: Clone>(
    n: usize,
    input: &mut &[u8],
    mut read: impl FnMut(&mut &[u8]) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut items = Vec::with_capacity(n.min(input.len() / size_of::<T>().max(1) + 1));
    while items.len() < n {
        let before = input.len();
        let item = read(input)?;
        if input.len() == before && size_of::<T>() == 0 {
            // items without a form: no use in reading each of what may be a damaged count
            items.resize(n, item);
        } else {
            items.push(item);
        }
    }
    Ok(items)
}

impl<T: Data> Data for Option<T> {
    const DEPTH: usize = 1 + T::DEPTH;

    #[inline(always)]
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.encode(out);
            }
        }
    }
    #[inline(always)]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        read_option(input, T::decode)
    }
    fn schema() -> Schema {
        Schema::Option(Box::new(T::schema()))
    }
    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        let Schema::Option(stored) = stored else { return Err(DecodeError::other_form("option", stored)) };
        read_option(input, |input| T::decode_evolved(stored, input))
    }
    /// The hash of the value, 0 for none, as Java's `Objects.hashCode`.
    fn hash_key(&self, hasher: &mut KeyHasher) {
        match self {
            None => hasher.int(0),
            Some(value) => value.hash_key(hasher),
        }
    }
}

#[inline(always)]
fn read_option<T>(
    input: &mut &[u8],
    read: impl FnOnce(&mut &[u8]) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    let (byte, rest) = input.split_first().ok_or(DecodeError::Short { what: "option" })?;
    *input = rest;
    match byte {
        0 => Ok(None),
        1 => read(input).map(Some),
        other => Err(DecodeError::Invalid { what: "option", why: format!("0 or 1 expected, {other} found") }),
    }
}

impl<T: Data> Data for Vec<T> {
    const DEPTH: usize = 1 + T::DEPTH;

    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        T::encode_slice(self, out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let n = u32::decode(input)? as usize;
        T::decode_vec(n, input)
    }
    fn schema() -> Schema {
        Schema::List(Box::new(T::schema()))
    }
    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        let Schema::List(stored) = stored else { return Err(DecodeError::other_form("list", stored)) };
        let n = u32::decode(input)? as usize;
        read_items(n, input, |input| decode_stored(stored, input))
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        T::hash_slice(self, hasher);
    }
}

impl<T: Data, const N: usize> Data for [T; N] {
    const DEPTH: usize = 1 + T::DEPTH;

    fn encode(&self, out: &mut Vec<u8>) {
        T::encode_slice(self, out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let items = T::decode_vec(N, input)?;
        items.try_into().map_err(|_| DecodeError::Short { what: "array" })
    }
    fn schema() -> Schema {
        Schema::Array(Box::new(T::schema()), N as u32)
    }
    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        let Schema::Array(stored, _) = stored else { return Err(DecodeError::other_form("array", stored)) };
        let items = read_items(N, input, |input| T::decode_evolved(stored, input))?;
        items.try_into().map_err(|_| DecodeError::Short { what: "array" })
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        T::hash_slice(self, hasher);
    }
}

/// The same form as the value itself.
impl<T: Data> Data for Box<T> {
    const DEPTH: usize = T::DEPTH;

    fn encode(&self, out: &mut Vec<u8>) {
        T::encode(self, out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        T::decode(input).map(Box::new)
    }
    fn schema() -> Schema {
        T::schema()
    }
    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        T::decode_evolved(stored, input).map(Box::new)
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        T::hash_key(self, hasher);
    }
}

const fn deeper(a: usize, b: usize) -> usize {
    1 + if a > b { a } else { b }
}

macro_rules! map {
    ($what:literal, $decoded:expr) => {
        const DEPTH: usize = deeper(K::DEPTH, V::DEPTH);

        fn encode(&self, out: &mut Vec<u8>) {
            (self.len() as u32).encode(out);
            for (key, value) in self {
                key.encode(out);
                value.encode(out);
            }
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            let n = u32::decode(input)?;
            let mut map = $decoded;
            for _ in 0..n {
                map.insert(K::decode(input)?, V::decode(input)?);
            }
            Ok(map)
        }
        fn schema() -> Schema {
            Schema::Map(Box::new(K::schema()), Box::new(V::schema()))
        }
        fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
            let Schema::Map(_, stored) = stored else { return Err(DecodeError::other_form($what, stored)) };
            let n = u32::decode(input)?;
            let mut map = $decoded;
            for _ in 0..n {
                map.insert(K::decode(input)?, V::decode_evolved(stored, input)?);
            }
            Ok(map)
        }
    };
}

impl<K: Data + Ord, V: Data> Data for BTreeMap<K, V> {
    map!("map", BTreeMap::new());
}

impl<K, V, S> Data for HashMap<K, V, S>
where
    K: Data + Eq + Hash,
    V: Data,
    S: BuildHasher + Default + Clone + Send + Sync + 'static,
{
    map!("map", HashMap::default());

    /// Equal maps iterate in different orders: the entries are hashed in the order of their binary forms.
    fn hash_key(&self, hasher: &mut KeyHasher) {
        let mut entries: Vec<Vec<u8>> = self
            .iter()
            .map(|(key, value)| {
                let mut bytes = Vec::new();
                key.encode(&mut bytes);
                value.encode(&mut bytes);
                bytes
            })
            .collect();
        entries.sort_unstable();
        hasher.bytes(&entries.concat());
    }
}
