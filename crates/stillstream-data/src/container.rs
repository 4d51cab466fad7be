//! Options, results, lists, arrays, sets, maps and boxes.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::sync::Arc;

use crate::net::variant;
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
    const ONE_FORM: bool = T::ONE_FORM;

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
        match stored {
            Schema::Option(stored) => read_option(input, |input| T::decode_evolved(stored, input)),
            // it was no option then
            stored => T::decode_evolved(stored, input).map(Some),
        }
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
    const ONE_FORM: bool = T::ONE_FORM;

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
        let (Schema::List(stored) | Schema::Set(stored)) = stored else {
            return Err(DecodeError::other_form("list", stored));
        };
        let n = u32::decode(input)? as usize;
        read_items(n, input, |input| decode_stored(stored, input))
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        T::hash_slice(self, hasher);
    }
}

/// The form of a `Vec`: a program may change from one to the other.
macro_rules! list {
    () => {
        const DEPTH: usize = 1 + T::DEPTH;
    const ONE_FORM: bool = T::ONE_FORM;

        fn encode(&self, out: &mut Vec<u8>) {
            (self.len() as u32).encode(out);
            self.iter().for_each(|item| item.encode(out));
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            Vec::decode(input).map(Self::from)
        }
        fn schema() -> Schema {
            Vec::<T>::schema()
        }
        fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
            Vec::decode_evolved(stored, input).map(Self::from)
        }
    };
    ($($ty:ty),*) => {$(
        impl<T: Data> Data for $ty {
            list!();

            fn hash_key(&self, hasher: &mut KeyHasher) {
                T::hash_slice(self, hasher);
            }
        }
    )*};
}

list! { Box<[T]>, Arc<[T]>, Cow<'static, [T]> }

impl<T: Data> Data for VecDeque<T> {
    list!();

    fn hash_key(&self, hasher: &mut KeyHasher) {
        match self.as_slices() {
            (items, []) => T::hash_slice(items, hasher),
            _ => T::hash_slice(&self.iter().cloned().collect::<Vec<_>>(), hasher),
        }
    }
}

/// The form of a `Vec`, in the order in which the heap lies.
impl<T: Data + Ord> Data for BinaryHeap<T> {
    list!();
}

/// The items of a set: their number, and each one.
macro_rules! set {
    ($one_form:expr) => {
        const DEPTH: usize = 1 + T::DEPTH;
        const ONE_FORM: bool = $one_form;

        fn encode(&self, out: &mut Vec<u8>) {
            (self.len() as u32).encode(out);
            self.iter().for_each(|item| item.encode(out));
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            let n = u32::decode(input)?;
            let mut set = Self::default();
            for _ in 0..n {
                let before = input.len();
                set.insert(T::decode(input)?);
                if input.len() == before {
                    break; // items without a form are all equal: no use in reading what may be a damaged count
                }
            }
            Ok(set)
        }
        fn schema() -> Schema {
            Schema::Set(Box::new(T::schema()))
        }
    };
}

impl<T: Data + Ord> Data for BTreeSet<T> {
    set!(T::ONE_FORM);
}

impl<T, S> Data for HashSet<T, S>
where
    T: Data + Eq + Hash,
    S: BuildHasher + Default + Clone + Send + Sync + 'static,
{
    set!(false);

    /// Equal sets iterate in different orders: the items are hashed in the order of their binary forms.
    fn hash_key(&self, hasher: &mut KeyHasher) {
        let mut items: Vec<Vec<u8>> = self.iter().map(form_of).collect();
        items.sort_unstable();
        hasher.bytes(&items.concat());
    }
}

fn form_of<T: Data>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

/// The form of an enum of `Ok` and `Err`.
impl<T: Data, E: Data> Data for Result<T, E> {
    const DEPTH: usize = deeper(T::DEPTH, E::DEPTH);
    const ONE_FORM: bool = T::ONE_FORM && E::ONE_FORM;

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Ok(value) => {
                0u32.encode(out);
                value.encode(out);
            }
            Err(error) => {
                1u32.encode(out);
                error.encode(out);
            }
        }
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u32::decode(input)? {
            0 => T::decode(input).map(Ok),
            1 => E::decode(input).map(Err),
            other => Err(crate::derive_support::no_variant("Result", other, 2)),
        }
    }
    fn schema() -> Schema {
        let variants = vec![variant("Ok", T::schema()), variant("Err", E::schema())];
        Schema::Enum { name: "Result".into(), variants }
    }
    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        let Schema::Enum { variants, .. } = stored else {
            return Err(DecodeError::other_form("Result", stored));
        };
        let at = u32::decode(input)?;
        let found = variants.get(at as usize);
        let found = found.ok_or_else(|| crate::derive_support::no_variant("Result", at, variants.len()))?;
        match (found.name.as_str(), found.fields.as_slice()) {
            ("Ok", [field]) => T::decode_evolved(&field.schema, input).map(Ok),
            ("Err", [field]) => E::decode_evolved(&field.schema, input).map(Err),
            _ => Err(DecodeError::other_form("Result", stored)),
        }
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        match self {
            Ok(value) => {
                hasher.int(0);
                value.hash_key(hasher);
            }
            Err(error) => {
                hasher.int(1);
                error.hash_key(hasher);
            }
        }
    }
}

/// Nothing is written.
impl<T: Send + Sync + 'static> Data for PhantomData<T> {
    fn encode(&self, _: &mut Vec<u8>) {}
    fn decode(_: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self)
    }
    fn schema() -> Schema {
        <()>::schema()
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.int(0);
    }
}

impl<T: Data, const N: usize> Data for [T; N] {
    const DEPTH: usize = 1 + T::DEPTH;
    const ONE_FORM: bool = T::ONE_FORM;

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
macro_rules! pointer {
    ($($pointer:ident),*) => {$(
        impl<T: Data> Data for $pointer<T> {
            const DEPTH: usize = T::DEPTH;
            const ONE_FORM: bool = T::ONE_FORM;

            fn encode(&self, out: &mut Vec<u8>) {
                T::encode(self, out);
            }
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                T::decode(input).map($pointer::from)
            }
            fn schema() -> Schema {
                T::schema()
            }
            fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
                T::decode_evolved(stored, input).map($pointer::from)
            }
            fn hash_key(&self, hasher: &mut KeyHasher) {
                T::hash_key(self, hasher);
            }
        }
    )*};
}

pointer! { Box, Arc }

/// The same form as the value itself; a heap of `Reverse` has the least item on top.
impl<T: Data> Data for Reverse<T> {
    const DEPTH: usize = T::DEPTH;
    const ONE_FORM: bool = T::ONE_FORM;

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        T::decode(input).map(Self)
    }
    fn schema() -> Schema {
        T::schema()
    }
    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        T::decode_evolved(stored, input).map(Self)
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        self.0.hash_key(hasher);
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
    const ONE_FORM: bool = K::ONE_FORM && V::ONE_FORM;
    map!("map", BTreeMap::new());
}

impl<K, V, S> Data for HashMap<K, V, S>
where
    K: Data + Eq + Hash,
    V: Data,
    S: BuildHasher + Default + Clone + Send + Sync + 'static,
{
    const ONE_FORM: bool = false;
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
