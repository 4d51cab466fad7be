//! What the derive needs to know of a type, and what it refuses.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Generics, Ident, LitStr, Member, Path, Result, Type};

/// A type to derive for.
pub struct Shape {
    pub ident: Ident,
    pub name: String,
    pub generics: Generics,
    /// Where the state crate's items are.
    pub state: Path,
    /// Whether it may hold itself.
    pub recursive: bool,
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
    pub aliases: Vec<String>,
    pub parts: Vec<Part>,
}

/// One field.
pub struct Part {
    pub member: Member,
    pub name: String,
    pub aliases: Vec<String>,
    pub ty: Type,
    /// Where a value that is not stored comes from.
    pub default: FieldDefault,
    /// Whether it is never written.
    pub skip: bool,
}

/// What a field gets that is not stored.
pub enum FieldDefault {
    /// Its type's `Default`, if it has one.
    IfThereIsOne,
    /// Its type's `Default`.
    OfType,
    /// What this function returns.
    By(Path),
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
        let of_type = TypeSettings::read(&input.attrs)?;
        let kind = match &input.data {
            Data::Struct(data) => Kind::Struct(parts(&data.fields)?),
            Data::Enum(data) if data.variants.is_empty() => {
                return Err(Error::new_spanned(
                    &input.ident,
                    "an enum without variants has no values to store",
                ));
            }
            Data::Enum(data) => Kind::Enum(data.variants.iter().map(variant).collect::<Result<_>>()?),
            Data::Union(_) => {
                return Err(Error::new_spanned(&input.ident, "a union can't be `Data`: use an enum"));
            }
        };
        if let Kind::Enum(variants) = &kind {
            let names = variants.iter().map(|variant| (&variant.ident, &variant.name, &variant.aliases));
            each_name_once(names)?;
        }
        let mut this = Self {
            name: of_type.names.name.unwrap_or_else(|| input.ident.unraw().to_string()),
            ident: input.ident.clone(),
            generics: input.generics.clone(),
            state: match of_type.state {
                Some(path) => path,
                None => {
                    syn::parse_str("::stillstream::state").map_err(|e| Error::new(Span::call_site(), e))?
                }
            },
            recursive: of_type.recursive,
            kind,
        };
        let itself = this.all_parts().any(|part| mentions(part.ty.to_token_stream(), &input.ident));
        this.recursive |= itself;
        Ok(this)
    }

    /// All fields that are written.
    pub fn all_parts(&self) -> Box<dyn Iterator<Item = &Part> + '_> {
        let parts: Box<dyn Iterator<Item = &Part>> = match &self.kind {
            Kind::Struct(parts) => Box::new(parts.iter()),
            Kind::Enum(variants) => Box::new(variants.iter().flat_map(|variant| &variant.parts)),
        };
        Box::new(parts.filter(|part| !part.skip))
    }
}

/// Whether a type names another one, or `Self`.
fn mentions(ty: TokenStream, name: &Ident) -> bool {
    ty.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name || ident == "Self",
        TokenTree::Group(group) => mentions(group.stream(), name),
        _ => false,
    })
}

fn variant(variant: &syn::Variant) -> Result<Variant> {
    let mut names = Names::default();
    settings(&variant.attrs, |meta| names.take(meta, "a variant takes `rename` and `alias`"))?;
    Ok(Variant {
        name: names.name.unwrap_or_else(|| variant.ident.unraw().to_string()),
        aliases: names.aliases,
        ident: variant.ident.clone(),
        parts: parts(&variant.fields)?,
    })
}

fn parts(fields: &Fields) -> Result<Vec<Part>> {
    let parts: Vec<Part> =
        fields.members().zip(fields).map(|(member, field)| part(member, field)).collect::<Result<_>>()?;
    let written = parts.iter().filter(|part| !part.skip);
    each_name_once(written.map(|part| (&part.member, &part.name, &part.aliases)))?;
    Ok(parts)
}

fn part(member: Member, field: &syn::Field) -> Result<Part> {
    let (mut names, mut default, mut skip) = (Names::default(), FieldDefault::IfThereIsOne, None);
    settings(&field.attrs, |meta| {
        if meta.path.is_ident("skip") {
            skip = Some(meta.path.clone());
            Ok(())
        } else if meta.path.is_ident("default") {
            default = match meta.input.peek(syn::Token![=]) {
                true => FieldDefault::By(path(meta)?),
                false => FieldDefault::OfType,
            };
            Ok(())
        } else {
            names.take(meta, "a field takes `rename`, `alias`, `default`, `default = path` and `skip`")
        }
    })?;
    if let (Some(skip), true) = (&skip, names.name.is_some() || !names.aliases.is_empty()) {
        return Err(Error::new_spanned(
            skip,
            "a field that is never written has no name there: leave out `rename` and `alias`",
        ));
    }
    Ok(Part {
        name: names.name.unwrap_or_else(|| match &member {
            Member::Named(ident) => ident.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        }),
        member,
        aliases: names.aliases,
        ty: field.ty.clone(),
        default: match (skip.is_some(), default) {
            (true, FieldDefault::IfThereIsOne) => FieldDefault::OfType,
            (_, default) => default,
        },
        skip: skip.is_some(),
    })
}

/// Two fields, or two variants, must not claim the same stored one.
fn each_name_once<'a, T: ToTokens + 'a>(
    named: impl Iterator<Item = (&'a T, &'a String, &'a Vec<String>)>,
) -> Result<()> {
    let mut seen = Vec::new();
    for (place, name, aliases) in named {
        for name in std::iter::once(name).chain(aliases) {
            if seen.contains(&name) {
                return Err(Error::new_spanned(
                    place,
                    format!("`{name}` is the name or former name of another one too"),
                ));
            }
            seen.push(name);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Names {
    name: Option<String>,
    aliases: Vec<String>,
}

impl Names {
    fn take(&mut self, meta: &ParseNestedMeta<'_>, allowed: &str) -> Result<()> {
        if meta.path.is_ident("rename") {
            self.name = Some(meta.value()?.parse::<LitStr>()?.value());
        } else if meta.path.is_ident("alias") {
            self.aliases.push(meta.value()?.parse::<LitStr>()?.value());
        } else {
            return Err(meta.error(allowed));
        }
        Ok(())
    }
}

#[derive(Default)]
struct TypeSettings {
    names: Names,
    state: Option<Path>,
    recursive: bool,
}

impl TypeSettings {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut this = Self::default();
        settings(attributes, |meta| {
            if meta.path.is_ident("crate") {
                this.state = Some(path(meta)?);
            } else if meta.path.is_ident("recursive") {
                this.recursive = true;
            } else {
                this.names.take(meta, "a type takes `rename`, `alias`, `recursive` and `crate = path`")?;
            }
            Ok(())
        })?;
        Ok(this)
    }
}

/// A path, as it is or in quotes.
fn path(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    let value = meta.value()?;
    match value.peek(LitStr) {
        true => value.parse::<LitStr>()?.parse(),
        false => value.parse(),
    }
}

/// Hands over each setting of `#[data(..)]`.
fn settings(
    attributes: &[Attribute],
    mut take: impl FnMut(&ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("data")) {
        attribute.parse_nested_meta(|meta| take(&meta))?;
    }
    Ok(())
}
