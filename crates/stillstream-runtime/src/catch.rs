//! Panics in users' code become errors with a name.

use std::panic::{AssertUnwindSafe, catch_unwind};

use stillstream_types::{Error, ErrorKind, Result};

/// The text of a panic.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}

/// Runs `f`; a panic becomes an error that says what panicked.
pub(crate) fn catch<T>(what: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(payload) => {
            Err(Error::new(ErrorKind::Panic, format!("{what} panicked: {}", panic_text(&*payload))))
        }
    }
}
