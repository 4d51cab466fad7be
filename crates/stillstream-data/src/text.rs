//! Strings.

use std::borrow::Cow;
use std::sync::Arc;

use stillstream_types::prefetch::prefetch;

use crate::{Data, DecodeError, KeyHasher, Schema};

fn read<'a>(input: &mut &'a [u8]) -> Result<&'a str, DecodeError> {
    let len = u32::decode(input)? as usize;
    let (bytes, rest) = input.split_at_checked(len).ok_or(DecodeError::Short { what: "string" })?;
    *input = rest;
    std::str::from_utf8(bytes)
        .map_err(|_| DecodeError::Invalid { what: "string", why: "it is not UTF-8".into() })
}

impl Data for String {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        out.extend_from_slice(self.as_bytes());
    }
    #[inline]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        read(input).map(str::to_owned)
    }
    fn schema() -> Schema {
        Schema::Primitive("string".into())
    }
    #[inline(always)]
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.string(self);
    }
    #[inline(always)]
    fn prefetch(&self) {
        prefetch(self.as_ptr());
    }
}

/// The same form as `String`: a program may change from one to the other.
macro_rules! text {
    ($($ty:ty),*) => {$(
        impl Data for $ty {
            fn encode(&self, out: &mut Vec<u8>) {
                (self.len() as u32).encode(out);
                out.extend_from_slice(self.as_bytes());
            }
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                read(input).map(|text| Self::from(text.to_owned()))
            }
            fn schema() -> Schema {
                Schema::Primitive("string".into())
            }
            fn hash_key(&self, hasher: &mut KeyHasher) {
                hasher.string(self);
            }
            #[inline(always)]
            fn prefetch(&self) {
                prefetch(self.as_ptr());
            }
        }
    )*};
}

text! { Box<str>, Cow<'static, str> }

/// The same form as `String`: a program may change from one to the other.
impl Data for Arc<str> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        read(input).map(Arc::from)
    }
    fn schema() -> Schema {
        Schema::Primitive("string".into())
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.string(self);
    }
    #[inline(always)]
    fn prefetch(&self) {
        prefetch(self.as_ptr());
    }
}
