//! Passing over a value by its schema alone: a dropped field is still in the bytes.

use crate::{Data, DecodeError, Field, STAMP_BYTES, Schema};

impl Schema {
    /// Whether [`skip`](Self::skip) knows the form of all its parts.
    #[doc(hidden)]
    pub fn can_skip(&self) -> bool {
        match self {
            Self::Primitive(name) => skip_primitive(name, &mut &[0; 16][..]).is_ok(),
            Self::Struct { fields, .. } => fields.iter().all(|field| field.schema.can_skip()),
            Self::Enum { variants, .. } => {
                variants.iter().flat_map(|(_, fields)| fields).all(|field| field.schema.can_skip())
            }
            Self::Option(inner) | Self::List(inner) | Self::Array(inner, _) | Self::Expiring(inner) => {
                inner.can_skip()
            }
            Self::Map(key, value) => key.can_skip() && value.can_skip(),
            Self::Tuple(parts) => parts.iter().all(Self::can_skip),
            Self::Opaque(_) => true,
        }
    }

    /// Moves `input` past one value that was written with this schema.
    pub fn skip(&self, input: &mut &[u8]) -> Result<(), DecodeError> {
        match self {
            Self::Primitive(name) => skip_primitive(name, input),
            Self::Struct { fields, .. } => skip_fields(fields, input),
            Self::Enum { variants, .. } => {
                let at = u32::decode(input)?;
                let (_, fields) = variants
                    .get(at as usize)
                    .ok_or_else(|| crate::derive_support::no_variant("enum", at, variants.len()))?;
                skip_fields(fields, input)
            }
            Self::Option(inner) => match bool::decode(input)? {
                true => inner.skip(input),
                false => Ok(()),
            },
            Self::List(inner) => {
                let n = u32::decode(input)?;
                skip_items(inner, n, input)
            }
            Self::Array(inner, n) => skip_items(inner, *n, input),
            Self::Map(key, value) => {
                for _ in 0..u32::decode(input)? {
                    let before = input.len();
                    key.skip(input)?;
                    value.skip(input)?;
                    if input.len() == before {
                        break; // entries without a form
                    }
                }
                Ok(())
            }
            Self::Tuple(parts) => parts.iter().try_for_each(|part| part.skip(input)),
            Self::Expiring(inner) => {
                skip_bytes(STAMP_BYTES, input)?;
                inner.skip(input)
            }
            Self::Opaque(_) => {
                let len = u32::decode(input)?;
                skip_bytes(len as usize, input)
            }
        }
    }
}

fn skip_fields(fields: &[Field], input: &mut &[u8]) -> Result<(), DecodeError> {
    fields.iter().try_for_each(|field| field.schema.skip(input))
}

fn skip_items(inner: &Schema, n: u32, input: &mut &[u8]) -> Result<(), DecodeError> {
    for _ in 0..n {
        let before = input.len();
        inner.skip(input)?;
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

fn skip_primitive(name: &str, input: &mut &[u8]) -> Result<(), DecodeError> {
    let width = match name {
        "unit" => 0,
        "u8" | "i8" | "bool" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" | "f32" | "char" => 4,
        "u64" | "i64" | "f64" | "timestamp" => 8,
        "duration" => 12,
        "u128" | "i128" => 16,
        "string" => u32::decode(input)? as usize,
        other => {
            let why = format!("the form of the primitive `{other}` is not known, so it can't be passed over");
            return Err(DecodeError::Invalid { what: "dropped field", why });
        }
    };
    skip_bytes(width, input)
}
