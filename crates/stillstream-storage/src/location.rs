//! Where a checkpoint directory or a snapshot is: a path or a URI.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::StorageError;

/// A place as a user gives it.
///
/// ```
/// use stillstream_storage::Location;
/// assert_eq!(Location::parse("file:///data/my%20job")?, Location::parse("/data/my job")?);
/// let snapshot = Location::parse("s3://bucket/jobs/")?.join("chk-7");
/// assert_eq!(snapshot.to_string(), "s3://bucket/jobs/chk-7");
/// # Ok::<(), stillstream_storage::StorageError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// A folder or file of this machine, or one that is mounted on it.
    Local(PathBuf),
    /// A folder or file of a store that is reached over the network.
    Remote(RemoteLocation),
}

/// Which kind of store a scheme names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StoreKind {
    /// Amazon S3, and whatever speaks its protocol: `s3`, `s3a`, `s3n`.
    S3,
    /// Google Cloud Storage: `gs`.
    Gcs,
    /// Azure Blob Storage: `az`, `abfs`, `abfss`, `wasb`, `wasbs`, `adl`.
    Azure,
    /// Hadoop's file system: `hdfs`, `viewfs`.
    Hdfs,
}

impl StoreKind {
    fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" | "s3a" | "s3n" => Some(Self::S3),
            "gs" => Some(Self::Gcs),
            "az" | "abfs" | "abfss" | "wasb" | "wasbs" | "adl" => Some(Self::Azure),
            "hdfs" | "viewfs" => Some(Self::Hdfs),
            _ => None,
        }
    }

    /// The cargo feature that builds what reaches it.
    pub fn feature(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gcs",
            Self::Azure => "azure",
            Self::Hdfs => "hdfs",
        }
    }
}

/// A place in a store that is reached over the network.
#[derive(Clone, Eq, Debug)]
pub struct RemoteLocation {
    kind: StoreKind,
    scheme: String,
    authority: String,
    path: String,
}

impl PartialEq for RemoteLocation {
    fn eq(&self, other: &Self) -> bool {
        // `s3a://` is another name of `s3://`, and so on
        let place = |location: &Self| (location.kind, location.authority.clone(), location.path.clone());
        place(self) == place(other)
    }
}

impl RemoteLocation {
    /// What kind of store it is in.
    pub fn kind(&self) -> StoreKind {
        self.kind
    }

    /// As it was given, in lower case.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// What stands where a host stands: the bucket, or host and port of a NameNode.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The path, without a slash at either end.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The whole store: this location without its path.
    pub fn root(&self) -> Self {
        Self { path: String::new(), ..self.clone() }
    }

    fn parse(kind: StoreKind, scheme: &str, rest: &str, text: &str) -> Result<Self, StorageError> {
        let bad = |reason: String| StorageError::BadLocation { location: text.into(), reason };
        let Some(rest) = rest.strip_prefix("//") else {
            return Err(bad(format!("two slashes follow the scheme, as in `{scheme}://..`")));
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if let Some((user, _)) = authority.split_once('@')
            && (kind != StoreKind::Azure || user.contains(':'))
        {
            // what stands there may be a password
            return Err(StorageError::BadLocation {
                location: format!("{scheme}://..@.."),
                reason: "credentials do not belong into a location, which appears in logs: give them by the configuration or the \
                         environment"
                    .into(),
            });
        }
        if authority.is_empty() && kind != StoreKind::Hdfs {
            return Err(bad(format!(
                "the bucket is missing; it follows the slashes, as in `{scheme}://bucket/folder`"
            )));
        }
        if text.contains(['?', '#']) {
            return Err(bad("a location has neither `?` nor `#` in it".into()));
        }
        let path = path.trim_end_matches('/');
        if !path.is_empty() && path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad("its path has a part that is empty, `.` or `..`".into()));
        }
        Ok(Self { kind, scheme: scheme.into(), authority: authority.into(), path: path.into() })
    }
}

impl fmt::Display for RemoteLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)?;
        if self.path.is_empty() && !self.authority.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", self.path)
    }
}

/// As it can be parsed again. A local path is written as a path.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Remote(location) => location.fmt(f),
        }
    }
}

