//! The error of users' code and of the public API.

use std::fmt;

/// What kind of thing went wrong: decides whether a restart can help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The program or its configuration is wrong; no job was started.
    Configuration,
    /// The plan cannot be run as written.
    Plan,
    /// State could not be read, written or was refused on restore.
    State,
    /// A snapshot is damaged or missing: trying again cannot help.
    CorruptSnapshot,
    /// The program cannot go on with the state of the snapshot that it was to start from; nothing was
    /// changed.
    Incompatible,
    /// Checkpoints failed more often than is tolerated.
    Checkpoint,
    /// Checkpoint storage could not be used.
    Storage,
    /// A source or a sink failed.
    Connector,
    /// A user's function returned an error.
    User,
    /// A user's function panicked.
    Panic,
    /// A peer process was lost or did not answer.
    Peer,
    /// Another process took the job over, or owns it.
    Fenced,
    /// The job was cancelled.
    Cancelled,
    /// Something did not stop or answer in its time.
    Timeout,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// An error with what, where, and what to do about it.
///
/// Any error type becomes one by `?`, so that users' functions need no conversions:
///
/// ```
/// use stillstream_types::Result;
/// fn parse(text: &str) -> Result<u32> {
///     Ok(text.parse::<u32>()?)
/// }
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
///
/// Like `anyhow::Error` it does not implement [`std::error::Error`] itself; that is what makes the conversion
/// possible.
pub struct Error(Box<Inner>);

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), context: Vec::new(), source: None }))
    }

    /// An error of user code with only a message.
    ///
    /// ```
    /// use stillstream_types::Error;
    /// assert_eq!(Error::msg("no such tariff").to_string(), "no such tariff");
    /// ```
    pub fn msg(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::User, message)
    }

    /// Wraps an error under a kind.
    pub fn wrap(kind: ErrorKind, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(Inner {
            kind,
            message: String::new(),
            context: Vec::new(),
            source: Some(Box::new(source)),
        }))
    }

    /// The same error under another kind.
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Says where it happened; the newest context is printed first.
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.0.context.push(context.into());
        self
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The original error, if it is an `E`.
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.source.as_ref().and_then(|source| source.downcast_ref())
    }

    /// Whether a restart cannot help, so that the restart strategy must not be asked.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::Configuration
                | ErrorKind::Plan
                | ErrorKind::CorruptSnapshot
                | ErrorKind::Incompatible
                | ErrorKind::Fenced
                | ErrorKind::Cancelled
        )
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(source: E) -> Self {
        Self::wrap(ErrorKind::User, source)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for context in self.0.context.iter().rev() {
            write!(f, "{context}: ")?;
        }
        f.write_str(&self.0.message)?;
        let mut next: Option<&(dyn std::error::Error + 'static)> = match &self.0.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        };
        let mut first = self.0.message.is_empty();
        let mut said = String::new();
        while let Some(error) = next {
            let text = error.to_string();
            // many libraries repeat their source's text in their own: say each thing once
            if !said.contains(&text) {
                if !first {
                    f.write_str(": ")?;
                }
                f.write_str(&text)?;
                said = text;
            }
            first = false;
            next = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    /// The same sentence as `Display`: it is what a person reads when `main` returns the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Adds context or a kind to the error of any result.
pub trait ResultExt<T> {
    /// Says where it happened; the closure runs only on an error.
    fn context<C: Into<String>>(self, context: impl FnOnce() -> C) -> Result<T>;
    /// Puts the error under a kind.
    fn kind(self, kind: ErrorKind) -> Result<T>;
}

impl<T, E: Into<Error>> ResultExt<T> for std::result::Result<T, E> {
    fn context<C: Into<String>>(self, context: impl FnOnce() -> C) -> Result<T> {
        self.map_err(|error| error.into().context(context()))
    }

    fn kind(self, kind: ErrorKind) -> Result<T> {
        self.map_err(|error| error.into().with_kind(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_one_sentence_from_the_outside_in() {
        let io = std::io::Error::new(std::io::ErrorKind::NotFound, "no such file");
        let error = Err::<(), _>(io).context(|| "reading a.csv").context(|| "source `flights`").unwrap_err();
        assert_eq!(error.to_string(), "source `flights`: reading a.csv: no such file");
        assert_eq!(error.kind(), ErrorKind::User);
    }
}
