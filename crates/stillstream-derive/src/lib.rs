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
/// - A type that holds itself (`children: Vec<Tree>`) needs nothing more; one that does so by way of another
///   type has `#[data(recursive)]` on one of the two. Values may nest 128 deep.
///
/// # What may change from one release of a job to the next
///
/// State is read by what a snapshot says of its types, so a type may change while its state is kept:
///
/// | change | what becomes of the state |
/// |---|---|
/// | a field is added | it gets its type's `Default`, or what `#[data(default = path)]` says; without either the start is refused |
/// | a field is renamed, with `#[data(alias = "old")]` | it keeps its values |
/// | a field is removed, or renamed without `alias` | the start is refused and names it, until `--allow-dropped-fields` allows to lose it |
/// | fields or variants change places; variants are added | nothing is lost |
/// | a variant is renamed, with `#[data(alias = "Old")]` | values keep their variant |
/// | a variant is removed | refused: values of it could not be read |
/// | an integer becomes wider, `f32` becomes `f64`, `T` becomes `Option<T>` | values are converted |
/// | the type is renamed or moves to another module | nothing: names of types do not count |
/// | `Box`, `Arc`, or one sort of list for another | nothing: they have the same form |
///
/// Keys, keys of maps and items of sets are compared by their forms, so their types may only change their
/// names.
///
/// # Attributes
///
/// | on | attribute | what it does |
/// |---|---|---|
/// | field, variant | `rename = "name"` | the name in snapshots, in place of Rust's |
/// | field, variant | `alias = "old"` | a name that it had before; may stand several times, the newest first |
/// | field | `default` | what old state gets is the type's `Default`; found without this too, but for generic types |
/// | field | `default = path` | what old state gets is what this function returns |
/// | field | `skip` | never written: whoever reads a value (after a restore, or in another process) has the default there. Not for parts of keys |
/// | type | `rename = "name"`, `alias = "old"` | for people who look at snapshots; state does not depend on the name of a type |
/// | type | `recursive` | the type holds itself by way of another one |
/// | type | `crate = path` | where `stillstream_state`'s items are found; `::stillstream::state` if it is left out |
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
