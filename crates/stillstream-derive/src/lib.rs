//! `#[derive(Data)]`: binary form and schema of users' types. `#[main]`: exit codes by kind of error.
//!
//! The generated code names everything through one path: `::stillstream::state`, which users of the
//! `stillstream` crate have. Crates that depend on `stillstream-state` alone say so with
//! `#[data(crate = stillstream_state)]`.

mod body;
mod shape;

use proc_macro::TokenStream;

/// Derives `Data` for a struct or an enum, field by field.
///
/// - Structs: the fields one after another. Enums: the variant's number in declaration order as `u32`, then
///   its fields.
/// - Generic parameters get the bound `Data`. Types with lifetimes are refused: state outlives every borrow.
/// - A field may be added later if its type has a `Default`, which old state then gets; fields may be dropped
///   and moved.
///
/// `#[data(crate = path)]` on the type says where `stillstream_state`'s items are found;
/// `::stillstream::state` if it is left out.
#[proc_macro_derive(Data, attributes(data))]
pub fn derive_data(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    shape::Shape::read(&input)
        .map(|shape| body::implementation(&shape))
        .unwrap_or_else(|e| e.to_compile_error())
        .into()
}

/// Makes the exit code of a `main` that returns `Result` tell what kind of error it was: see
/// `stillstream::exit_with`.
///
/// It stands above a plain `fn main() -> stillstream::Result<()>`.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = syn::parse_macro_input!(item as syn::ItemFn);
    let name = &function.sig.ident;
    let refuse =
        |what: &dyn quote::ToTokens, why: &str| syn::Error::new_spanned(what, why).to_compile_error().into();
    if !arguments.is_empty() {
        return refuse(&function.sig, "`#[stillstream::main]` takes no arguments");
    }
    if !function.sig.inputs.is_empty() || function.sig.asyncness.is_some() {
        return refuse(&function.sig, "`#[stillstream::main]` is for a plain `fn main() -> Result<()>`");
    }
    if matches!(function.sig.output, syn::ReturnType::Default) {
        return refuse(
            &function.sig,
            "`main` returns nothing: `#[stillstream::main]` is for one that returns a `Result`",
        );
    }
    let visible = &function.vis;
    quote::quote! {
        #visible fn #name() -> ::std::process::ExitCode {
            #function
            ::stillstream::exit_with(#name())
        }
    }
    .into()
}
