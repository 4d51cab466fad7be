//! [`Serde`]: any `serde` type as opaque data.

use std::ops::{Deref, DerefMut};

use super::{Data, DecodeError, KeyHasher, Schema};

/// Any `serde` type as [`Data`], in postcard's binary form.
///
/// The type is opaque: a snapshot knows only its Rust name, so it can't evolve, and renaming it makes old snapshots
/// unreadable. Good for foreign types and types that hold themselves; prefer `#[derive(Data)]` for your own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Serde<T>(pub T);

impl<T> Deref for Serde<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Serde<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A `u32` length, then postcard's bytes, or nothing with the length `u32::MAX` for a value that refused to be written.
impl<T> Data for Serde<T>
where
    T: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + Sync + 'static,
{
    /// A value whose `Serialize` fails is written as a mark that [`decode`](Data::decode) refuses by name.
    fn encode(&self, out: &mut Vec<u8>) {
        match postcard::to_stdvec(&self.0) {
            Ok(bytes) => bytes.encode(out),
            Err(_) => u32::MAX.encode(out),
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let len = u32::decode(input)?;
        if len == u32::MAX {
            let why = format!("`Serialize` of {} failed when it was written", std::any::type_name::<T>());
            return Err(DecodeError::Invalid { what: "serde value", why });
        }
        let (bytes, rest) =
            input.split_at_checked(len as usize).ok_or(DecodeError::Short { what: "serde value" })?;
        *input = rest;
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(Self(value)),
            Ok((_, rest)) => Err(DecodeError::Invalid {
                what: "serde value",
                why: format!("{} bytes are left over", rest.len()),
            }),
            Err(error) => Err(DecodeError::Invalid { what: "serde value", why: error.to_string() }),
        }
    }

    fn schema() -> Schema {
        Schema::Opaque(format!("serde:{}", std::any::type_name::<T>()))
    }

    fn hash_key(&self, hasher: &mut KeyHasher) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        hasher.bytes(&bytes);
    }
}
