//! The folder of one database, and what a process that was killed left there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use stillstream_state::StateError;
use stillstream_types::file_access::FileAccess;

use crate::error::disk;

const PREFIX: &str = "rocksdb-";
const LOCK: &str = "IN-USE";

/// A folder that belongs to one backend of this process and is deleted with it. It holds state, and nobody
/// but the user that runs the job has to read it.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
    // held as long as the folder is in use: the system lets go of it when the process dies, however it dies
    lock: Option<File>,
}

impl WorkDir {
    /// Makes a new folder below `parent`, and deletes those whose process is gone.
    pub fn create(parent: &Path) -> Result<Self, StateError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(parent).map_err(|e| disk(parent, "making it", &e))?;
        clear_abandoned(parent);
        loop {
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{n}", std::process::id()));
            match FileAccess::Owner.create_dir(&path) {
                Ok(()) => {}
                // of a process that had this id before
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(disk(&path, "making it", &e)),
            }
            let lock = File::create(path.join(LOCK)).map_err(|e| disk(&path, "making a lock file", &e))?;
            // another process that looks for abandoned folders may have been faster within this moment
            if lock.try_lock().is_ok() && path.join(LOCK).exists() {
                return Ok(Self { path, lock: Some(lock) });
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // what can't be deleted now is abandoned, and deleted by the next one
        self.lock = None;
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Deletes folders that no living process holds. A folder without a lock file is being made, or was left
/// within that moment; it is empty and stays.
fn clear_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        if let Ok(lock) = File::options().write(true).open(path.join(LOCK))
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_owner_and_one_that_a_dead_process_left_goes_with_the_next() {
        let parent = tempfile::tempdir().expect("a folder");
        let mine = WorkDir::create(parent.path()).expect("a work folder");
        let left = parent.path().join("rocksdb-1-0");
        fs::create_dir(&left).and_then(|()| fs::write(left.join(LOCK), "")).expect("a folder");
        let other = WorkDir::create(parent.path()).expect("a work folder");
        assert!(!left.exists(), "nobody holds its lock");
        assert!(mine.path().exists() && other.path().exists() && mine.path() != other.path());
        let path = mine.path().to_path_buf();
        drop(mine);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named_with_the_key_that_moves_it() {
        let parent = tempfile::tempdir().expect("a folder");
        let file = parent.path().join("file");
        fs::write(&file, "").expect("a file");
        let error = WorkDir::create(&file.join("below")).expect_err("a file is no folder").to_string();
        assert!(error.contains("file/below"), "{error}");
    }
}
