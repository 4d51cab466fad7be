//! Panics of users' functions, which become errors with the place in the source, and which nobody else
//! prints.
//!
//! Rust prints a panic where it happens, before anybody can catch it. A function that panics at each attempt
//! of its job would fill the log with the same lines, past everything that limits them. So the hook keeps
//! quiet about a panic that becomes an error, and notes its place for that error. Who asks for backtraces
//! (`RUST_BACKTRACE`) gets the first one of each place.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};

use stillstream_types::{Error, ErrorKind, Result};

use crate::catch::panic_text;

thread_local! {
    /// How many callers of this thread turn panics into errors.
    static CATCHING: Cell<u32> = const { Cell::new(0) };
    /// Where the last one of them was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Puts the hook in front of the one that is there; once in a process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !becomes_an_error(panic) {
                previous(panic);
            }
        }));
    });
}

/// Whether somebody catches the panic and says it; notes its place.
fn becomes_an_error(panic: &PanicHookInfo<'_>) -> bool {
    static SHOWN: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    if CATCHING.get() == 0 {
        return false;
    }
    let place = panic.location().map(ToString::to_string);
    PLACE.set(place.clone());
    if Backtrace::capture().status() != BacktraceStatus::Captured {
        return true;
    }
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    !shown.get_or_insert_default().insert(place.unwrap_or_default())
}

/// Runs a user's code; a panic becomes an error that says what panicked, why, and where.
pub(crate) fn catch<T>(what: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    CATCHING.set(CATCHING.get() + 1);
    let caught = catch_unwind(AssertUnwindSafe(f));
    CATCHING.set(CATCHING.get() - 1);
    caught.unwrap_or_else(|payload| {
        let place = PLACE.take().map_or_else(String::new, |place| format!(" ({place})"));
        Err(Error::new(ErrorKind::Panic, format!("{what} panicked: {}{place}", panic_text(&*payload))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_that_becomes_an_error_says_where_it_was() {
        install();
        let error = catch("its code", || -> Result<()> { panic!("no more") }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panic);
        let text = error.to_string();
        assert!(text.starts_with("its code panicked: no more (") && text.contains("panics.rs:"), "{text}");
    }
}
