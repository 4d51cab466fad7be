//! Whether a snapshot's type can be read as the program's type, by Flink's rules for POJOs.

use crate::{Field, Schema};

/// Whether stored values can be read as a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compatibility {
    /// The binary forms are equal.
    AsIs,
    /// Each value is read by the stored schema: fields were added, dropped or moved.
    AfterMigration,
    /// Never; the sentence says which rule forbids it.
    Incompatible(String),
}

impl Compatibility {
    fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Incompatible(_) => self,
            Self::AsIs => other(),
            Self::AfterMigration => match other() {
                Self::AsIs => Self::AfterMigration,
                other => other,
            },
        }
    }
}

impl Schema {
    /// Whether values written as `stored` can be read as `self`.
    ///
    /// Fields of structs may be added (if their type has a `Default`), dropped and moved; variants of enums
    /// may be added and moved. Types of fields, and names of structs and enums, may not change. A time to
    /// live may be switched on and off.
    ///
    /// ```
    /// use stillstream_data::{Compatibility, Data};
    /// assert_eq!(u64::schema().compatible_with(&u64::schema()), Compatibility::AsIs);
    /// assert_eq!(
    ///     u64::schema().compatible_with(&String::schema()),
    ///     Compatibility::Incompatible("a string can't become a u64".into()),
    /// );
    /// ```
    pub fn compatible_with(&self, stored: &Schema) -> Compatibility {
        use Compatibility::{AfterMigration, AsIs, Incompatible};
        #[cfg(feature = "serde-adapter")]
        if self.is_newer_serde_than(stored) {
            return AfterMigration;
        }
        match (self, stored) {
            (Self::Primitive(new), Self::Primitive(old)) | (Self::Opaque(new), Self::Opaque(old))
                if new == old =>
            {
                AsIs
            }
            (Self::Struct { name, fields }, Self::Struct { name: old_name, fields: old_fields }) => {
                same_name("struct", name, old_name).and(|| compare_fields(name, fields, old_fields))
            }
            (Self::Enum { name, variants }, Self::Enum { name: old_name, variants: old_variants }) => {
                same_name("enum", name, old_name).and(|| compare_variants(name, variants, old_variants))
            }
            (Self::Option(new), Self::Option(old))
            | (Self::List(new), Self::List(old))
            | (Self::Expiring(new), Self::Expiring(old)) => new.compatible_with(old),
            // a time to live was switched on or off
            (Self::Expiring(new), old) => AfterMigration.and(|| new.compatible_with(old)),
            (new, Self::Expiring(old)) => AfterMigration.and(|| new.compatible_with(old)),
            (Self::Array(new, n), Self::Array(old, m)) if n == m => new.compatible_with(old),
            (Self::Map(key, value), Self::Map(old_key, old_value)) => match key.compatible_with(old_key) {
                AsIs => value.compatible_with(old_value),
                _ => Incompatible(format!("the keys of a map can't change from {old_key} to {key}")),
            },
            (Self::Tuple(new), Self::Tuple(old)) if new.len() == old.len() => {
                new.iter().zip(old).fold(AsIs, |so_far, (new, old)| so_far.and(|| new.compatible_with(old)))
            }
            _ => Incompatible(format!("a {stored} can't become a {self}")),
        }
    }
}

fn same_name(what: &str, new: &str, old: &str) -> Compatibility {
    match new == old {
        true => Compatibility::AsIs,
        false => Compatibility::Incompatible(format!(
            "{what} `{old}` is now named `{new}`, and the name of a type can't change"
        )),
    }
}

fn compare_fields(owner: &str, new: &[Field], old: &[Field]) -> Compatibility {
    let in_place = new.len() == old.len() && new.iter().zip(old).all(|(new, old)| new.name == old.name);
    let start = if in_place { Compatibility::AsIs } else { Compatibility::AfterMigration };
    new.iter().fold(start, |so_far, field| {
        so_far.and(|| match old.iter().find(|old| old.name == field.name) {
            Some(old) => match field.schema.compatible_with(&old.schema) {
                Compatibility::Incompatible(why) => {
                    Compatibility::Incompatible(format!("field `{}` of `{owner}`: {why}", field.name))
                }
                other => other,
            },
            None if field.default => Compatibility::AfterMigration,
            None => Compatibility::Incompatible(format!(
                "field `{}` of `{owner}` is new and its type {} has no `Default`",
                field.name, field.schema
            )),
        })
    })
}

type Variant = (String, Vec<Field>);

fn compare_variants(owner: &str, new: &[Variant], old: &[Variant]) -> Compatibility {
    old.iter().enumerate().fold(Compatibility::AsIs, |so_far, (at, (name, old_fields))| {
        so_far.and(|| match new.iter().position(|(new_name, _)| new_name == name) {
            None => Compatibility::Incompatible(format!("variant `{name}` of `{owner}` was dropped")),
            Some(new_at) => {
                let place = if new_at == at { Compatibility::AsIs } else { Compatibility::AfterMigration };
                place.and(|| compare_fields(&format!("{owner}::{name}"), &new[new_at].1, old_fields))
            }
        })
    })
}
