//! A file of HDFS that is being written.

use std::fmt;
use std::sync::Arc;

use hdfs_native::HdfsError;
use hdfs_native::file::FileWriter;
use prost::bytes::Bytes;

use super::Inner;
use super::error::Failure;
use crate::error::StorageError;
use crate::request::Pending;
use crate::store::{BlobWriter, Created};

/// Bytes that are gathered before they are sent.
const BUFFER: usize = 4 << 20;

/// A write on its way, which gives the writer back.
type Writing = Pending<(FileWriter, Result<(), HdfsError>)>;

/// A file under its temporary name. One buffer is filled while another is on its way.
pub(super) struct HdfsWriter {
    store: Arc<Inner>,
    path: String,
    temporary: String,
    shown: String,
    buffer: Vec<u8>,
    writer: Option<FileWriter>,
    writing: Option<Writing>,
    /// It has its name, or is known to be gone.
    published: bool,
}

impl fmt::Debug for HdfsWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HdfsWriter").field("path", &self.shown).finish_non_exhaustive()
    }
}

impl HdfsWriter {
    pub fn open(
        store: Arc<Inner>,
        path: String,
        temporary: String,
        shown: String,
    ) -> Result<Self, StorageError> {
        let (client, options, name) = (store.client.clone(), store.write_options(), temporary.clone());
        let writer = store.wait(async move { client.create(&name, options).await });
        let writer = writer.map_err(|failure| failure.determinate("create", shown.clone()))?;
        let (buffer, writer) = (Vec::new(), Some(writer));
        Ok(Self { store, path, temporary, shown, buffer, writer, writing: None, published: false })
    }

    /// The writer, once it has sent what it was given.
    fn writer(&mut self) -> Result<FileWriter, StorageError> {
        let fail = |failure: Failure| failure.determinate("write", self.shown.clone());
        if let Some(writing) = self.writing.take() {
            let (writer, sent) =
                self.store.requests.receive(&writing).map_err(|reason| fail(Failure::Unanswered(reason)))?;
            sent.map_err(|error| fail(Failure::Hdfs(error)))?;
            return Ok(writer);
        }
        self.writer.take().ok_or_else(|| fail(Failure::Unanswered("an earlier write to it failed".into())))
    }

    fn send(&mut self) -> Result<(), StorageError> {
        let mut writer = self.writer()?;
        let bytes = Bytes::from(std::mem::replace(&mut self.buffer, Vec::with_capacity(BUFFER)));
        self.writing = Some(self.store.requests.spawn(async move {
            let sent = writer.write_bytes(bytes).await.map(drop);
            (writer, sent)
        }));
        Ok(())
    }

    /// Makes everything durable under the temporary name.
    fn close(&mut self) -> Result<(), StorageError> {
        if !self.buffer.is_empty() {
            self.send()?;
        }
        let mut writer = self.writer()?;
        let closed = self.store.wait(async move {
            // a file that is coded for erasure has no such call
            match writer.hsync().await {
                Ok(()) | Err(HdfsError::UnsupportedFeature(_)) => writer.close().await,
                Err(error) => Err(error),
            }
        });
        closed.map_err(|failure| failure.determinate("close", self.shown.clone()))
    }

    fn rename(&mut self, replace: bool) -> Result<(), Failure> {
        let (client, from, to) = (self.store.client.clone(), self.temporary.clone(), self.path.clone());
        let renamed = self.store.wait(async move { client.rename(&from, &to, replace).await });
        self.published = renamed.is_ok();
        renamed
    }

    /// Gives the file its name unless the name is taken.
    pub fn publish_new(mut self) -> Result<Created, StorageError> {
        self.close()?;
        match self.rename(false) {
            Ok(()) => Ok(Created::New(None)),
            // it may be our own, of a call whose answer was lost: who asks for it compares
            Err(failure) if failure.already_exists() => Ok(Created::Exists),
            Err(failure) => Err(failure.of_write("create", self.shown.clone())),
        }
    }
}

impl BlobWriter for HdfsWriter {
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BUFFER - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == BUFFER {
                self.send()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        self.close()?;
        let renamed = self.rename(true);
        // nobody names it before this call has returned: what is there in spite of an error is an orphan
        renamed.map_err(|failure| failure.determinate("rename", self.shown.clone()))
    }
}

impl Drop for HdfsWriter {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        let (client, temporary, shown) =
            (self.store.client.clone(), self.temporary.clone(), self.shown.clone());
        let writing = self.writing.take();
        let delete = async move {
            if let Some(writing) = writing {
                let _ = writing.task.await;
            }
            client.delete(&temporary, false).await
        };
        let pending = self.store.requests.spawn(async move {
            match delete.await {
                Ok(_) | Err(HdfsError::FileNotFound(_)) => {}
                Err(error) => {
                    let error = super::error::explain(&error);
                    tracing::warn!(path = %shown, %error, "a temporary file could not be removed");
                }
            }
        });
        // so that it is gone when the caller goes on, as on a disk
        let _ = self.store.requests.receive(&pending);
    }
}
