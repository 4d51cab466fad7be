//! Settings of checkpoint storage.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use stillstream_types::file_access::FileAccess;

use crate::remote::RemoteStores;

/// How state is written. The defaults are Flink's where Flink has the setting.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// A stream shorter than this many bytes goes into the handle itself in place of a file
    /// (`state.storage.fs.memory-threshold`). Capped at [`StorageOptions::MAX_INLINE_THRESHOLD`].
    pub inline_threshold: usize,
    /// Bytes that are gathered before the disk is asked to write (`state.storage.fs.write-buffer-size`). One
    /// such buffer for each open stream that outgrew the threshold.
    pub write_buffer: usize,
    /// How long one call to a remote store may take, with its retries.
    pub deadline: Duration,
    /// How stores that are reached over the network are asked.
    pub remote: RemoteStores,
    /// Take an exclusive lock on a local job directory in [`JobStorage::claim`](crate::JobStorage::claim), so
    /// that a second live process is refused. Off for a standby that takes over while the former leader may
    /// still be there: the register's generation alone keeps them apart then.
    pub exclusive_lock: bool,
    /// Who may read the files and folders that are made on a disk.
    pub file_access: FileAccess,
    /// Tells this process' files and register writes from those of any other: must be unique among all
    /// processes that ever use the directory. The default draws a random number.
    pub process_tag: u64,
}

impl StorageOptions {
    /// The largest inline threshold: 1 MiB.
    pub const MAX_INLINE_THRESHOLD: usize = 1 << 20;

    pub(crate) fn inline_threshold(&self) -> usize {
        self.inline_threshold.min(Self::MAX_INLINE_THRESHOLD)
    }
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self {
            inline_threshold: 20 << 10,
            write_buffer: 1 << 20,
            deadline: Duration::from_secs(60),
            remote: RemoteStores::default(),
            exclusive_lock: true,
            file_access: FileAccess::default(),
            process_tag: random_tag(),
        }
    }
}

/// 64 random bits from the operating system, by way of the standard library's hash seeds.
fn random_tag() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}
