//! The hash of a key by its schema alone, for those who look at snapshots without the program that wrote
//! them.

use stillstream_types::{KeyGroups, KeyHash};

use crate::recursion::Around;
use crate::{Data, DecodeError, Field, KeyHasher, Schema};

impl Schema {
    /// Group and hash of a key in its binary form, as [`Key::key_hash`](crate::Key::key_hash) gives them for
    /// a type whose [`hash_key`](Data::hash_key) is the derived one or one of this crate's. Whoever has keys
    /// of a foreign type must check what it gives: each key's group is known from where it is stored.
    ///
    /// ```
    /// use stillstream_data::{Data, Key};
    /// use stillstream_types::KeyGroups;
    ///
    /// let (key, groups) = (("JFK".to_string(), 7u16), KeyGroups::new(128));
    /// let mut bytes = Vec::new();
    /// key.encode(&mut bytes);
    /// let hash = <(String, u16)>::schema().hash_of_key(&bytes, groups)?;
    /// assert_eq!(hash, key.key_hash(groups));
    /// # Ok::<(), stillstream_data::DecodeError>(())
    /// ```
    ///
    /// # Errors
    /// If the bytes are no value of this schema, or if maps or sets are in it, whose schema does not say how
    /// they are hashed.
    pub fn hash_of_key(&self, key: &[u8], groups: KeyGroups) -> Result<KeyHash, DecodeError> {
        let mut hasher = KeyHasher::new();
        self.feed(&mut Around::default(), &mut { key }, &mut hasher)?;
        Ok(hasher.finish(groups))
    }

    /// [`hash_of_key`](Self::hash_of_key) for the keys of windows that keep their state by key and window: a
    /// tuple of the key and an option of the window, which lies in the group of the key alone.
    ///
    /// # Errors
    /// As `hash_of_key`; also if this is no such tuple.
    pub fn hash_of_window_key(&self, key: &[u8], groups: KeyGroups) -> Result<KeyHash, DecodeError> {
        let not = || DecodeError::Invalid { what: "window key", why: format!("`{self}` is none") };
        let Self::Tuple(parts) = self else { return Err(not()) };
        let [of_key, Self::Option(window)] = &parts[..] else { return Err(not()) };
        let Self::Struct { fields, .. } = &**window else { return Err(not()) };
        let mut hasher = KeyHasher::new();
        let mut input = key;
        of_key.feed(&mut Around::default(), &mut input, &mut hasher)?;
        if bool::decode(&mut input)? {
            for field in fields {
                match &field.schema {
                    Self::Primitive(name) if name == "timestamp" => {
                        hasher.within_group(i64::decode(&mut input)? as u64);
                    }
                    _ => return Err(not()),
                }
            }
        }
        Ok(hasher.finish(groups))
    }

    /// Feeds one value to the hasher and moves past it.
    fn feed(
        &self,
        around: &mut Around,
        input: &mut &[u8],
        hasher: &mut KeyHasher,
    ) -> Result<(), DecodeError> {
        match self {
            Self::Primitive(name) => feed_primitive(name, input, hasher),
            Self::Struct { fields, .. } if fields.is_empty() => {
                hasher.int(0);
                Ok(())
            }
            Self::Struct { fields, .. } => feed_fields(fields, around, input, hasher),
            Self::Enum { variants, .. } => {
                let at = u32::decode(input)?;
                let variant = variants
                    .get(at as usize)
                    .ok_or_else(|| crate::derive_support::no_variant("enum", at, variants.len()))?;
                hasher.int(at as i32);
                feed_fields(&variant.fields, around, input, hasher)
            }
            Self::Option(inner) => match bool::decode(input)? {
                true => inner.feed(around, input, hasher),
                false => {
                    hasher.int(0);
                    Ok(())
                }
            },
            Self::List(inner) => {
                let n = u32::decode(input)?;
                feed_items(inner, n, around, input, hasher)
            }
            Self::Array(inner, n) => feed_items(inner, *n, around, input, hasher),
            Self::Tuple(parts) => parts.iter().try_for_each(|part| part.feed(around, input, hasher)),
            Self::Opaque(_) => {
                // the whole form is hashed, its length included
                hasher.bytes(self.taken(input)?);
                Ok(())
            }
            Self::Recursive(_) | Self::Again(_) => {
                around.within(self, |body, around| body.feed(around, input, hasher))
            }
            Self::Map(..) | Self::Set(_) | Self::Expiring(_) => Err(DecodeError::Invalid {
                what: "key",
                why: format!("the schema `{self}` does not say how it is hashed"),
            }),
        }
    }

