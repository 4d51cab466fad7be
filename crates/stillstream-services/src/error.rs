//! What went wrong with a server.

use std::fmt;

/// What went wrong, as a sentence that says where and what to do. `Debug` prints the sentence too, so that
/// `unwrap` in a test is readable.
pub struct Error(String);

/// The result of what a server is asked for.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Says what an input or output error was about.
pub(crate) trait About<T> {
    fn about(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> About<T> for std::io::Result<T> {
    fn about(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::new(format!("{}: {error}", what())))
    }
}
