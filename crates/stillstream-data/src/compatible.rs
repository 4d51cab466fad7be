//! Whether a snapshot's type can be read as the program's type, and what of it would be lost.

use crate::recursion::Unfolded;
use crate::{Field, Schema, Variant};

/// Whether stored values can be read as a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compatibility {
    /// The binary forms are equal.
    AsIs,
    /// Each value is read by the stored schema: fields were added, dropped or moved, or types became wider.
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
    /// - Fields of structs may be added (if they have a default), dropped, moved, and renamed with an
    ///   `alias`; what is dropped [`dropped_fields`](Self::dropped_fields) tells.
    /// - Variants of enums may be added, moved, and renamed with an `alias`.
    /// - Integers may become wider (also signed, where every value has room), an `f32` may become an `f64`,
    ///   and a `T` an `Option<T>`.
    /// - Names of types do not matter: a struct or enum is what its fields and variants are.
    /// - A time to live may be switched on and off. A set may become a list.
    ///
    /// Keys of maps and items of sets must stay what they are.
    ///
    /// ```
    /// use stillstream_data::{Compatibility, Data};
    /// assert_eq!(u64::schema().compatible_with(&u64::schema()), Compatibility::AsIs);
    /// assert_eq!(Option::<u64>::schema().compatible_with(&u32::schema()), Compatibility::AfterMigration);
    /// assert_eq!(
    ///     u64::schema().compatible_with(&String::schema()),
    ///     Compatibility::Incompatible("a string can't become a u64".into()),
    /// );
    /// ```
    pub fn compatible_with(&self, stored: &Schema) -> Compatibility {
        Comparing::default().whole(self, stored)
    }

    /// The fields that values written as `stored` have and `self` has not, one sentence each: what they hold
    /// is lost when such values are read as `self`. Empty if the two are not compatible.
    ///
    /// ```
    /// use stillstream_data::Data;
    /// mod old {
    ///     #[derive(Clone, stillstream_data::Data)]
    ///     #[data(crate = stillstream_data)]
    ///     pub struct Visit { pub clicks: u32 }
    /// }
    /// #[derive(Clone, Data)]
    /// #[data(crate = stillstream_data)]
    /// struct Visit { events: u32 }
    /// let advice = "if it is `events` now, put #[data(alias = \"clicks\")] on that field";
    /// assert_eq!(
    ///     Visit::schema().dropped_fields(&old::Visit::schema()),
    ///     [format!("field `clicks` (u32) of `Visit`; {advice}")],
    /// );
    /// ```
    pub fn dropped_fields(&self, stored: &Schema) -> Vec<String> {
        let mut comparing = Comparing::default();
        match comparing.whole(self, stored) {
            Compatibility::Incompatible(_) => Vec::new(),
            _ => comparing.dropped,
        }
    }
}

/// A comparison under way.
#[derive(Default)]
struct Comparing {
    /// Structs and enums that are being compared: types that hold themselves meet the same pair again.
    under_way: Vec<(*const Schema, *const Schema)>,
    dropped: Vec<String>,
    /// How many sets and keys of maps are around what is being compared.
    in_keys: usize,
    /// Whether an item of a set or key of a map holds a pair that is still being compared.
    keys_hold_themselves: bool,
}

impl Comparing {
    fn whole(&mut self, new: &Schema, stored: &Schema) -> Compatibility {
        match self.compare(&Unfolded::of(new), &Unfolded::of(stored)) {
            Compatibility::AfterMigration if self.keys_hold_themselves => Compatibility::Incompatible(
                "a type that is an item of a set or the key of a map within itself can't change".into(),
            ),
            found => found,
        }
    }

    /// What must stay as it is.
    fn keys(&mut self, new: &Unfolded<'_>, old: &Unfolded<'_>) -> Compatibility {
        self.in_keys += 1;
        let found = self.compare(new, old);
        self.in_keys -= 1;
        found
    }

