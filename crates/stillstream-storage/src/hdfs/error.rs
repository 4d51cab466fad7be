//! What the NameNode and the DataNodes say, for people.

use std::io;

use hdfs_native::HdfsError;

use crate::error::StorageError;

/// How a request failed.
pub(super) enum Failure {
    Hdfs(HdfsError),
    /// No answer: time ran out, or the runtime was shut down.
    Unanswered(String),
}

impl Failure {
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Hdfs(HdfsError::FileNotFound(_)) => true,
            Self::Hdfs(error) => class(error).is_some_and(|class| class.ends_with("FileNotFoundException")),
            Self::Unanswered(_) => false,
        }
    }

    pub fn already_exists(&self) -> bool {
        matches!(self, Self::Hdfs(HdfsError::AlreadyExists(_)))
    }

    pub fn is_not_empty(&self) -> bool {
        matches!(self, Self::Hdfs(error) if class(error).is_some_and(|class| class.ends_with("PathIsNotEmptyDirectoryException")))
    }

    /// A failed request that changes nothing, or whose effect nobody will see.
    pub fn determinate(self, operation: &'static str, path: String) -> StorageError {
        if self.is_not_found() {
            return StorageError::NotFound { path };
        }
        let source = match self {
            Self::Hdfs(error) => io_error(&error),
            Self::Unanswered(reason) => io::Error::new(io::ErrorKind::TimedOut, reason),
        };
        StorageError::Io { operation, path, source }
    }

    /// A failed request that may have taken effect, unless the NameNode itself refused it.
    pub fn of_write(self, operation: &'static str, path: String) -> StorageError {
        match self {
            Self::Hdfs(error) if class(&error).is_some() => Self::Hdfs(error).determinate(operation, path),
            Self::Hdfs(error) => StorageError::Indeterminate { operation, path, reason: explain(&error) },
            Self::Unanswered(reason) => StorageError::Indeterminate { operation, path, reason },
        }
    }
}

/// The Java exception by which the NameNode refused.
fn class(error: &HdfsError) -> Option<&str> {
    match error {
        HdfsError::RPCError(class, _) | HdfsError::FatalRPCError(class, _) => Some(class),
        HdfsError::AlreadyExists(_) => Some("FileAlreadyExistsException"),
        HdfsError::FileNotFound(_) => Some("FileNotFoundException"),
        _ => None,
    }
}

fn io_error(error: &HdfsError) -> io::Error {
    let kind = match class(error).and_then(|class| class.rsplit('.').next()) {
        Some("AccessControlException") => io::ErrorKind::PermissionDenied,
        Some(
            "DSQuotaExceededException" | "NSQuotaExceededException" | "QuotaByStorageTypeExceededException",
        ) => io::ErrorKind::QuotaExceeded,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, explain(error))
}

/// One sentence: of a Java exception its name and what it says, without its stack.
pub(super) fn explain(error: &HdfsError) -> String {
    let text = match error {
        HdfsError::RPCError(class, message) | HdfsError::FatalRPCError(class, message) => {
            let name = class.rsplit('.').next().unwrap_or(class);
            let message = first_line(message);
            let message =
                message.strip_prefix(class.as_str()).map_or(message, |rest| rest.trim_start_matches(": "));
            format!("{name}: {message}")
        }
        HdfsError::IOError(error) => {
            return format!(
                "it cannot be reached: {error}; check host and port, and whether the NameNode runs"
            );
        }
        other => other.to_string(),
    };
    let hint = if text.contains("SafeModeException") || text.contains("in safe mode") {
        "; the NameNode takes no changes until its safe mode ends"
    } else if text.contains("could only be written to 0 of the") {
        "; no DataNode takes it: see whether one runs and has space"
    } else {
        ""
    };
    format!("{}{hint}", first_line(&text))
}

fn first_line(text: &str) -> &str {
    let text = text.split("\n\tat ").next().unwrap_or(text).trim();
    text.lines().next().unwrap_or(text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_java_exception_a_person_reads_what_it_says_and_not_its_stack() {
        let stack = "Permission denied: user=anna, access=WRITE, inode=\"/\"\n\tat org.apache.hadoop.Foo.bar(Foo.java:1)\n\tat x";
        let error =
            HdfsError::RPCError("org.apache.hadoop.security.AccessControlException".into(), stack.into());
        let told = Failure::Hdfs(error).of_write("create", "hdfs://n/x".into());
        let text = told.to_string();
        assert!(text.contains("AccessControlException: Permission denied: user=anna"), "{text}");
        assert!(
            !text.contains("org.apache") && !text.contains('\n') && text.contains("give the user"),
            "{text}"
        );
        assert!(!told.is_indeterminate(), "the NameNode refused: {text}");

        let lost = HdfsError::IOError(io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(Failure::Hdfs(lost).of_write("create", "hdfs://n/x".into()).is_indeterminate());
        let exists = HdfsError::AlreadyExists("/x already exists\n\tat org.Foo".into());
        assert!(!explain(&exists).contains("org.Foo") && Failure::Hdfs(exists).already_exists());
    }
}
