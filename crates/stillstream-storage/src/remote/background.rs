//! The threads on which requests to remote stores run.

use std::fmt;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::StorageError;

/// A runtime of its own: a caller may be a thread of any other runtime, or of none.
pub(crate) struct Background {
    handle: Handle,
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
}

impl Background {
    pub fn new() -> Result<Self, StorageError> {
        let mut builder = Builder::new_multi_thread();
        // signing and checksums of several streams, beside what waits
        builder.worker_threads(2).thread_name("remote-storage").enable_all();
        let runtime = builder
            .build()
            .map_err(|source| StorageError::io("start the threads for", "remote storage", source))?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // the last who holds it may be one of its own tasks, which must not wait for itself
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Background")
    }
}
