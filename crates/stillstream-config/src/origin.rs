//! Where a setting comes from, and which of two settings wins.

use std::fmt;
use std::sync::Arc;

/// Where a setting comes from. Code wins over the file, and an argument wins over both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A line of a configuration file.
    File {
        /// The file as it was named.
        name: Arc<str>,
        /// The line, counted from 1.
        line: usize,
    },
    /// A call in the job's code.
    Code,
    /// `-D key=value` on the command line.
    Argument,
}

impl Origin {
    /// The higher one wins.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::File { .. } => 0,
            Self::Code => 1,
            Self::Argument => 2,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Code => f.write_str("set in code"),
            Self::Argument => f.write_str("argument -D"),
        }
    }
}

/// Something in the configuration that does not stop the job but that a person should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Where.
    pub origin: Origin,
    /// The key as it was written.
    pub key: String,
    /// What, and what to do.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", self.origin, self.key, self.message)
    }
}
