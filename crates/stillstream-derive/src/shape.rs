//! What the derive needs to know of a type, and what it refuses.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Fields, Generics, Ident, Member, Path, Result, Type};

/// A type to derive for.
pub struct Shape {
    pub ident: Ident,
    pub name: String,
    pub generics: Generics,
    /// Where the state crate's items are.
    pub state: Path,
    pub kind: Kind,
}

/// A struct or an enum.
pub enum Kind {
    Struct(Vec<Part>),
    Enum(Vec<Variant>),
}

/// One variant of an enum.
pub struct Variant {
    pub ident: Ident,
    pub name: String,
    pub parts: Vec<Part>,
}

/// One field.
pub struct Part {
    pub member: Member,
    pub name: String,
    pub ty: Type,
}

impl Shape {
    /// Reads the type; the errors point at what is refused.
    pub fn read(input: &DeriveInput) -> Result<Self> {
        if let Some(lifetime) = input.generics.lifetimes().next() {
            return Err(Error::new_spanned(
                lifetime,
                "a type that borrows can't be `Data`: state outlives every borrow, so own the value (`String` for `&str`)",
            ));
        }
        let kind = match &input.data {
            Data::Struct(data) => Kind::Struct(parts(&data.fields)),
            Data::Enum(data) if data.variants.is_empty() => {
                return Err(Error::new_spanned(
                    &input.ident,
                    "an enum without variants has no values to store",
                ));
            }
            Data::Enum(data) => Kind::Enum(
                data.variants
                    .iter()
                    .map(|variant| Variant {
                        name: variant.ident.unraw().to_string(),
                        ident: variant.ident.clone(),
                        parts: parts(&variant.fields),
                    })
                    .collect(),
            ),
            Data::Union(_) => {
                return Err(Error::new_spanned(&input.ident, "a union can't be `Data`: use an enum"));
            }
        };
        Ok(Self {
            name: input.ident.unraw().to_string(),
            ident: input.ident.clone(),
            generics: input.generics.clone(),
            state: state_path(input)?,
            kind,
        })
    }
}

fn parts(fields: &Fields) -> Vec<Part> {
    fields
        .members()
        .zip(fields)
        .map(|(member, field)| Part {
            name: match &member {
                Member::Named(ident) => ident.unraw().to_string(),
                Member::Unnamed(index) => index.index.to_string(),
            },
            member,
            ty: field.ty.clone(),
        })
        .collect()
}

fn state_path(input: &DeriveInput) -> Result<Path> {
    let mut path = None;
    for attribute in input.attrs.iter().filter(|a| a.path().is_ident("data")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("`crate = path` is the only setting of `#[data(..)]`"));
            }
            path = Some(meta.value()?.parse::<Path>()?);
            Ok(())
        })?;
    }
    match path {
        Some(path) => Ok(path),
        None => syn::parse_str("::stillstream::state").map_err(|e| Error::new(Span::call_site(), e)),
    }
}