    fn compare(&mut self, new: &Unfolded<'_>, old: &Unfolded<'_>) -> Compatibility {
        use Compatibility::{AfterMigration, AsIs, Incompatible};
        #[cfg(feature = "serde-adapter")]
        if new.schema.is_newer_serde_than(old.schema) {
            return AfterMigration;
        }
        let pair = (std::ptr::from_ref(new.schema), std::ptr::from_ref(old.schema));
        match (new.schema, old.schema) {
            (Schema::Primitive(name), Schema::Primitive(stored))
            | (Schema::Opaque(name), Schema::Opaque(stored))
                if name == stored =>
            {
                AsIs
            }
            (Schema::Primitive(name), Schema::Primitive(stored)) if widens(stored, name) => AfterMigration,
            (Schema::Struct { .. } | Schema::Enum { .. }, _) if self.under_way.contains(&pair) => {
                self.keys_hold_themselves |= self.in_keys > 0;
                AsIs
            }
            (Schema::Struct { name, fields }, Schema::Struct { fields: stored, .. }) => {
                self.under_way.push(pair);
                let found = self.fields(name, (fields, new), (stored, old));
                self.under_way.pop();
                found
            }
            (Schema::Enum { name, variants }, Schema::Enum { variants: stored, .. }) => {
                self.under_way.push(pair);
                let found = self.variants(name, (variants, new), (stored, old));
                self.under_way.pop();
                found
            }
            (Schema::Option(inner), Schema::Option(stored))
            | (Schema::List(inner), Schema::List(stored))
            | (Schema::Expiring(inner), Schema::Expiring(stored)) => {
                self.compare(&new.part(inner), &old.part(stored))
            }
            // a time to live was switched on or off
            (Schema::Expiring(inner), _) => AfterMigration.and(|| self.compare(&new.part(inner), old)),
            (_, Schema::Expiring(stored)) => AfterMigration.and(|| self.compare(new, &old.part(stored))),
            (Schema::Option(inner), _) => AfterMigration.and(|| self.compare(&new.part(inner), old)),
            (Schema::Array(inner, n), Schema::Array(stored, m)) if n == m => {
                self.compare(&new.part(inner), &old.part(stored))
            }
            (Schema::Set(inner), Schema::Set(stored)) => match self.keys(&new.part(inner), &old.part(stored))
            {
                AsIs => AsIs,
                _ => Incompatible(format!("the items of a set can't change from {stored} to {inner}")),
            },
            (Schema::List(inner), Schema::Set(stored)) => self.compare(&new.part(inner), &old.part(stored)),
            (Schema::Set(_), Schema::List(_)) => Incompatible(format!(
                "a {} can't become a {}: items that are equal would become one",
                old.schema, new.schema
            )),
            (Schema::Map(key, value), Schema::Map(stored_key, stored_value)) => {
                match self.keys(&new.part(key), &old.part(stored_key)) {
                    AsIs => self.compare(&new.part(value), &old.part(stored_value)),
                    _ => Incompatible(format!("the keys of a map can't change from {stored_key} to {key}")),
                }
            }
            (Schema::Tuple(parts), Schema::Tuple(stored)) if parts.len() == stored.len() => {
                parts.iter().zip(stored).fold(AsIs, |so_far, (part, stored)| {
                    so_far.and(|| self.compare(&new.part(part), &old.part(stored)))
                })
            }
            (new, old) => Incompatible(format!("a {old} can't become a {new}")),
        }
    }

