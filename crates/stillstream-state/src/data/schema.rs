//! The description of a type, as stored in snapshots.

/// What a type looks like: names and types of its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schema {
    /// A number, string or time, by name.
    Primitive(String),
    /// A struct with named fields, in the order of their binary forms.
    Struct {
        /// The type's name, without its path.
        name: String,
        /// Its fields.
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
    /// A `u32` count, then key and value in turn.
    Map(Box<Schema>, Box<Schema>),
    /// The parts one after another.
    Tuple(Vec<Schema>),
    /// A foreign type's own form (a `serde` adapter): only the name is known, so it can't evolve.
    Opaque(String),
}

/// A field of a struct or variant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub schema: Schema,
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
