//! [`Serde`]: any `serde` type as opaque data.

use std::ops::{Deref, DerefMut};

use crate::{Data, DecodeError, KeyHasher, Schema, serde_form};

/// Any `serde` type as [`Data`], in a self-describing form: `serde_json::Value`, tagged and untagged enums,
/// flattened structs and skipped fields come back as they went.
///
/// The form has the names of fields and variants in each value, as JSON has, so prefer `#[derive(Data)]` for
/// types of your own: it is smaller, faster, and can evolve. `Serde` is for foreign types and types that hold
/// themselves. Its schema is opaque: a snapshot knows only the Rust name, and renaming the type makes old
/// snapshots unreadable. Fields can be added to a type under its name if `serde` has a default for them.
///
/// As a key it must be equal exactly when it is written the same: a `HashMap` inside is not, its order is
/// another each time.
///
/// ```
/// use stillstream_data::{Data, Serde};
///
/// #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// #[serde(tag = "type")]
/// enum Event { Login { user: String }, Logout { user: String, reason: Option<u32> } }
///
/// let event = Serde(Event::Logout { user: "anna".into(), reason: None });
/// let mut bytes = Vec::new();
/// event.encode(&mut bytes);
/// assert_eq!(Serde::<Event>::decode(&mut &bytes[..]), Ok(event));
/// ```
///
/// # Panics
/// Where a value is written (in a snapshot, or on its way to another process), if its `Serialize` fails or it
/// nests deeper than 256 values. The first values of each type are read back in debug builds, and one that
/// cannot be is a panic too. The job then fails with a sentence that names the type, in place of a checkpoint
/// that could never be restored.
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

/// In front of the type's name in schemas.
const PREFIX: &str = "serde-2:";
/// The first release wrote postcard's form, which many types cannot be read from.
const PREFIX_1: &str = "serde:";

impl Schema {
    /// Whether this is `Serde` of a type, and `stored` the same type in the form of the first release.
    pub(super) fn is_newer_serde_than(&self, stored: &Self) -> bool {
        let (Self::Opaque(new), Self::Opaque(old)) = (self, stored) else { return false };
        new.strip_prefix(PREFIX).is_some_and(|name| old.strip_prefix(PREFIX_1) == Some(name))
    }
}

/// Bytes behind a `u32` length.
fn framed<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let len = u32::decode(input)?;
    let (bytes, rest) =
        input.split_at_checked(len as usize).ok_or(DecodeError::Short { what: "serde value" })?;
    *input = rest;
    Ok(bytes)
}

fn invalid<T>(why: impl std::fmt::Display) -> DecodeError {
    DecodeError::Invalid { what: "serde value", why: format!("{}: {why}", std::any::type_name::<T>()) }
}

/// A `u32` length, then the value in the form of `serde_form`.
impl<T> Data for Serde<T>
where
    T: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + Sync + 'static,
{
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        0u32.encode(out);
        let written = serde_form::to_bytes(&self.0, out);
        let bytes = out.len() - start - 4;
        let name = std::any::type_name::<T>();
        let len = match (written, u32::try_from(bytes)) {
            (Ok(()), Ok(len)) => len,
            // there is no way out for an error, and bytes in its place would be a checkpoint that cannot be
            // restored; whoever calls this for a user's type expects that its code may panic, and names the
            // operator
            (Err(why), _) => panic!("a value of `{name}` cannot be written by `serde`: {why}"),
            (Ok(()), Err(_)) => {
                panic!("a value of `{name}` has {bytes} bytes; at most {} can be written", u32::MAX)
            }
        };
        out[start..start + 4].copy_from_slice(&len.to_le_bytes());
        #[cfg(debug_assertions)]
        if read_back::is_due::<T>()
            && let Err(why) = serde_form::from_bytes::<T>(&out[start + 4..])
        {
            panic!(
                "a value of `{name}` that was written cannot be read back: {why}; its `Serialize` and `Deserialize` do not \
                 agree, so no checkpoint with it could be restored"
            );
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        serde_form::from_bytes(framed(input)?).map(Self).map_err(invalid::<T>)
    }

    fn schema() -> Schema {
        Schema::Opaque(format!("{PREFIX}{}", std::any::type_name::<T>()))
    }

    /// Values in the form of the first release are postcard's, or nothing behind the length `u32::MAX` where
    /// `Serialize` failed.
    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        if !Self::schema().is_newer_serde_than(stored) {
            return Self::decode(input);
        }
        if input.starts_with(&u32::MAX.to_le_bytes()) {
            return Err(invalid::<T>("its `Serialize` failed when it was written"));
        }
        let unreadable = |why: String| {
            invalid::<T>(format!(
                "it was written by stillstream 0.1 in a form that this type cannot be read from ({why}); the state must be \
                 built again, from an older snapshot without it or with --start-fresh"
            ))
        };
        match postcard::take_from_bytes(framed(input)?) {
            Ok((value, [])) => Ok(Self(value)),
            Ok((_, rest)) => Err(unreadable(format!("{} bytes are left over", rest.len()))),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    fn hash_key(&self, hasher: &mut KeyHasher) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        hasher.bytes(&bytes);
    }
}

/// Which values are read back when they are written.
#[cfg(debug_assertions)]
mod read_back {
    use std::any::TypeId;
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// Values of a type, on each thread: an enum shows its variants, and a job of many records is not slowed
    /// down.
    const FIRST: u32 = 100;

    thread_local! {
        static SEEN: RefCell<HashMap<TypeId, u32>> = RefCell::default();
    }

    pub fn is_due<T: 'static>() -> bool {
        SEEN.with_borrow_mut(|seen| {
            let seen = seen.entry(TypeId::of::<T>()).or_default();
            *seen = seen.saturating_add(1);
            *seen <= FIRST
        })
    }
}