impl Location {
    /// Reads a plain path (absolute, or relative to the current directory) or a URI: `file:`, or the scheme
    /// of a [`StoreKind`].
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
        let scheme = scheme.to_ascii_lowercase();
        if let Some(kind) = StoreKind::of(&scheme) {
            return RemoteLocation::parse(kind, &scheme, rest, text).map(Self::Remote);
        }
        match scheme.as_str() {
            "file" => file_uri(rest, text),
            "webhdfs" | "oss" => Err(StorageError::SchemeNotSupported { location: text.into(), scheme }),
            _ => Err(bad(format!(
                "scheme `{scheme}` is not known; plain paths, `file:`, `s3:`, `hdfs:`, `gs:` and `az:` are"
            ))),
        }
    }

    /// The place `name` in this folder.
    pub fn join(&self, name: &str) -> Self {
        match self {
            Self::Local(path) => Self::Local(path.join(name)),
            Self::Remote(location) => {
                let path = crate::store::join(&location.path, name.trim_end_matches('/'));
                Self::Remote(RemoteLocation { path, ..location.clone() })
            }
        }
    }

    /// The folder that it lies in, and its name there; `None` at the root of a store, or where the name is
    /// not UTF-8.
    pub fn split(&self) -> Option<(Self, String)> {
        match self {
            Self::Local(path) => {
                let name = path.file_name()?.to_str()?.to_owned();
                Some((Self::Local(path.parent()?.to_owned()), name))
            }
            Self::Remote(location) if location.path.is_empty() => None,
            Self::Remote(location) => {
                let (above, name) = location.path.rsplit_once('/').unwrap_or(("", &location.path));
                let above = RemoteLocation { path: above.to_owned(), ..location.clone() };
                Some((Self::Remote(above), name.to_owned()))
            }
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
        match Location::parse(text).unwrap() {
            Location::Local(path) => path,
            Location::Remote(location) => panic!("{location} is no local path"),
        }
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
    fn a_location_of_a_store_has_a_bucket_or_host_and_a_path_and_is_written_as_it_was_given() {
        for (text, kind, authority, path) in [
            ("s3://bucket/jobs", StoreKind::S3, "bucket", "jobs"),
            ("s3a://bucket/a/b", StoreKind::S3, "bucket", "a/b"),
            ("s3://bucket", StoreKind::S3, "bucket", ""),
            ("hdfs://name:8020/jobs", StoreKind::Hdfs, "name:8020", "jobs"),
            ("hdfs:///jobs", StoreKind::Hdfs, "", "jobs"),
            ("gs://bucket/x", StoreKind::Gcs, "bucket", "x"),
            ("abfss://c@a.dfs.core.windows.net/x", StoreKind::Azure, "c@a.dfs.core.windows.net", "x"),
        ] {
            let Location::Remote(found) = Location::parse(text).unwrap() else { panic!("{text}") };
            assert_eq!((found.kind(), found.authority(), found.path()), (kind, authority, path), "{text}");
            assert_eq!(found.to_string(), text);
            assert_eq!(Location::parse(&format!("{text}/")).unwrap(), Location::Remote(found), "{text}");
        }
        assert_eq!(Location::parse("S3A://b/x").unwrap(), Location::parse("s3://b/x").unwrap());
        let (above, name) = Location::parse("s3://b/x/chk-7").unwrap().split().unwrap();
        assert_eq!((above.to_string().as_str(), name.as_str()), ("s3://b/x", "chk-7"));
        assert_eq!(above.split().unwrap().0.to_string(), "s3://b");
        assert!(Location::parse("s3://b").unwrap().split().is_none());
    }

    #[test]
    fn credentials_in_a_location_are_refused_and_not_repeated() {
        for text in ["s3://AKIAEXAMPLE:sesame@bucket/x", "hdfs://anna:sesame@name/x", "az://anna:sesame@c/x"]
        {
            let error = Location::parse(text).unwrap_err().to_string();
            assert!(
                !error.contains("sesame") && !error.contains("AKIA") && error.contains("credentials"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_scheme_that_only_flink_knows_is_refused_and_advises_what_exists() {
        for (text, scheme) in [("webhdfs://name:9870/jobs", "webhdfs"), ("oss://bucket/x", "oss")] {
            let error = Location::parse(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("scheme `{scheme}` is not supported in this release")),
                "{error}"
            );
            assert!(error.contains(text) && error.contains("hdfs://"), "{error}");
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
            ("s3:///jobs", "bucket is missing"),
            ("s3:/bucket/jobs", "two slashes"),
            ("s3://bucket/a//b", "empty"),
            ("s3://bucket/../b", "`..`"),
            ("s3://bucket/a?version=3", "neither `?`"),
            ("/a\0b", "zero byte"),
        ] {
            let error = Location::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
