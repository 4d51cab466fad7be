//! Panics become errors with a name: those of users' code, and those of the runtime's own threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

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

/// Runs `f` on a thread called `name`; a panic becomes an error that names the thread.
pub(crate) fn catch_on_thread<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    let thread = std::thread::current();
    catch(&format!("the thread `{}`", thread.name().unwrap_or("without a name")), f)
}

/// Starts a thread of the runtime. If it panics, `panicked` is told with an error that names the thread: a
/// thread that dies in silence leaves somebody waiting for it.
pub(crate) fn spawn(
    name: impl Into<String>,
    run: impl FnOnce() + Send + 'static,
    panicked: impl FnOnce(Error) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(move || {
        let ran = catch_on_thread(|| {
            run();
            Ok(())
        });
        if let Err(error) = ran {
            panicked(error);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_that_panics_tells_who_waits_for_it_its_name_and_why() {
        let (sender, errors) = mpsc::channel();
        let started = spawn("reader-7", || panic!("no more"), move |error| sender.send(error).unwrap());
        started.unwrap().join().unwrap();
        let error = errors.recv().unwrap();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Panic, "the thread `reader-7` panicked: no more")
        );
    }
}
