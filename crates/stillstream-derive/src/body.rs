//! The generated implementation.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, parse_quote};

use crate::shape::{FieldDefault, Kind, Part, Shape};

/// `impl Data for ..`.
pub fn implementation(shape: &Shape) -> TokenStream {
    let state = &shape.state;
    let p = quote!(#state::__private);
    let mut generics = shape.generics.clone();
    generics.type_params_mut().for_each(|parameter| parameter.bounds.push(parse_quote!(#p::Data)));
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let ident = &shape.ident;
    let bodies = match &shape.kind {
        Kind::Struct(parts) => struct_bodies(&p, shape, parts),
        Kind::Enum(_) => enum_bodies(&p, shape),
    };
    let types: Vec<_> = shape.all_parts().map(|part| &part.ty).collect();
    let Bodies { encode, decode, schema, evolved, hash } = bodies;
    // what a type that holds itself would need to know of itself to be one
    let depth = match shape.recursive {
        true => quote!(1),
        false => {
            let depths = types.iter().map(|ty| quote_spanned!(place_of(ty)=> <#ty as #p::Data>::DEPTH));
            quote!(#p::deepest(&[#(#depths),*]))
        }
    };
    let one_form = match shape.recursive {
        true => quote!(true),
        false => {
            let forms = types.iter().map(|ty| quote_spanned!(place_of(ty)=> <#ty as #p::Data>::ONE_FORM));
            quote!(true #(&& #forms)*)
        }
    };
    let name = &shape.name;
    let (encode, decode, schema, evolved) = match shape.recursive {
        true => (
            quote!(#p::write_deeper::<Self>(|| { #encode })),
            quote!(#p::read_deeper(#name, || { #decode })),
            quote!(#p::describe::<Self>(|| { #schema })),
            quote!(#p::read_deeper(#name, || { #evolved })),
        ),
        false => (encode, decode, schema, evolved),
    };
    quote! {
        #[automatically_derived]
        #[allow(clippy::all, unused_variables, unused_mut, unused_imports)]
        impl #impl_generics #p::Data for #ident #ty_generics #where_clause {
            const DEPTH: usize = #depth;
            const ONE_FORM: bool = #one_form;
            #[inline]
            fn encode(&self, out: &mut #p::Vec<u8>) { #encode }
            #[inline]
            fn decode(input: &mut &[u8]) -> #p::Result<Self, #p::DecodeError> { #decode }
            fn schema() -> #p::Schema {
                // a type that holds itself, and does not say so, ends here, at compile time
                const { assert!(<Self as #p::Data>::DEPTH > 0) };
                #schema
            }
            fn decode_evolved(stored: &#p::Schema, input: &mut &[u8]) -> #p::Result<Self, #p::DecodeError> {
                #p::within(stored, |stored| { #evolved })
            }
            #[inline]
            fn hash_key(&self, hasher: &mut #p::KeyHasher) { #hash }
        }
    }
}

/// Where an error about a field's type points: at the type. Names resolve as in the rest of the generated
/// code, also when the type stands in a macro of its own.
fn place_of(ty: &syn::Type) -> Span {
    ty.span().resolved_at(Span::call_site())
}

struct Bodies {
    encode: TokenStream,
    decode: TokenStream,
    schema: TokenStream,
    evolved: TokenStream,
    hash: TokenStream,
}

fn struct_bodies(p: &TokenStream, shape: &Shape, parts: &[Part]) -> Bodies {
    let name = &shape.name;
    let on_self = |call: &dyn Fn(&Part, TokenStream) -> TokenStream| -> TokenStream {
        written(parts)
            .map(|part| {
                let member = &part.member;
                call(part, quote!(&self.#member))
            })
            .collect()
    };
    let fields = schema_fields(p, parts);
    let evolved = evolved(p, name, &quote!(Self), parts);
    let decoded = decoded(p, &quote!(Self), parts);
    Bodies {
        encode: on_self(&|part, place| encode_part(p, part, place)),
        decode: quote!(#p::Ok(#decoded)),
        schema: quote!(#p::Schema::Struct { name: #p::String::from(#name), fields: #fields }),
        evolved: quote! {
            let #p::Schema::Struct { fields, .. } = stored else {
                return #p::Err(#p::DecodeError::other_form(#name, stored));
            };
            #evolved
        },
        hash: match written(parts).next().is_none() {
            true => quote!(hasher.int(0);),
            false => on_self(&|part, place| hash_part(p, part, place)),
        },
    }
}

fn enum_bodies(p: &TokenStream, shape: &Shape) -> Bodies {
    let Kind::Enum(variants) = &shape.kind else { unreachable!("only called for enums") };
    let name = &shape.name;
    let (mut encode, mut decode, mut schema, mut evolved_arms, mut hash) =
        (TokenStream::new(), TokenStream::new(), TokenStream::new(), TokenStream::new(), TokenStream::new());
    for (at, variant) in variants.iter().enumerate() {
        let (at, ident, variant_name) = (at as u32, &variant.ident, &variant.name);
        let bound: Vec<Ident> =
            written(&variant.parts).enumerate().map(|(n, _)| format_ident!("part_{n}")).collect();
        let members = written(&variant.parts).map(|part| &part.member);
        let pattern = quote!(Self::#ident { #(#members: #bound,)* .. });
        let parts = || written(&variant.parts).zip(&bound);
        let encoded = parts().map(|(part, bound)| encode_part(p, part, quote!(#bound)));
        let hashed = parts().map(|(part, bound)| hash_part(p, part, quote!(#bound)));
        let decoded = decoded(p, &quote!(Self::#ident), &variant.parts);
        let fields = schema_fields(p, &variant.parts);
        let owner = format!("{name}::{variant_name}");
        let evolved = evolved(p, &owner, &quote!(Self::#ident), &variant.parts);
        encode.extend(quote!(#pattern => { <u32 as #p::Data>::encode(&#at, out); #(#encoded)* }));
        hash.extend(quote!(#pattern => { hasher.int(#at as i32); #(#hashed)* }));
        decode.extend(quote!(#at => #p::Ok(#decoded),));
        let aliases = &variant.aliases;
        schema.extend(quote!(#p::Variant {
            name: #p::String::from(#variant_name),
            fields: #fields,
            aliases: #p::vec![#(#p::String::from(#aliases)),*],
        },));
        let place = at as usize;
        evolved_arms.extend(quote!(#p::Some(#place) => { #evolved }));
    }
    let count = variants.len();
    let names = variants.iter().map(|variant| names(&variant.name, &variant.aliases));
    Bodies {
        encode: quote!(match self { #encode }),
        decode: quote! {
            match <u32 as #p::Data>::decode(input)? {
                #decode
                other => #p::Err(#p::no_variant(#name, other, #count)),
            }
        },
        schema: quote!(#p::Schema::Enum { name: #p::String::from(#name), variants: #p::vec![#schema] }),
        evolved: quote! {
            let #p::Schema::Enum { variants, .. } = stored else {
                return #p::Err(#p::DecodeError::other_form(#name, stored));
            };
            let at = <u32 as #p::Data>::decode(input)?;
            let #p::Some(variant) = variants.get(at as usize) else {
                return #p::Err(#p::no_variant(#name, at, variants.len()));
            };
            let fields = &variant.fields;
            match #p::taker(variants, at as usize, &[#(#names),*]) {
                #evolved_arms
                _ => #p::Err(#p::dropped_variant(#name, &variant.name)),
            }
        },
        hash: quote!(match self { #hash }),
    }
}

fn encode_part(p: &TokenStream, part: &Part, place: TokenStream) -> TokenStream {
    let ty = &part.ty;
    quote_spanned!(place_of(ty)=> <#ty as #p::Data>::encode(#place, out);)
}

fn hash_part(p: &TokenStream, part: &Part, place: TokenStream) -> TokenStream {
    let ty = &part.ty;
    quote_spanned!(place_of(ty)=> <#ty as #p::Data>::hash_key(#place, hasher);)
}

/// The fields that have a binary form.
fn written(parts: &[Part]) -> impl Iterator<Item = &Part> + Clone {
    parts.iter().filter(|part| !part.skip)
}

/// A name and the former ones, as `taker` takes them.
fn names(name: &str, aliases: &[String]) -> TokenStream {
    quote!((#name, &[#(#aliases),*] as &[&str]))
}

/// How the default of a field is made: an `Option` of a function.
fn default_fn(p: &TokenStream, part: &Part) -> TokenStream {
    let ty = &part.ty;
    match &part.default {
        FieldDefault::By(path) => quote!(#p::Some(#path as fn() -> #ty)),
        FieldDefault::OfType => {
            quote_spanned!(place_of(ty)=> #p::Some(<#ty as ::core::default::Default>::default as fn() -> #ty))
        }
        FieldDefault::IfThereIsOne => quote_spanned! {place_of(ty)=> {
            use #p::{NoDefault as _, WithDefault as _};
            (&#p::Probe::<#ty>::new()).default_fn()
        }},
    }
}

/// The value of a field that is never written.
fn skipped(part: &Part) -> TokenStream {
    let (member, ty) = (&part.member, &part.ty);
    match &part.default {
        FieldDefault::By(path) => quote!(#member: #path()),
        _ => quote_spanned!(place_of(ty)=> #member: <#ty as ::core::default::Default>::default()),
    }
}

fn decoded(p: &TokenStream, path: &TokenStream, parts: &[Part]) -> TokenStream {
    let fields = parts.iter().map(|part| match part {
        part if part.skip => skipped(part),
        Part { member, ty, .. } => {
            quote_spanned!(place_of(ty)=> #member: <#ty as #p::Data>::decode(input)?)
        }
    });
    quote!(#path { #(#fields),* })
}

fn schema_fields(p: &TokenStream, parts: &[Part]) -> TokenStream {
    let fields = written(parts).map(|part| {
        let Part { name, aliases, ty, .. } = part;
        let default = default_fn(p, part);
        quote_spanned! {place_of(ty)=> #p::Field {
            name: #p::String::from(#name),
            schema: <#ty as #p::Data>::schema(),
            default: (#default).is_some(),
            aliases: #p::vec![#(#p::String::from(#aliases)),*],
        }}
    });
    quote!(#p::vec![#(#fields),*])
}

/// Reads the stored `fields` in their order into slots, each into that of the field that takes it, passes
/// over dropped ones, and fills in new ones.
fn evolved(p: &TokenStream, owner: &str, path: &TokenStream, parts: &[Part]) -> TokenStream {
    let slots: Vec<Ident> = written(parts).enumerate().map(|(n, _)| format_ident!("slot_{n}")).collect();
    let types: Vec<_> = written(parts).map(|part| &part.ty).collect();
    let known = written(parts).map(|part| names(&part.name, &part.aliases));
    let places = 0..slots.len();
    let made = written(parts).zip(&slots).map(|(part, slot)| {
        let Part { member, name, .. } = part;
        let default = default_fn(p, part);
        quote!(#member: #p::or_default(#slot, #default, #owner, #name)?)
    });
    let made = made.chain(parts.iter().filter(|part| part.skip).map(skipped));
    quote! {
        #(let mut #slots: #p::Option<#types> = #p::None;)*
        let known: &[(&str, &[&str])] = &[#(#known),*];
        for (at, field) in fields.iter().enumerate() {
            match #p::taker(fields, at, known) {
                #(#p::Some(#places) => #slots = #p::Some(<#types as #p::Data>::decode_evolved(&field.schema, input)?),)*
                _ => #p::skip(&field.schema, input)?,
            }
        }
        #p::Ok(#path { #(#made,)* })
    }
}
