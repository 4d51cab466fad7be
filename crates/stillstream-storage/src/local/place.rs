//! What a path on a disk really leads to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Tells a file or folder from any other that may come to have its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity(#[cfg(unix)] (u64, u64));

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        // a link is followed: it may be moved to another disk as long as it leads to the same
        fs::metadata(path).map(|found| Self((found.dev(), found.ino())))
    }

    #[cfg(not(unix))]
    fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|_| Self())
    }
}

/// A folder that a process works in as long as it lives.
///
/// It may be moved away, and another one put in its place: by a person, who then starts the job once more.
/// What this process wrote or deleted there would be the other one's.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    identity: Identity,
    /// As long as it is open no other folder can get its identity, also if it is deleted.
    _open: Option<File>,
}

impl Place {
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: Identity::of(path)?, _open: File::open(path).ok() })
    }

    pub fn is(&self, path: &Path) -> bool {
        self.path == path
    }

    /// Whether it is `dir`, or lies in it.
    pub fn is_below(&self, dir: &Path) -> bool {
        self.path.starts_with(dir)
    }

    /// Whether `path` lies in it.
    pub fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.path)
    }

    /// Fails if the folder is not there any more, or another one is.
    pub fn check(&self) -> io::Result<()> {
        let what = match Identity::of(&self.path) {
            Ok(found) if found == self.identity => return Ok(()),
            Ok(_) => "another one is in its place",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "it is gone",
            Err(error) => return Err(error),
        };
        let path = self.path.display();
        Err(io::Error::other(format!(
            "`{path}` was moved or deleted while the job runs: {what}; nothing is written or deleted there: put it back, or stop \
             this job"
        )))
    }
}

/// What is known of a link that was reported as failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Published {
    /// It is there all the same.
    Yes,
    /// The name belongs to another file.
    Taken,
    /// It is not there and will not be.
    No,
    /// It may be there, or come to be there.
    Unknown,
}

/// Looks whether `temp` got the name `path` although the call failed with `error`.
pub(super) fn published(temp: &Path, path: &Path, error: &io::Error) -> Published {
    match (Identity::of(temp), Identity::of(path)) {
        // elsewhere than on Unix two names of one file cannot be told from two files
        (Ok(ours), Ok(found)) if cfg!(unix) && ours == found => Published::Yes,
        (Ok(_), Ok(_)) => Published::Taken,
        (Ok(_), Err(look)) if look.kind() == io::ErrorKind::NotFound && refused(error) => Published::No,
        _ => Published::Unknown,
    }
}

/// Errors by which the call was turned down before anything was done.
fn refused(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::TooManyLinks
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::CrossesDevices
            | io::ErrorKind::Unsupported
    )
}

/// Opens a file for reading, and nothing that only looks like one: a pipe would wait for a writer, a device
/// never end.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    // without it the call itself would wait
    #[cfg(target_os = "linux")]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let no_file = || io::Error::new(io::ErrorKind::InvalidData, "it is a folder, pipe or device and no file");
    if cfg!(not(target_os = "linux")) && !fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_link_that_took_effect_is_told_from_one_that_did_not() {
        let dir = tempfile::tempdir().unwrap();
        let (temp, path) = (dir.path().join("temp"), dir.path().join("path"));
        fs::write(&temp, "ours").unwrap();
        let (lost, full) = (io::Error::other("timed out"), io::Error::from(io::ErrorKind::StorageFull));
        let taken = io::Error::from(io::ErrorKind::AlreadyExists);
        assert_eq!(published(&temp, &path, &full), Published::No);
        assert_eq!(published(&temp, &path, &lost), Published::Unknown, "it may still arrive");
        fs::hard_link(&temp, &path).unwrap();
        for error in [&lost, &full, &taken] {
            assert_eq!(published(&temp, &path, error), Published::Yes);
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, "ours").unwrap();
        for error in [&lost, &taken] {
            assert_eq!(published(&temp, &path, error), Published::Taken);
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_folder_that_was_replaced_is_not_the_one_that_was_promised() {
        let dir = tempfile::tempdir().unwrap();
        let (job, away) = (dir.path().join("job"), dir.path().join("away"));
        fs::create_dir(&job).unwrap();
        let place = Place::new(&job).unwrap();
        place.check().unwrap();
        fs::rename(&job, &away).unwrap();
        assert!(place.check().unwrap_err().to_string().contains("it is gone"));
        fs::create_dir(&job).unwrap();
        assert!(place.check().unwrap_err().to_string().contains("another one is in its place"));
        fs::remove_dir(&job).unwrap();
        fs::rename(&away, &job).unwrap();
        place.check().unwrap();
    }
}
