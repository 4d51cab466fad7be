//! Passing over a value by its schema alone: a dropped field is still in the bytes.

use crate::recursion::Around;
use crate::{Data, DecodeError, Field, STAMP_BYTES, Schema};

impl Schema {
    /// Whether [`skip`](Self::skip) knows the form of all its parts.
    #[doc(hidden)]
    pub fn can_skip(&self) -> bool {
        match self {
            Self::Primitive(name) => skip_primitive(name, &mut &[0; 16][..]).is_ok(),
            Self::Struct { fields, .. } => fields.iter().all(|field| field.schema.can_skip()),
            Self::Enum { variants, .. } => {
                variants.iter().flat_map(|variant| &variant.fields).all(|field| field.schema.can_skip())
            }
            Self::Option(inner)
            | Self::List(inner)
            | Self::Set(inner)
            | Self::Array(inner, _)
            | Self::Expiring(inner) => inner.can_skip(),
            Self::Recursive(inner) => inner.can_skip(),
            Self::Map(key, value) => key.can_skip() && value.can_skip(),
            Self::Tuple(parts) => parts.iter().all(Self::can_skip),
            Self::Opaque(_) | Self::Again(_) => true,
        }
    }

    /// Moves `input` past one value that was written with this schema.
    pub fn skip(&self, input: &mut &[u8]) -> Result<(), DecodeError> {
        self.skip_within(&mut Around::default(), input)
    }

    pub(crate) fn skip_within(&self, around: &mut Around, input: &mut &[u8]) -> Result<(), DecodeError> {
        match self {
            Self::Primitive(name) => skip_primitive(name, input),
            Self::Struct { fields, .. } => skip_fields(fields, around, input),
            Self::Enum { variants, .. } => {
                let at = u32::decode(input)?;
                let variant = variants
                    .get(at as usize)
                    .ok_or_else(|| crate::derive_support::no_variant("enum", at, variants.len()))?;
                skip_fields(&variant.fields, around, input)
            }
            Self::Option(inner) => match bool::decode(input)? {
                true => inner.skip_within(around, input),
                false => Ok(()),
            },
            Self::List(inner) | Self::Set(inner) => {
                let n = u32::decode(input)?;
                skip_items(inner, n, around, input)
            }
            Self::Array(inner, n) => skip_items(inner, *n, around, input),
            Self::Map(key, value) => {
                for _ in 0..u32::decode(input)? {
                    let before = input.len();
                    key.skip_within(around, input)?;
                    value.skip_within(around, input)?;
                    if input.len() == before {
                        break; // entries without a form
                    }
                }
                Ok(())
            }
            Self::Tuple(parts) => parts.iter().try_for_each(|part| part.skip_within(around, input)),
            Self::Expiring(inner) => {
                skip_bytes(STAMP_BYTES, input)?;
                inner.skip_within(around, input)
            }
            Self::Opaque(_) => {
                let len = u32::decode(input)?;
                skip_bytes(len as usize, input)
            }
            Self::Recursive(_) | Self::Again(_) => {
                around.within(self, |body, around| body.skip_within(around, input))
            }
        }
    }
}

fn skip_fields(fields: &[Field], around: &mut Around, input: &mut &[u8]) -> Result<(), DecodeError> {
    fields.iter().try_for_each(|field| field.schema.skip_within(around, input))
}

fn skip_items(inner: &Schema, n: u32, around: &mut Around, input: &mut &[u8]) -> Result<(), DecodeError> {
    for _ in 0..n {
        let before = input.len();
        inner.skip_within(around, input)?;
        if input.len() == before {
            break; // items without a form
        }
    }
    Ok(())
}

fn skip_bytes(len: usize, input: &mut &[u8]) -> Result<(), DecodeError> {
    *input = input.split_at_checked(len).ok_or(DecodeError::Short { what: "dropped field" })?.1;
    Ok(())
}

/// Bytes of a primitive of one width.
pub(crate) fn width_of(primitive: &str) -> Option<usize> {
    Some(match primitive {
        "unit" => 0,
        "u8" | "i8" | "bool" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" | "f32" | "char" | "ipv4" | "date" => 4,
        "u64" | "i64" | "f64" | "timestamp" | "time-of-day" => 8,
        "duration" | "system-time" | "date-time" | "local-date-time" | "time-delta" => 12,
        "u128" | "i128" | "ipv6" | "uuid" | "decimal" => 16,
        _ => return None,
    })
}

fn skip_primitive(name: &str, input: &mut &[u8]) -> Result<(), DecodeError> {
    let width = match (width_of(name), name) {
        (Some(width), _) => width,
        (None, "string") => u32::decode(input)? as usize,
        (None, other) => {
            let why = format!("the form of the primitive `{other}` is not known, so it can't be passed over");
            return Err(DecodeError::Invalid { what: "dropped field", why });
        }
    };
    skip_bytes(width, input)
}
