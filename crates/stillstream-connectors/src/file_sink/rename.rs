//! A rename that replaces nothing.

use std::fs;
use std::io;
use std::path::Path;

/// Gives a file another name in the same file system; an error of kind `AlreadyExists` if the name is taken.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match no_replace(from, to) {
        // kernels and file systems that do not know the flag
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::ENOTSUP)) => {}
        renamed => return renamed,
    }
    // names of parts are unique, so only a stranger could take the name between the two calls
    match fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(from, to),
        Err(error) => Err(error),
    }
}

#[cfg(target_os = "linux")]
fn no_replace(from: &Path, to: &Path) -> io::Result<()> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (from, to) = (text(from)?, text(to)?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // SAFETY: both are texts that end with a nul byte and live until the call returns; the call keeps neither
    match unsafe { libc::renameat2(here, from.as_ptr(), here, to.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_never_replaces_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "a").unwrap();
        fs::write(path("b"), "b").unwrap();
        let error = rename_new(&path("a"), &path("b")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(path("b")).unwrap(), "b");
        rename_new(&path("a"), &path("c")).unwrap();
        assert_eq!(fs::read_to_string(path("c")).unwrap(), "a");
        assert_eq!(rename_new(&path("a"), &path("d")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
