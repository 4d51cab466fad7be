//! [`Data`]: the binary form and the description of what may cross an exchange or live in state.

mod hash;
mod schema;

pub use hash::KeyHasher;
pub use schema::{DecodeError, Field, Schema};

use stillstream_types::{KeyGroups, KeyHash};

/// A type that may cross an exchange and live in state.
///
/// Implemented by `#[derive(Data)]` for users' structs and enums, and here for numbers, strings, options, vectors, maps,
/// tuples and times. The binary form is documented in `docs/formats.md` and stable: integers are fixed-width
/// little-endian, lengths are `u32`.
pub trait Data: Clone + Send + Sync + 'static {
    /// Appends the binary form.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads one value from the front of `input` and moves `input` past it.
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError>;

    /// The description of the type, stored in every snapshot.
    fn schema() -> Schema;

    /// Feeds the value to the key hasher. Equal values must feed the same. The default hashes the binary form.
    fn hash_key(&self, hasher: &mut KeyHasher) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        hasher.bytes(&bytes);
    }

    /// Appends the binary forms of all items, one after another. Types of fixed size copy memory instead.
    fn encode_slice(items: &[Self], out: &mut Vec<u8>) {
        items.iter().for_each(|item| item.encode(out));
    }

    /// Reads `n` values.
    fn decode_vec(n: usize, input: &mut &[u8]) -> Result<Vec<Self>, DecodeError> {
        // a damaged length must not reserve more than the input could hold
        let mut items = Vec::with_capacity(n.min(input.len().max(1)));
        for _ in 0..n {
            items.push(Self::decode(input)?);
        }
        Ok(items)
    }
}

/// A type that records can be keyed by: data with equality. Implemented for every such type.
pub trait Key: Data + Eq {
    /// The key's group and hash, computed once per record.
    #[inline(always)]
    fn key_hash(&self, groups: KeyGroups) -> KeyHash {
        let mut hasher = KeyHasher::new();
        self.hash_key(&mut hasher);
        hasher.finish(groups)
    }
}

impl<T: Data + Eq> Key for T {}

macro_rules! number {
    ($($ty:ty => $name:literal, $feed:ident as $wide:ty;)*) => {$(
        impl Data for $ty {
            #[inline(always)]
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                let (bytes, rest) = input.split_first_chunk().ok_or(DecodeError::Short { what: $name })?;
                *input = rest;
                Ok(<$ty>::from_le_bytes(*bytes))
            }
            fn schema() -> Schema {
                Schema::Primitive($name.into())
            }
            #[inline(always)]
            fn hash_key(&self, hasher: &mut KeyHasher) {
                hasher.$feed(*self as $wide);
            }
        }
    )*};
}

number! {
    u8 => "u8", int as i32; i8 => "i8", int as i32; u16 => "u16", int as i32; i16 => "i16", int as i32;
    u32 => "u32", int as i32; i32 => "i32", int as i32; u64 => "u64", long as u64; i64 => "i64", long as u64;
}

impl Data for String {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        out.extend_from_slice(self.as_bytes());
    }
    #[inline]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let len = u32::decode(input)? as usize;
        let (bytes, rest) = input.split_at_checked(len).ok_or(DecodeError::Short { what: "string" })?;
        *input = rest;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| DecodeError::Invalid { what: "string", why: "it is not UTF-8".into() })
    }
    fn schema() -> Schema {
        Schema::Primitive("string".into())
    }
    #[inline]
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.string(self);
    }
}

impl Data for () {
    fn encode(&self, _: &mut Vec<u8>) {}
    fn decode(_: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(())
    }
    fn schema() -> Schema {
        Schema::Primitive("unit".into())
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.int(0);
    }
}

impl<A: Data, B: Data> Data for (A, B) {
    #[inline(always)]
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
    #[inline(always)]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok((A::decode(input)?, B::decode(input)?))
    }
    fn schema() -> Schema {
        Schema::Tuple(vec![A::schema(), B::schema()])
    }
    #[inline(always)]
    fn hash_key(&self, hasher: &mut KeyHasher) {
        self.0.hash_key(hasher);
        self.1.hash_key(hasher);
    }
}
