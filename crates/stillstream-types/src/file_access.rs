//! Files and folders that only those may read who are meant to: the modes of [`FileAccess`].
//!
//! State, output and what lies between them hold what users' records hold. So they are made for the user that
//! runs the job alone, unless `stillstream.files.access` says otherwise. Folders that exist keep the mode
//! that they have.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

pub use crate::choice::FileAccess;

#[expect(clippy::derivable_impls, reason = "the macro that makes the enum derives no default")]
impl Default for FileAccess {
    fn default() -> Self {
        Self::Owner
    }
}

impl FileAccess {
    /// The mode of a new file, before the umask.
    pub const fn file_mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Group => 0o640,
            Self::Everyone => 0o644,
            Self::Umask => 0o666,
        }
    }

    /// The mode of a new folder, before the umask.
    pub const fn folder_mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group => 0o750,
            Self::Everyone => 0o755,
            Self::Umask => 0o777,
        }
    }

    /// Options that give a file that they make its mode; nothing more is set.
    ///
    /// ```
    /// use stillstream_types::file_access::FileAccess;
    /// let path = std::env::temp_dir().join(format!("stillstream-doc-{}", std::process::id()));
    /// FileAccess::Owner.options().write(true).create(true).open(&path)?;
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn options(self) -> OpenOptions {
        #[cfg_attr(not(unix), allow(unused_mut))]
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, self.file_mode());
        options
    }

    /// Makes one folder.
    ///
    /// # Errors
    /// As [`fs::create_dir`].
    pub fn create_dir(self, path: &Path) -> io::Result<()> {
        self.builder(false).create(path)
    }

    /// Makes a folder and those above it that are missing.
    ///
    /// # Errors
    /// As [`fs::create_dir_all`].
    pub fn create_dir_all(self, path: &Path) -> io::Result<()> {
        self.builder(true).create(path)
    }

    fn builder(self, recursive: bool) -> fs::DirBuilder {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(recursive);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, self.folder_mode());
        builder
    }
}
