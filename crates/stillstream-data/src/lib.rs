//! What may cross an exchange or live in state: the binary form, the description and the hash of users'
//! types.
//!
//! | module | what is inside |
//! |---|---|
//! | `data` | [`Data`] and [`Key`], the two traits |
//! | `number`, `text`, `net`, `container`, `tuple` | the types that have them from the start |
//! | `foreign` | types of other crates, each with a cargo feature: `chrono`, `uuid`, `bytes`, `rust_decimal` |
//! | `schema`, `schema_codec` | [`Schema`]: the description of a type, and its own binary form |
//! | `recursion` | types that hold themselves |
//! | `compatible`, `skip` | what a program's type can take over from a stored one, and how the rest is passed over |
//! | `hash`, `schema_hash` | [`KeyHasher`]: key group and hash of a key, by its type or by its schema |
//! | `serde_adapter`, `serde_form` | `Serde`: any `serde` type as opaque data, with the cargo feature `serde-adapter` |

mod compatible;
mod container;
mod data;
#[doc(hidden)]
pub mod derive_support;
mod foreign;
mod hash;
mod net;
mod number;
mod recursion;
mod schema;
mod schema_codec;
mod schema_hash;
#[cfg(feature = "serde-adapter")]
mod serde_adapter;
#[cfg(feature = "serde-adapter")]
mod serde_form;
mod skip;
mod text;
mod tuple;

#[doc(hidden)]
pub use derive_support as __private;

pub use compatible::Compatibility;
pub use data::{Data, Key};
#[doc(hidden)]
pub use data::{STAMP_BYTES, decode_stored};
pub use hash::KeyHasher;
#[doc(hidden)]
pub use recursion::Around;
pub use schema::{DecodeError, Field, Schema, Variant};
#[cfg(feature = "serde-adapter")]
pub use serde_adapter::Serde;
pub use stillstream_derive::Data;
