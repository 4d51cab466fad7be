//! Numbers, booleans, characters and times.

use std::time::Duration;

use stillstream_types::Timestamp;

use crate::{Data, DecodeError, KeyHasher, Schema};

/// The body of a fixed-width number's implementation: little-endian, slices copied as memory.
macro_rules! fixed_width {
    ($ty:ty, $name:literal) => {
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
        fn encode_slice(items: &[Self], out: &mut Vec<u8>) {
            // the optimizer turns both loops into a copy of memory
            const WIDTH: usize = size_of::<$ty>();
            let start = out.len();
            out.resize(start + items.len() * WIDTH, 0);
            for (bytes, item) in out[start..].chunks_exact_mut(WIDTH).zip(items) {
                bytes.copy_from_slice(&item.to_le_bytes());
            }
        }
        fn decode_vec(n: usize, input: &mut &[u8]) -> Result<Vec<Self>, DecodeError> {
            let (bytes, rest) = n
                .checked_mul(size_of::<$ty>())
                .and_then(|len| input.split_at_checked(len))
                .ok_or(DecodeError::Short { what: concat!("list of ", $name) })?;
            *input = rest;
            let (items, _) = bytes.as_chunks();
            Ok(items.iter().map(|item| <$ty>::from_le_bytes(*item)).collect())
        }
    };
}

macro_rules! integer {
    ($($ty:ty => $name:literal, $feed:ident as $wide:ty;)*) => {$(
        impl Data for $ty {
            fixed_width!($ty, $name);
            #[inline(always)]
            fn hash_key(&self, hasher: &mut KeyHasher) {
                hasher.$feed(*self as $wide);
            }
        }
    )*};
}

integer! {
    i8 => "i8", int as i32; u16 => "u16", int as i32; i16 => "i16", int as i32; u32 => "u32", int as i32;
    i32 => "i32", int as i32; u64 => "u64", long as u64; i64 => "i64", long as u64;
}

impl Data for u8 {
    fixed_width!(u8, "u8");
    #[inline(always)]
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.int(*self as i32);
    }
    fn hash_slice(items: &[Self], hasher: &mut KeyHasher) {
        hasher.bytes(items);
    }
}

macro_rules! wide_integer {
    ($($ty:ty => $name:literal;)*) => {$(
        impl Data for $ty {
            fixed_width!($ty, $name);
            fn hash_key(&self, hasher: &mut KeyHasher) {
                hasher.long((*self >> 64) as u64);
                hasher.long(*self as u64);
            }
        }
    )*};
}

wide_integer! { u128 => "u128"; i128 => "i128"; }

macro_rules! float {
    ($($ty:ty => $name:literal;)*) => {$(
        impl Data for $ty {
            fixed_width!($ty, $name);
        }
    )*};
}

float! { f32 => "f32"; f64 => "f64"; }

impl Data for bool {
    #[inline(always)]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    #[inline(always)]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (byte, rest) = input.split_first().ok_or(DecodeError::Short { what: "bool" })?;
        *input = rest;
        match byte {
            0 => Ok(false),
            1 => Ok(true),
            other => {
                Err(DecodeError::Invalid { what: "bool", why: format!("0 or 1 expected, {other} found") })
            }
        }
    }
    fn schema() -> Schema {
        Schema::Primitive("bool".into())
    }
    /// Java's `Boolean.hashCode`.
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.int(if *self { 1231 } else { 1237 });
    }
}

impl Data for char {
    fn encode(&self, out: &mut Vec<u8>) {
        (*self as u32).encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let code = u32::decode(input)?;
        char::from_u32(code)
            .ok_or_else(|| DecodeError::Invalid { what: "char", why: format!("{code:#x} is no character") })
    }
    fn schema() -> Schema {
        Schema::Primitive("char".into())
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.int(*self as i32);
    }
}

impl Data for Timestamp {
    #[inline(always)]
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_millis().encode(out);
    }
    #[inline(always)]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        i64::decode(input).map(Self::from_millis)
    }
    fn schema() -> Schema {
        Schema::Primitive("timestamp".into())
    }
    #[inline(always)]
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.long(self.as_millis() as u64);
    }
}

impl Data for Duration {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_secs().encode(out);
        self.subsec_nanos().encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (seconds, nanos) = (u64::decode(input)?, u32::decode(input)?);
        match nanos < 1_000_000_000 {
            true => Ok(Self::new(seconds, nanos)),
            false => Err(DecodeError::Invalid {
                what: "duration",
                why: format!("{nanos} nanoseconds are more than a second"),
            }),
        }
    }
    fn schema() -> Schema {
        Schema::Primitive("duration".into())
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.long(self.as_secs());
        hasher.int(self.subsec_nanos() as i32);
    }
}
