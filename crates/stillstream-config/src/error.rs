//! What can be wrong with a configuration, each with its place and the way out.

use std::fmt;

use stillstream_types::{Error, ErrorKind};

use super::origin::Origin;

/// One thing that is wrong with a configuration.
///
/// Values of keys that look like secrets (`password`, `secret`, `token` ..) are never printed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{path}: cannot read the configuration: {reason}")]
    Unreadable {
        /// The file or folder that was asked for.
        path: String,
        /// What the operating system said, or what was looked for.
        reason: String,
    },
    /// The file is not YAML, or a line is not `key: value`.
    #[error("{origin}: {reason}")]
    Malformed {
        /// Where.
        origin: Origin,
        /// What was found and what is expected.
        reason: String,
    },
    /// No such key.
    #[error("{origin}: unknown key `{key}`{}", hint(.nearest))]
    UnknownKey {
        /// Where.
        origin: Origin,
        /// The key as written.
        key: String,
        /// The known key that is most like it.
        nearest: Option<String>,
    },
    /// The value does not have the key's type, or is outside its range.
    #[error("{origin}: `{key}: {found}` is not valid: {expected}")]
    BadValue {
        /// Where.
        origin: Origin,
        /// The key's present name.
        key: String,
        /// The value as written.
        found: String,
        /// What is expected.
        expected: String,
    },
    /// The same key, or its older and its newer name, is set twice with different values.
    #[error("{second}: `{key}` was already set at {first} to another value: keep one of the two")]
    SetTwice {
        /// The key's present name.
        key: String,
        /// Where it was set first.
        first: Origin,
        /// Where it was set again.
        second: Origin,
    },
    /// A key of Flink's that this release cannot honour, and whose silent loss would change what the job
    /// guarantees.
    #[error("{origin}: `{key}: {found}` is not supported in this release: {advice}")]
    NotSupported {
        /// Where.
        origin: Origin,
        /// The key's present name.
        key: String,
        /// The value as written.
        found: String,
        /// What to do instead.
        advice: String,
    },
    /// Two keys contradict each other.
    #[error("{origin}: {reason}")]
    Conflict {
        /// Where the first of the two keys was set.
        origin: Origin,
        /// Which keys, why they contradict each other, and what to change.
        reason: String,
    },
}

fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(nearest) => format!(": did you mean `{nearest}`?"),
        None => ": see docs/configuration.md for all keys; one of the program's own begins as `stillstream.user-keys` says"
            .to_string(),
    }
}

/// Everything that is wrong with a configuration, not only the first thing. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// `Err` if there is at least one error.
    pub(super) fn unless_empty(errors: Vec<ConfigError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }

    /// Each error, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }

    /// The same as the error type of users' code, of kind [`ErrorKind::Configuration`].
    pub fn into_error(self) -> Error {
        Error::wrap(ErrorKind::Configuration, self)
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return fmt::Display::fmt(one, f);
        }
        write!(f, "{} errors in the configuration:", self.0.len())?;
        for error in &self.0 {
            write!(f, "\n  {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
