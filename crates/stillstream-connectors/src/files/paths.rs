//! Which files a source reads.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use stillstream_types::paths::absolute;

use crate::ConnectorError;

/// What file sources take: a path, or several. A folder stands for the files in it, sorted by name, without
/// those whose names begin with `.` or `_`. No path at all is an error, and so is a folder without files: a
/// job that reads nothing is more likely a mistake than meant. Named pipes and devices are refused, for their
/// bytes cannot be read again after a failure.
pub trait IntoPaths {
    /// The paths.
    fn into_paths(self) -> Vec<PathBuf>;
}

macro_rules! one_path {
    ($($ty:ty),*) => {$(
        impl IntoPaths for $ty {
            fn into_paths(self) -> Vec<PathBuf> {
                vec![self.into()]
            }
        }
    )*};
}

one_path!(&str, String, &Path, PathBuf, &String, &PathBuf);

impl<P: Into<PathBuf>> IntoPaths for Vec<P> {
    fn into_paths(self) -> Vec<PathBuf> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<P: Into<PathBuf>, const N: usize> IntoPaths for [P; N] {
    fn into_paths(self) -> Vec<PathBuf> {
        self.into_iter().map(Into::into).collect()
    }
}

/// A file that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub path: String,
    pub gzip: bool,
    pub bytes: u64,
}

/// All files that the paths stand for. Opens each of them, so that one that can't be read is found here. With
/// `watched` a folder may be empty: its files are to come.
pub(crate) fn find(paths: &[PathBuf], watched: bool) -> Result<Vec<Found>, ConnectorError> {
    let mut found = Vec::new();
    for file in list_all(paths, watched)? {
        found.extend(look_at(&file, watched)?);
    }
    Ok(found)
}

/// The paths of all files that the paths stand for.
pub(crate) fn list_all(paths: &[PathBuf], watched: bool) -> Result<Vec<PathBuf>, ConnectorError> {
    if paths.is_empty() {
        return Err(ConnectorError::NoPaths);
    }
    let mut all = Vec::new();
    for path in paths {
        ConnectorError::check_home(path)?;
        let metadata = fs::metadata(path).map_err(ConnectorError::read(path))?;
        if !metadata.is_dir() {
            all.push(path.clone());
            continue;
        }
        let before = all.len();
        all.extend(list(path)?);
        if all.len() == before && !watched {
            return Err(ConnectorError::EmptyFolder { path: absolute(path) });
        }
    }
    Ok(all)
}

/// What kind of file it is. With `watched` one that is gone by now is none.
pub(crate) fn look_at(path: &Path, watched: bool) -> Result<Option<Found>, ConnectorError> {
    match inspect(path) {
        Err(_) if watched && !path.exists() => Ok(None),
        found => found.map(Some),
    }
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, ConnectorError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(ConnectorError::read(folder))? {
        let entry = entry.map_err(ConnectorError::read(folder))?;
        let path = entry.path();
        let hidden = entry.file_name().as_encoded_bytes().first().is_some_and(|first| b"._".contains(first));
        if hidden {
            continue;
        }
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => files.push(path),
            Ok(_) => {}
            // it was moved away since the folder was listed
            Err(_) if fs::symlink_metadata(&path).is_err() => {}
            Err(error) => return Err(ConnectorError::read(&path)(error)),
        }
    }
    files.sort();
    Ok(files)
}

/// Opens a file whose bytes can be read again. To open anything else can wait for ever: a named pipe does
/// until somebody writes.
pub(crate) fn open_file(path: &Path) -> Result<File, ConnectorError> {
    let kind = fs::metadata(path).map_err(ConnectorError::read(path))?.file_type();
    if !kind.is_file() {
        return Err(ConnectorError::NotAFile { path: path.to_owned(), what: describe(kind) });
    }
    File::open(path).map_err(ConnectorError::read(path))
}

fn describe(kind: fs::FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a named pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    if kind.is_dir() { "a folder" } else { "no ordinary file" }
}

fn inspect(path: &Path) -> Result<Found, ConnectorError> {
    let Some(text) = path.to_str() else {
        return Err(ConnectorError::PathNotText { path: path.to_owned() });
    };
    let mut file = open_file(path)?;
    let bytes = file.metadata().map_err(ConnectorError::read(path))?.len();
    let mut magic = Vec::new();
    file.by_ref().take(2).read_to_end(&mut magic).map_err(ConnectorError::read(path))?;
    let named_gzip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    Ok(Found { path: text.to_owned(), gzip: bytes > 0 && (named_gzip || magic == [0x1f, 0x8b]), bytes })
}
