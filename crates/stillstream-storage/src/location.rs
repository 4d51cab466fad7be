//! Where a checkpoint directory or a snapshot is: a path or a URI.

use std::path::{Path, PathBuf};

use crate::error::StorageError;

/// A place as a user gives it.
///
/// ```
/// use stillstream_storage::Location;
/// assert_eq!(Location::parse("file:///data/my%20job")?, Location::parse("/data/my job")?);
/// let error = Location::parse("s3://bucket/jobs").unwrap_err();
/// assert!(error.to_string().contains("scheme `s3` is not supported in this release"));
/// # Ok::<(), stillstream_storage::StorageError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// A folder or file of this machine, or one that is mounted on it.
    Local(PathBuf),
}

impl Location {
    /// Reads a plain path (absolute, or relative to the current directory) or a `file:` URI.
    ///
    /// # Errors
    /// [`StorageError::SchemeNotSupported`] for a scheme that Flink knows and this release does not, and
    /// [`StorageError::BadLocation`] for anything else. A path that begins with `~` is refused too: a shell
    /// makes the home folder of it in most places, but not in `--checkpoint-dir=~/ck` or in a file, and a
    /// folder named `~` is never meant.
    pub fn parse(text: &str) -> Result<Self, StorageError> {
        let bad = |reason: String| StorageError::BadLocation { location: text.into(), reason };
        if text.is_empty() {
            return Err(bad("it is empty; give a path or a URI such as `file:///data/checkpoints`".into()));
        }
        if text.contains('\0') {
            return Err(bad("it contains a zero byte".into()));
        }
        let Some((scheme, rest)) = split_scheme(text) else {
            if let Some(reason) = stillstream_types::paths::home_mistake(text) {
                return Err(bad(reason));
            }
            return absolute(Path::new(text), text);
        };
        match scheme.to_ascii_lowercase().as_str() {
            "file" => file_uri(rest, text),
            "s3" | "s3a" | "s3n" | "hdfs" | "viewfs" | "webhdfs" | "gs" | "az" | "abfs" | "abfss"
            | "wasb" | "wasbs" | "adl" | "oss" => {
                Err(StorageError::SchemeNotSupported { location: text.into(), scheme: scheme.into() })
            }
            _ => Err(bad(format!(
                "scheme `{scheme}` is not known; `file:` URIs and plain paths are supported"
            ))),
        }
    }
}

/// `scheme:rest`, if it starts as RFC 3986 wants it. One letter is a Windows drive; a colon behind a `/` is
/// part of a path.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let mut letters = scheme.chars();
    let starts = letters.next().is_some_and(|c| c.is_ascii_alphabetic());
    let goes_on = letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    (scheme.len() > 1 && starts && goes_on && rest.starts_with('/')).then_some((scheme, rest))
}

fn file_uri(rest: &str, text: &str) -> Result<Location, StorageError> {
    let bad = |reason: String| StorageError::BadLocation { location: text.into(), reason };
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(authority) => match authority.find('/') {
            Some(at) if at == 0 || authority[..at].eq_ignore_ascii_case("localhost") => &authority[at..],
            _ => {
                let host = authority.split('/').next().unwrap_or_default();
                return Err(bad(format!(
                    "`{host}` stands where a host stands; an absolute path has three slashes, as in `file:///data`"
                )));
            }
        },
    };
    let decoded =
        percent_decode(path).ok_or_else(|| bad("a `%` is not followed by two hex digits".into()))?;
    absolute(Path::new(&decoded), text)
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            // `from_str_radix` alone would take `+5`
            if !digits.bytes().all(|d| d.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok().filter(|s| !s.contains('\0'))
}

fn absolute(path: &Path, text: &str) -> Result<Location, StorageError> {
    std::path::absolute(path).map(Location::Local).map_err(|error| StorageError::BadLocation {
        location: text.into(),
        reason: format!("no absolute path can be made of it: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(text: &str) -> PathBuf {
        let Location::Local(path) = Location::parse(text).unwrap();
        path
    }

    #[test]
    fn all_spellings_of_a_local_path_are_the_same_place() {
        for text in [
            "/data/jobs",
            "file:///data/jobs",
            "file:/data/jobs",
            "file://localhost/data/jobs",
            "FILE:///data/jobs",
        ] {
            assert_eq!(local(text), Path::new("/data/jobs"), "{text}");
        }
        assert_eq!(local("file:///a%20b/%C3%A4"), Path::new("/a b/ä"));
        assert_eq!(local("/a%20b"), Path::new("/a%20b"), "a plain path is taken as it is");
        assert_eq!(local("/a:b/c"), Path::new("/a:b/c"));
        assert!(local("checkpoints").is_absolute());
    }

    #[test]
    fn a_scheme_that_only_flink_knows_is_refused_and_advises_what_exists() {
        for (text, scheme) in [
            ("s3://bucket/jobs", "s3"),
            ("s3a://bucket/jobs", "s3a"),
            ("hdfs://name:8020/jobs", "hdfs"),
            ("gs://bucket", "gs"),
            ("abfss://c@a.dfs.core.windows.net/x", "abfss"),
        ] {
            let error = Location::parse(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("scheme `{scheme}` is not supported in this release")),
                "{error}"
            );
            assert!(error.contains(text) && error.contains("/data/checkpoints"), "{error}");
            assert!(!error.contains("feature"), "{error}");
        }
    }

    #[test]
    fn the_home_folder_of_a_shell_is_refused_and_a_folder_of_that_name_is_not() {
        for text in ["~/ck", "~", "~anna/ck"] {
            let error = Location::parse(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("`./~"), "{error}");
        }
        assert!(local("./~/ck").ends_with("~/ck"));
        assert!(local("/data/~ck").is_absolute() && local("a~b").is_absolute());
    }

    #[test]
    fn a_malformed_location_says_what_is_wrong() {
        for (text, says) in [
            ("", "empty"),
            ("file://data/jobs", "three slashes"),
            ("file:///a%2", "two hex digits"),
            ("file:///a%+5", "two hex digits"),
            ("ftp://host/x", "scheme `ftp` is not known"),
            ("/a\0b", "zero byte"),
        ] {
            let error = Location::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
