//! The generated implementation.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Member, parse_quote};

use crate::shape::{Kind, Part, Shape};

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
    let types = all_parts(shape).map(|part| &part.ty);
    let depths = types.map(|ty| quote_spanned!(place_of(ty)=> <#ty as #p::Data>::DEPTH));
    let Bodies { encode, decode, schema, evolved, hash } = bodies;
    quote! {
        #[automatically_derived]
        #[allow(clippy::all, unused_variables, unused_mut, unused_imports)]
        impl #impl_generics #p::Data for #ident #ty_generics #where_clause {
            const DEPTH: usize = #p::deepest(&[#(#depths),*]);
            #[inline]
            fn encode(&self, out: &mut #p::Vec<u8>) { #encode }
            #[inline]
            fn decode(input: &mut &[u8]) -> #p::Result<Self, #p::DecodeError> { #decode }
            fn schema() -> #p::Schema {
                // a type that holds itself ends here, at compile time
                const { assert!(<Self as #p::Data>::DEPTH > 0) };
                #schema
            }
            fn decode_evolved(stored: &#p::Schema, input: &mut &[u8]) -> #p::Result<Self, #p::DecodeError> { #evolved }
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

fn all_parts(shape: &Shape) -> Box<dyn Iterator<Item = &Part> + '_> {
    match &shape.kind {
        Kind::Struct(parts) => Box::new(parts.iter()),
        Kind::Enum(variants) => Box::new(variants.iter().flat_map(|variant| &variant.parts)),
    }
}

fn struct_bodies(p: &TokenStream, shape: &Shape, parts: &[Part]) -> Bodies {
    let name = &shape.name;
    let on_self = |call: &dyn Fn(&Part, TokenStream) -> TokenStream| -> TokenStream {
        parts
            .iter()
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
        hash: match parts.is_empty() {
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
        let bound: Vec<Ident> = (0..variant.parts.len()).map(|n| format_ident!("part_{n}")).collect();
        let members = variant.parts.iter().map(|part| &part.member);
        let pattern = quote!(Self::#ident { #(#members: #bound),* });
        let parts = || variant.parts.iter().zip(&bound);
        let encoded = parts().map(|(part, bound)| encode_part(p, part, quote!(#bound)));
        let hashed = parts().map(|(part, bound)| hash_part(p, part, quote!(#bound)));
        let decoded = decoded(p, &quote!(Self::#ident), &variant.parts);
        let fields = schema_fields(p, &variant.parts);
        let owner = format!("{name}::{variant_name}");
        let evolved = evolved(p, &owner, &quote!(Self::#ident), &variant.parts);
        encode.extend(quote!(#pattern => { <u32 as #p::Data>::encode(&#at, out); #(#encoded)* }));
        hash.extend(quote!(#pattern => { hasher.int(#at as i32); #(#hashed)* }));
        decode.extend(quote!(#at => #p::Ok(#decoded),));
        schema.extend(quote!((#p::String::from(#variant_name), #fields),));
        evolved_arms.extend(quote!(#variant_name => { #evolved }));
    }
    let count = variants.len();
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
            let #p::Some((variant, fields)) = variants.get(at as usize) else {
                return #p::Err(#p::no_variant(#name, at, variants.len()));
            };
            match variant.as_str() {
                #evolved_arms
                other => #p::Err(#p::dropped_variant(#name, other)),
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

fn decoded(p: &TokenStream, path: &TokenStream, parts: &[Part]) -> TokenStream {
    let fields = parts.iter().map(
        |Part { member, ty, .. }| quote_spanned!(place_of(ty)=> #member: <#ty as #p::Data>::decode(input)?),
    );
    quote!(#path { #(#fields),* })
}

fn schema_fields(p: &TokenStream, parts: &[Part]) -> TokenStream {
    let fields = parts.iter().map(|Part { name, ty, .. }| {
        quote_spanned! {place_of(ty)=> #p::Field {
            name: #p::String::from(#name),
            schema: <#ty as #p::Data>::schema(),
            default: {
                use #p::{NoDefault as _, WithDefault as _};
                (&#p::Probe::<#ty>::new()).default_fn().is_some()
            },
        }}
    });
    quote!(#p::vec![#(#fields),*])
}

/// Reads the stored `fields` in their order into slots by name, passes over dropped ones, and fills in new
/// ones.
fn evolved(p: &TokenStream, owner: &str, path: &TokenStream, parts: &[Part]) -> TokenStream {
    let slots: Vec<Ident> = (0..parts.len()).map(|n| format_ident!("slot_{n}")).collect();
    let types: Vec<_> = parts.iter().map(|part| &part.ty).collect();
    let names: Vec<_> = parts.iter().map(|part| &part.name).collect();
    let members: Vec<&Member> = parts.iter().map(|part| &part.member).collect();
    quote! {
        #(let mut #slots: #p::Option<#types> = #p::None;)*
        for field in fields {
            match field.name.as_str() {
                #(#names => #slots = #p::Some(<#types as #p::Data>::decode_evolved(&field.schema, input)?),)*
                _ => field.schema.skip(input)?,
            }
        }
        use #p::{NoDefault as _, WithDefault as _};
        #p::Ok(#path {
            #(#members: #p::or_default(#slots, (&#p::Probe::<#types>::new()).default_fn(), #owner, #names)?,)*
        })
    }
}