    fn fields(
        &mut self,
        owner: &str,
        (new, around): (&[Field], &Unfolded<'_>),
        (old, around_old): (&[Field], &Unfolded<'_>),
    ) -> Compatibility {
        let names = names_of(new);
        let takers: Vec<Option<usize>> = (0..old.len()).map(|at| taker(old, at, &names)).collect();
        let in_place =
            new.len() == old.len() && takers.iter().enumerate().all(|(at, taker)| *taker == Some(at));
        let mut found = if in_place { Compatibility::AsIs } else { Compatibility::AfterMigration };
        let dropped = || old.iter().zip(&takers).filter(|(_, taker)| taker.is_none()).map(|(field, _)| field);
        for (at, field) in new.iter().enumerate() {
            found = found.and(|| match takers.iter().position(|taker| *taker == Some(at)) {
                Some(stored) => {
                    let stored = around_old.part(&old[stored].schema);
                    match self.compare(&around.part(&field.schema), &stored) {
                        Compatibility::Incompatible(why) => {
                            Compatibility::Incompatible(format!("field `{}` of `{owner}`: {why}", field.name))
                        }
                        other => other,
                    }
                }
                None if field.default => Compatibility::AfterMigration,
                None => {
                    let (name, schema) = (&field.name, &field.schema);
                    let before = dropped().map(|old| {
                        format!("; if it was named `{0}`, put #[data(alias = \"{0}\")] on it", old.name)
                    });
                    Compatibility::Incompatible(format!(
                        "field `{name}` of `{owner}` is new, and neither does its type {schema} have a `Default` nor it \
                         a #[data(default = path)]{}",
                        before.collect::<String>()
                    ))
                }
            });
        }
        let is_new = |at: &usize| !takers.contains(&Some(*at));
        let added: Vec<&Field> = (0..new.len()).filter(is_new).map(|at| &new[at]).collect();
        for lost in dropped() {
            let fits = |field: &&&Field| {
                let of_type = around.part(&field.schema);
                let found = Comparing::default().compare(&of_type, &around_old.part(&lost.schema));
                !matches!(found, Compatibility::Incompatible(_))
            };
            let hint = added.iter().find(fits).map_or_else(String::new, |field| {
                format!(
                    "; if it is `{}` now, put #[data(alias = \"{}\")] on that field",
                    field.name, lost.name
                )
            });
            let sentence = format!("field `{}` ({}) of `{owner}`{hint}", lost.name, lost.schema);
            if !self.dropped.contains(&sentence) {
                self.dropped.push(sentence);
            }
        }
        found
    }

    fn variants(
        &mut self,
        owner: &str,
        (new, around): (&[Variant], &Unfolded<'_>),
        (old, around_old): (&[Variant], &Unfolded<'_>),
    ) -> Compatibility {
        let names: Vec<(&str, Vec<&str>)> =
            new.iter().map(|variant| names(&variant.name, &variant.aliases)).collect();
        let mut found = Compatibility::AsIs;
        for (at, stored) in old.iter().enumerate() {
            found = found.and(|| match taker(old, at, &names) {
                None => Compatibility::Incompatible(format!(
                    "variant `{0}` of `{owner}` was dropped; if it has another name now, put #[data(alias = \"{0}\")] on it",
                    stored.name
                )),
                Some(new_at) => {
                    let place = if new_at == at { Compatibility::AsIs } else { Compatibility::AfterMigration };
                    let owner = format!("{owner}::{}", new[new_at].name);
                    place.and(|| self.fields(&owner, (&new[new_at].fields, around), (&stored.fields, around_old)))
                }
            });
        }
        found
    }
}

/// Whether every value of the one is one of the other.
fn widens(stored: &str, new: &str) -> bool {
    match (number(stored), number(new)) {
        (Some((from, bits)), Some((to, room))) => match (from, to) {
            ('u', 'u') | ('i', 'i') | ('u', 'i') | ('f', 'f') => bits < room,
            _ => false,
        },
        _ => false,
    }
}

/// Sort and bits of a number.
fn number(name: &str) -> Option<(char, u32)> {
    let sort = name.chars().next().filter(|sort| matches!(sort, 'u' | 'i' | 'f'))?;
    Some((sort, name[1..].parse().ok()?))
}

fn names<'a>(name: &'a str, aliases: &'a [String]) -> (&'a str, Vec<&'a str>) {
    (name, aliases.iter().map(String::as_str).collect())
}

fn names_of(fields: &[Field]) -> Vec<(&str, Vec<&str>)> {
    fields.iter().map(|field| names(&field.name, &field.aliases)).collect()
}

/// Something stored that has a name.
pub trait Named {
    /// Its name.
    fn name(&self) -> &str;
}

impl Named for Field {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Variant {
    fn name(&self) -> &str {
        &self.name
    }
}

/// Which of the program's fields (or variants), by their names and former names, takes a stored one: the one
/// of its name; else the one that had this name, unless something stored has a better claim to it.
pub fn taker<A: AsRef<[B]>, B: AsRef<str>>(
    stored: &[impl Named],
    at: usize,
    program: &[(&str, A)],
) -> Option<usize> {
    let name = stored.get(at)?.name();
    if let Some(same) = program.iter().position(|(own, _)| *own == name) {
        return Some(same);
    }
    let is_stored = |name: &str| stored.iter().any(|stored| stored.name() == name);
    program.iter().position(|(own, former)| {
        !is_stored(own)
            && former
                .as_ref()
                .iter()
                .find(|former| is_stored(former.as_ref()))
                .is_some_and(|former| former.as_ref() == name)
    })
}
