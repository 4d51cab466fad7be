//! The description of a type, as stored in snapshots.

use std::fmt;
use std::sync::Arc;

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
        variants: Vec<Variant>,
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
    /// A `u32` count, then the items, each once.
    Set(Box<Schema>),
    /// A struct or an enum that holds itself, by [`Again`](Self::Again). It is written as it would be without
    /// this.
    Recursive(Arc<Schema>),
    /// The [`Recursive`](Self::Recursive) type that this lies in: the innermost for 0, the one around it for
    /// 1, and so on.
    Again(u32),
}

impl Schema {
    /// The schema of a simple type, by its name.
    pub(crate) fn primitive(name: &str) -> Self {
        Self::Primitive(name.into())
    }
}

/// A field of a struct or variant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub schema: Schema,
    /// Whether a value written before the field was added can be read: the field has a default.
    pub default: bool,
    /// Names that it had before, the newest first.
    pub aliases: Vec<String>,
}

/// A variant of an enum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<Field>,
    /// Names that it had before, the newest first.
    pub aliases: Vec<String>,
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, &mut Vec::new(), f)
    }
}

/// Prints a schema that lies within the recursive types `around`.
fn show<'a>(schema: &'a Schema, around: &mut Vec<&'a Schema>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut within = |before: &str, inner: &'a Schema, behind: &str| {
        f.write_str(before)?;
        show(inner, around, f)?;
        f.write_str(behind)
    };
    match schema {
        Schema::Option(inner) => within("option<", inner, ">"),
        Schema::List(inner) => within("list<", inner, ">"),
        Schema::Set(inner) => within("set<", inner, ">"),
        Schema::Expiring(inner) => within("expiring<", inner, ">"),
        Schema::Array(inner, n) => within("[", inner, &format!("; {n}]")),
        Schema::Map(key, value) => {
            within("map<", key, ", ")?;
            within("", value, ">")
        }
        Schema::Primitive(name) => f.write_str(name),
        Schema::Opaque(name) => write!(f, "opaque {name}"),
        Schema::Struct { name, fields } => {
            write!(f, "struct {name}")?;
            show_fields(fields, around, f)
        }
        Schema::Enum { name, variants } => {
            write!(f, "enum {name} {{")?;
            for (at, variant) in variants.iter().enumerate() {
                write!(f, "{} {}", if at == 0 { "" } else { "," }, variant.name)?;
                show_fields(&variant.fields, around, f)?;
            }
            f.write_str(" }")
        }
        Schema::Tuple(parts) => {
            f.write_str("(")?;
            for (at, part) in parts.iter().enumerate() {
                f.write_str(if at == 0 { "" } else { ", " })?;
                show(part, around, f)?;
            }
            f.write_str(if parts.len() == 1 { ",)" } else { ")" })
        }
        Schema::Recursive(inner) => {
            around.push(inner);
            let shown = show(inner, around, f);
            around.pop();
            shown
        }
        Schema::Again(n) => {
            let found = around.len().checked_sub(1 + *n as usize).map(|at| around[at]);
            match found {
                Some(Schema::Struct { name, .. } | Schema::Enum { name, .. }) => f.write_str(name),
                _ => f.write_str("itself"),
            }
        }
    }
}

fn show_fields<'a>(
    fields: &'a [Field],
    around: &mut Vec<&'a Schema>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if fields.is_empty() {
        return Ok(());
    }
    f.write_str(" {")?;
    for (at, field) in fields.iter().enumerate() {
        write!(f, "{} {}: ", if at == 0 { "" } else { "," }, field.name)?;
        show(&field.schema, around, f)?;
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
