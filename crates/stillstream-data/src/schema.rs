//! The description of a type, as stored in snapshots.

use std::fmt;

/// What a type looks like: names and types of its parts.
///
/// Prints as one reads it:
///
/// ```
/// use stillstream_data::Data;
/// #[derive(Clone, Data)]
/// #[data(crate = stillstream_data)]
/// struct Flight { carrier: String, dep_delay: Option<i32> }
/// assert_eq!(Flight::schema().to_string(), "struct Flight { carrier: string, dep_delay: option<i32> }");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schema {
    /// A number, string or time, by name.
    Primitive(String),
    /// A struct with named fields, in the order of their binary forms.
    Struct {
        /// The type's name, without its path.
        name: String,
        /// Its fields (named `0`, `1`, .. for tuple structs).
        fields: Vec<Field>,
    },
    /// An enum; the binary form starts with the variant's number as `u32`.
    Enum {
        /// The type's name, without its path.
        name: String,
        /// Its variants, each a struct (with fields named `0`, `1`, .. for tuple variants).
        variants: Vec<(String, Vec<Field>)>,
    },
    /// One byte, 0 or 1, then the value if 1.
    Option(Box<Schema>),
    /// A `u32` count, then the items.
    List(Box<Schema>),
    /// So many items, without a count.
    Array(Box<Schema>, u32),
    /// A `u32` count, then key and value in turn.
    Map(Box<Schema>, Box<Schema>),
    /// The parts one after another.
    Tuple(Vec<Schema>),
    /// A foreign type's own form (a `serde` adapter), a `u32` length and bytes: only the name is known, so it
    /// can't evolve.
    Opaque(String),
    /// A value of state with a time to live: when it was last touched, milliseconds since 1970 as `i64`, then
    /// the value.
    Expiring(Box<Schema>),
}

/// A field of a struct or variant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub schema: Schema,
    /// Whether a value written before the field was added can be read: the field's type has a `Default`.
    pub default: bool,
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primitive(name) => f.write_str(name),
            Self::Struct { name, fields } => {
                write!(f, "struct {name}")?;
                show_fields(fields, f)
            }
            Self::Enum { name, variants } => {
                write!(f, "enum {name} {{")?;
                for (at, (variant, fields)) in variants.iter().enumerate() {
                    write!(f, "{} {variant}", if at == 0 { "" } else { "," })?;
                    show_fields(fields, f)?;
                }
                f.write_str(" }")
            }
            Self::Option(inner) => write!(f, "option<{inner}>"),
            Self::List(inner) => write!(f, "list<{inner}>"),
            Self::Array(inner, n) => write!(f, "[{inner}; {n}]"),
            Self::Map(key, value) => write!(f, "map<{key}, {value}>"),
            Self::Tuple(parts) => {
                f.write_str("(")?;
                for (at, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str(if parts.len() == 1 { ",)" } else { ")" })
            }
            Self::Opaque(name) => write!(f, "opaque {name}"),
            Self::Expiring(inner) => write!(f, "expiring<{inner}>"),
        }
    }
}

fn show_fields(fields: &[Field], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if fields.is_empty() {
        return Ok(());
    }
    f.write_str(" {")?;
    for (at, field) in fields.iter().enumerate() {
        write!(f, "{} {}: {}", if at == 0 { "" } else { "," }, field.name, field.schema)?;
    }
    f.write_str(" }")
}

/// Why bytes could not be read as a type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the value does.
    #[error("the bytes end in the middle of a {what}")]
    Short {
        /// The type being read.
        what: &'static str,
    },
    /// The bytes are no value of the type.
    #[error("the bytes are not a valid {what}: {why}")]
    Invalid {
        /// The type being read.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
}

impl DecodeError {
    /// The stored form is another than the type's.
    #[doc(hidden)]
    pub fn other_form(what: &'static str, stored: &Schema) -> Self {
        Self::Invalid { what, why: format!("it was written as {stored}") }
    }
}
