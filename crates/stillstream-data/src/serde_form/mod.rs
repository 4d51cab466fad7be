//! A self-describing binary form of everything that `serde` has.
//!
//! A form that does not describe itself can be written for many types and read for few: `serde_json::Value`,
//! tagged and untagged enums, flattened structs and fields that are skipped need to see what was written
//! before they know what to read. So each value here begins with a byte that says what it is, fields and
//! variants go by name, and `Some` is told from what is in it, so that `Some(None)` comes back as itself.
//!
//! The form calls itself readable by humans. It is not, but where `serde` buffers a value (in tagged and
//! untagged enums) it asks types for the form that is, whatever the format says; so both sides must use that
//! one.
//!
//! The bytes are described in `docs/formats.md`.

mod read;
mod write;

use std::fmt;

pub(super) use read::from_bytes;
pub(super) use write::to_bytes;

/// The byte in front of a value.
mod tag {
    pub const UNIT: u8 = 0;
    pub const NONE: u8 = 1;
    pub const SOME: u8 = 2;
    pub const FALSE: u8 = 3;
    pub const TRUE: u8 = 4;
    pub const UNSIGNED: u8 = 5;
    pub const SIGNED: u8 = 6;
    pub const U128: u8 = 7;
    pub const I128: u8 = 8;
    pub const F32: u8 = 9;
    pub const F64: u8 = 10;
    pub const CHAR: u8 = 11;
    pub const STR: u8 = 12;
    pub const BYTES: u8 = 13;
    pub const LIST: u8 = 14;
    pub const MAP: u8 = 15;
}

/// Values within values, at most: damaged bytes must not overflow the stack, and what is written must be
/// readable.
const DEEPEST: u32 = 256;

/// Why a value cannot be written or read.
#[derive(Debug)]
pub(super) struct FormError(String);

impl FormError {
    fn too_deep() -> Self {
        Self(format!("it nests deeper than {DEEPEST} values"))
    }
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormError {}

impl serde::ser::Error for FormError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl serde::de::Error for FormError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}
