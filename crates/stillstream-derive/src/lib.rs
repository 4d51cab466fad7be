//! `#[derive(Data)]`: binary form and schema of users' types.
//!
//! The generated code names everything through one path: `::stillstream::state`, which users of the `stillstream`
//! crate have. Crates that depend on `stillstream-state` alone say so with `#[data(crate = stillstream_state)]`.

mod body;
mod shape;

use proc_macro::TokenStream;

/// Derives `Data` for a struct or an enum, field by field.
///
/// - Structs: the fields one after another. Enums: the variant's number in declaration order as `u32`, then its fields.
/// - Generic parameters get the bound `Data`. Types with lifetimes are refused: state outlives every borrow.
/// - A field may be added later if its type has a `Default`, which old state then gets; fields may be dropped and moved.
///
/// `#[data(crate = path)]` on the type says where `stillstream_state`'s items are found; `::stillstream::state` if it
/// is left out.
#[proc_macro_derive(Data, attributes(data))]
pub fn derive_data(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    shape::Shape::read(&input)
        .map(|shape| body::implementation(&shape))
        .unwrap_or_else(|e| e.to_compile_error())
        .into()
}
