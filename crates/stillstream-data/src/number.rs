//! Numbers, booleans, characters and times.

use std::num::NonZero;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stillstream_types::Timestamp;

use crate::{Data, DecodeError, Field, KeyHasher, Schema};

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

/// Reads a number that was written in one of the narrower types.
macro_rules! widened {
    ($ty:ty, $name:literal, $($narrow:ty => $narrow_name:literal),*) => {
        fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
            match stored {
                Schema::Primitive(name) => match name.as_str() {
                    $name => Self::decode(input),
                    $($narrow_name => <$narrow>::decode(input).map(<$ty>::from),)*
                    _ => Err(DecodeError::other_form($name, stored)),
                },
                _ => Err(DecodeError::other_form($name, stored)),
            }
        }
    };
}

macro_rules! integer {
    ($($ty:ty => $name:literal, $feed:ident as $wide:ty $(, $narrow:ty => $narrow_name:literal)*;)*) => {$(
        impl Data for $ty {
            fixed_width!($ty, $name);
            widened!($ty, $name, $($narrow => $narrow_name),*);
            #[inline(always)]
            fn hash_key(&self, hasher: &mut KeyHasher) {
                hasher.$feed(*self as $wide);
            }
        }
    )*};
}

integer! {
    i8 => "i8", int as i32;
    u16 => "u16", int as i32, u8 => "u8";
    i16 => "i16", int as i32, u8 => "u8", i8 => "i8";
    u32 => "u32", int as i32, u8 => "u8", u16 => "u16";
    i32 => "i32", int as i32, u8 => "u8", u16 => "u16", i8 => "i8", i16 => "i16";
    u64 => "u64", long as u64, u8 => "u8", u16 => "u16", u32 => "u32";
    i64 => "i64", long as u64, u8 => "u8", u16 => "u16", u32 => "u32", i8 => "i8", i16 => "i16", i32 => "i32";
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
    ($($ty:ty => $name:literal $(, $narrow:ty => $narrow_name:literal)*;)*) => {$(
        impl Data for $ty {
            fixed_width!($ty, $name);
            widened!($ty, $name, $($narrow => $narrow_name),*);
            fn hash_key(&self, hasher: &mut KeyHasher) {
                hasher.long((*self >> 64) as u64);
                hasher.long(*self as u64);
            }
        }
    )*};
}

wide_integer! {
    u128 => "u128", u8 => "u8", u16 => "u16", u32 => "u32", u64 => "u64";
    i128 => "i128", u8 => "u8", u16 => "u16", u32 => "u32", u64 => "u64",
        i8 => "i8", i16 => "i16", i32 => "i32", i64 => "i64";
}

impl Data for f32 {
    fixed_width!(f32, "f32");
}

impl Data for f64 {
    fixed_width!(f64, "f64");
    widened!(f64, "f64", f32 => "f32");
}

/// The sizes of this machine have the form of 64 bits, so that a snapshot can move to another one.
macro_rules! size {
    ($($ty:ty as $wide:ty;)*) => {$(
        impl Data for $ty {
            #[inline(always)]
            fn encode(&self, out: &mut Vec<u8>) {
                (*self as $wide).encode(out);
            }
            #[inline(always)]
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                size(<$wide>::decode(input)?)
            }
            fn schema() -> Schema {
                <$wide>::schema()
            }
            fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
                size(<$wide>::decode_evolved(stored, input)?)
            }
            #[inline(always)]
            fn hash_key(&self, hasher: &mut KeyHasher) {
                hasher.long(*self as u64);
            }
        }
    )*};
}

size! { usize as u64; isize as i64; }

fn size<W: Copy + std::fmt::Display, T: TryFrom<W>>(value: W) -> Result<T, DecodeError> {
    T::try_from(value).map_err(|_| DecodeError::Invalid {
        what: "size",
        why: format!("{value} has no room in the {} bits of this machine", usize::BITS),
    })
}

/// The form of the number itself.
macro_rules! non_zero {
    ($($ty:ty),*) => {$(
        impl Data for NonZero<$ty> {
            fn encode(&self, out: &mut Vec<u8>) {
                self.get().encode(out);
            }
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                non_zero(Self::new(<$ty>::decode(input)?))
            }
            fn schema() -> Schema {
                // a number that may be zero can't become one that may not
                Schema::Struct {
                    name: "NonZero".into(),
                    fields: vec![Field {
                        name: "0".into(),
                        schema: <$ty>::schema(),
                        default: false,
                        aliases: Vec::new(),
                    }],
                }
            }
            fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
                let Schema::Struct { fields, .. } = stored else {
                    return Err(DecodeError::other_form("non-zero number", stored));
                };
                match fields.as_slice() {
                    [field] => non_zero(Self::new(<$ty>::decode_evolved(&field.schema, input)?)),
                    _ => Err(DecodeError::other_form("non-zero number", stored)),
                }
            }
            fn hash_key(&self, hasher: &mut KeyHasher) {
                self.get().hash_key(hasher);
            }
        }
    )*};
}

non_zero! { u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize }

fn non_zero<T>(value: Option<T>) -> Result<T, DecodeError> {
    value.ok_or_else(|| DecodeError::Invalid { what: "non-zero number", why: "it is zero".into() })
}

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

/// Seconds since 1970 as `i64`, rounded down, and nanoseconds since then as `u32`.
impl Data for SystemTime {
    fn encode(&self, out: &mut Vec<u8>) {
        let (seconds, nanos) = match self.duration_since(UNIX_EPOCH) {
            Ok(since) => (since.as_secs() as i64, since.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                let whole = (before.as_secs() as i64).wrapping_neg();
                match before.subsec_nanos() {
                    0 => (whole, 0),
                    nanos => (whole - 1, 1_000_000_000 - nanos),
                }
            }
        };
        seconds.encode(out);
        nanos.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (seconds, nanos) = (i64::decode(input)?, u32::decode(input)?);
        let invalid = |why: String| DecodeError::Invalid { what: "system time", why };
        if nanos >= 1_000_000_000 {
            return Err(invalid(format!("{nanos} nanoseconds are more than a second")));
        }
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let second = match seconds >= 0 {
            true => UNIX_EPOCH.checked_add(whole),
            false => UNIX_EPOCH.checked_sub(whole),
        };
        second
            .and_then(|second| second.checked_add(Duration::from_nanos(nanos.into())))
            .ok_or_else(|| invalid(format!("this machine has no time {seconds} s from 1970")))
    }
    fn schema() -> Schema {
        Schema::primitive("system-time")
    }
}
