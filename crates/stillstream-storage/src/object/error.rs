//! What a request that failed means, and how a person is told.

use std::io;

use object_store::Error as E;

use super::Failure;
use crate::error::StorageError;

/// A failed read: it had no effect, whatever the reason.
pub(super) fn read_error(operation: &'static str, path: String, failure: Failure) -> StorageError {
    let source = match failure {
        // without its bucket nothing is known of an object
        Failure::Store(E::NotFound { source, .. }) if code(&source.to_string()) != Some(NO_BUCKET) => {
            return StorageError::NotFound { path };
        }
        Failure::Store(error) => io_error(&error),
        Failure::Unanswered(error) => io::Error::new(io::ErrorKind::TimedOut, error.to_string()),
    };
    StorageError::Io { operation, path, source }
}

/// A failed write: determinate only where the store said no.
pub(super) fn write_error(operation: &'static str, path: String, failure: Failure) -> StorageError {
    match failure {
        Failure::Unanswered(error) => error,
        Failure::Store(
            error @ (E::InvalidPath { .. }
            | E::NotSupported { .. }
            | E::NotImplemented { .. }
            | E::PermissionDenied { .. }
            | E::Unauthenticated { .. }
            | E::UnknownConfigurationKey { .. }
            | E::NotFound { .. }
            | E::AlreadyExists { .. }
            | E::Precondition { .. }),
        ) => StorageError::Io { operation, path, source: io_error(&error) },
        Failure::Store(error) => StorageError::Indeterminate { operation, path, reason: explain(&error) },
    }
}

const NO_BUCKET: &str = "NoSuchBucket";

fn io_error(error: &E) -> io::Error {
    let text = error.to_string();
    let kind = match error {
        // the right credentials may write
        E::PermissionDenied { .. } | E::Unauthenticated { .. } if hint(code(&text)).is_empty() => {
            io::ErrorKind::PermissionDenied
        }
        E::NotSupported { .. } | E::NotImplemented { .. } => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, explain(error))
}

/// One sentence in place of a request's address, headers and an answer in XML.
pub(super) fn explain(error: &E) -> String {
    let text = error.to_string();
    tracing::debug!("a request to an object store failed: {text}");
    let code = code(&text);
    let tries = between(&text, ", after ", " retries").map_or_else(String::new, |retries| {
        format!(", and so it did when it was asked again ({retries} times)")
    });
    if let Some(code) = code {
        let message = between(&text, "<Message>", "</Message>").map_or("", str::trim);
        let message =
            if message.is_empty() { String::new() } else { format!(": {}", message.trim_end_matches('.')) };
        return format!("the store answers {code}{message}{tries}{}", hint(Some(code)));
    }
    if text.contains("169.254.169.254") || text.contains("169.254.170.2") {
        return "no credentials were given, and this machine has no role that provides them: set `s3.access-key` and \
                `s3.secret-key`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            .into();
    }
    if let Some(status) = between(&text, "status code: ", ":") {
        return format!("the store answers {status}{tries}{}", hint(Some(status)));
    }
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let root = root.to_string();
    match error {
        E::Generic { .. } if text.contains("HTTP error") || text.contains("error sending request") => {
            let tries = between(&text, ", after ", " retries").unwrap_or("0");
            format!("it cannot be reached: {root} ({tries} retries); check the endpoint and the network")
        }
        E::Generic { .. } => root,
        _ => text,
    }
}

/// What a person can do about an answer.
fn hint(code: Option<&str>) -> &'static str {
    match code.unwrap_or_default() {
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "InvalidToken"
        | "ExpiredToken"
        | "InvalidSecurity" => {
            "; check `s3.access-key` and `s3.secret-key`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
        NO_BUCKET => "; make the bucket, or name another one",
        "RequestTimeTooSkewed" => "; set the clock of this machine",
        "AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException" => {
            "; check `s3.region`"
        }
        "SlowDown" | "ServiceUnavailable" | "503 Service Unavailable" | "429 Too Many Requests" => {
            "; it is overloaded or about to be back"
        }
        "QuotaExceeded" | "InsufficientStorage" | "507 Insufficient Storage" | "XMinioStorageFull" => {
            "; free space there, or name another place"
        }
        _ => "",
    }
}

fn code(text: &str) -> Option<&str> {
    between(text, "<Code>", "</Code>")
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found).filter(|found| found.len() < 300)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> E {
        E::Generic { store: "S3", source: text.into() }
    }

    #[test]
    fn a_person_is_told_what_the_store_said_and_what_to_do_and_not_what_was_signed() {
        let text = "Error performing PUT http://h/b/k in 3ms, after 4 retries, max_retries: 10, retry_timeout: 20s  - Server \
                    returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code>\
                    <Message>The request signature does not match.</Message><AWSAccessKeyId>AKIA1</AWSAccessKeyId>\
                    <StringToSign>AWS4</StringToSign></Error>";
        let told = explain(&generic(text));
        assert!(told.contains("SignatureDoesNotMatch: The request signature does not match"), "{told}");
        assert!(told.contains("`s3.secret-key`") && told.contains("4 times"), "{told}");
        assert!(!told.contains("AKIA1") && !told.contains('<') && !told.contains("http"), "{told}");

        let told = explain(&generic(
            "Error performing PUT x in 1s, after 10 retries, max_retries: 10, retry_timeout: 20s  - Server returned non-2xx status code: 503 Service Unavailable: <html>",
        ));
        assert!(told.starts_with("the store answers 503 Service Unavailable, and so it did"), "{told}");
    }

    #[test]
    fn a_bucket_that_is_gone_is_not_an_object_that_does_not_exist() {
        let missing = |code: &str| {
            let source = format!("status code: 404 Not Found: <Error><Code>{code}</Code></Error>").into();
            Failure::Store(E::NotFound { path: "k".into(), source })
        };
        assert!(read_error("read", "s3://b/k".into(), missing("NoSuchKey")).is_not_found());
        let error = read_error("read", "s3://b/k".into(), missing(NO_BUCKET));
        assert!(!error.is_not_found() && error.to_string().contains("make the bucket"), "{error}");
    }
}