    /// The bytes of one value.
    fn taken<'a>(&self, input: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
        let start = *input;
        self.skip(input)?;
        Ok(&start[..start.len() - input.len()])
    }
}

fn feed_fields(
    fields: &[Field],
    around: &mut Around,
    input: &mut &[u8],
    hasher: &mut KeyHasher,
) -> Result<(), DecodeError> {
    fields.iter().try_for_each(|field| field.schema.feed(around, input, hasher))
}

fn feed_items(
    inner: &Schema,
    n: u32,
    around: &mut Around,
    input: &mut &[u8],
    hasher: &mut KeyHasher,
) -> Result<(), DecodeError> {
    if matches!(inner, Schema::Primitive(name) if name == "u8") {
        let (bytes, rest) = input.split_at_checked(n as usize).ok_or(DecodeError::Short { what: "key" })?;
        *input = rest;
        hasher.bytes(bytes);
        return Ok(());
    }
    hasher.int(n as i32);
    for _ in 0..n {
        let before = input.len();
        inner.feed(around, input, hasher)?;
        if input.len() == before && n > MOST_WITHOUT_FORM {
            let why = format!("{n} items without a form");
            return Err(DecodeError::Invalid { what: "key", why });
        }
    }
    Ok(())
}

/// Items that take no byte: a length that is damaged must not keep a reader busy.
const MOST_WITHOUT_FORM: u32 = 1 << 20;

fn feed_primitive(name: &str, input: &mut &[u8], hasher: &mut KeyHasher) -> Result<(), DecodeError> {
    macro_rules! feed {
        ($($ty:ty),*) => {
            match name {
                $(<$ty as Named>::NAME => <$ty>::decode(input)?.hash_key(hasher),)*
                other => {
                    // all others are hashed by their forms
                    let form = crate::skip::width_of(other).map(|width| input.split_at_checked(width));
                    let (bytes, rest) = match form {
                        Some(form) => form.ok_or(DecodeError::Short { what: "key" })?,
                        None => {
                            let why = format!("the form of the primitive `{other}` is not known to this release");
                            return Err(DecodeError::Invalid { what: "key", why });
                        }
                    };
                    *input = rest;
                    hasher.bytes(bytes);
                }
            }
        };
    }
    feed!(
        (),
        bool,
        char,
        u8,
        u16,
        u32,
        u64,
        u128,
        i8,
        i16,
        i32,
        i64,
        i128,
        f32,
        f64,
        String,
        stillstream_types::Timestamp,
        std::time::Duration
    );
    Ok(())
}

/// The names of primitives in schemas.
trait Named {
    const NAME: &str;
}

macro_rules! named {
    ($($ty:ty => $name:literal;)*) => {$(
        impl Named for $ty {
            const NAME: &str = $name;
        }
    )*};
}

named! {
    () => "unit"; bool => "bool"; char => "char"; String => "string";
    u8 => "u8"; u16 => "u16"; u32 => "u32"; u64 => "u64"; u128 => "u128";
    i8 => "i8"; i16 => "i16"; i32 => "i32"; i64 => "i64"; i128 => "i128";
    f32 => "f32"; f64 => "f64";
    stillstream_types::Timestamp => "timestamp"; std::time::Duration => "duration";
}
