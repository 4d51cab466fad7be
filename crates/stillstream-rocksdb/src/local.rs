//! A copy of the last checkpoints on this machine's own disk, by hard links.
//!
//! It is a cache, and every file of it is checked against the checksum in the checkpoint that is restored
//! before it is used: a copy that is damaged, of another checkpoint, or gone only costs a download.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use stillstream_types::file_access::FileAccess;
use stillstream_types::{CheckpointId, NamedStream, StreamHandle};

use crate::options::LocalRecovery;

/// Most copies kept: the last completed checkpoint, and one in the making.
const MOST: usize = 2;
const PREFIX: &str = "chk-";

impl LocalRecovery {
    fn path(&self, id: u64) -> PathBuf {
        self.dir.join(format!("{PREFIX}{id}"))
    }

    fn copies(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(PREFIX)?.parse().ok());
        let mut ids: Vec<u64> = ids.collect();
        ids.sort_unstable();
        ids
    }

    /// Keeps the files of a checkpoint, whose folder it takes. What fails here fails no checkpoint.
    pub(crate) fn keep(&self, id: CheckpointId, folder: &Path) {
        let to = self.path(id.0);
        let kept = FileAccess::Owner.create_dir_all(&self.dir).and_then(|()| {
            if to.exists() {
                fs::remove_dir_all(&to)?;
            }
            fs::rename(folder, &to)
        });
        if let Err(error) = kept {
            tracing::warn!(folder = %to.display(), %error, "no local copy of checkpoint {id} is kept: a restart will download it");
        }
        // notices can be lost, so the number is what bounds the disk
        let copies = self.copies();
        for old in copies.iter().take(copies.len().saturating_sub(MOST)) {
            self.forget(CheckpointId(*old));
        }
    }

    /// Deletes all copies but that of the completed checkpoint and of later ones.
    pub(crate) fn completed(&self, id: CheckpointId) {
        let copies = self.copies();
        // without a copy of this one an older one still spares downloads
        if copies.contains(&id.0) {
            copies.into_iter().filter(|old| *old < id.0).for_each(|old| self.forget(CheckpointId(old)));
        }
    }

    /// Deletes the copy of one checkpoint.
    pub(crate) fn forget(&self, id: CheckpointId) {
        let _ = fs::remove_dir_all(self.path(id.0));
    }

    /// Puts a hard link to a local copy of `file` into `folder`, if there is one with the same bytes.
    pub(crate) fn fetch(&self, file: &NamedStream, folder: &Path) -> bool {
        let StreamHandle::File { len, crc32c, .. } = &file.stream else { return false };
        for id in self.copies().into_iter().rev() {
            let copy = self.path(id).join(&file.name);
            let Ok(found) = fs::metadata(&copy) else { continue };
            if found.len() == *len && checksum(&copy).is_ok_and(|found| found == *crc32c) {
                let to = folder.join(&file.name);
                if fs::hard_link(&copy, &to).is_ok() || fs::copy(&copy, &to).is_ok() {
                    return true;
                }
            } else {
                tracing::warn!(file = %copy.display(), "the local copy is not what the checkpoint holds: it is downloaded");
            }
        }
        false
    }
}

fn checksum(path: &Path) -> std::io::Result<u32> {
    let (mut file, mut buffer, mut sum) = (File::open(path)?, vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum),
            n => sum = crc32c::crc32c_append(sum, &buffer[..n]),
        }
    }
}
