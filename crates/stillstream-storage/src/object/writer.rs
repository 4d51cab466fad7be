//! A stream of state on its way to an object store.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};

use super::error::write_error;
use super::{Inner, Pending};
use crate::error::StorageError;
use crate::store::BlobWriter;

/// Size of a part of a large upload. S3 wants at least 5 MiB and takes 10 000 parts: up to 78 GiB for one
/// stream.
const PART_BYTES: usize = 8 << 20;
/// Parts of one stream that may be on their way at once.
const PARTS_IN_FLIGHT: usize = 4;

/// A stream on its way: one put when it is short, parts when it is long.
pub(super) struct ObjectWriter {
    store: Arc<Inner>,
    shown: String,
    path: Path,
    part: Vec<u8>,
    upload: Option<Box<dyn MultipartUpload>>,
    in_flight: VecDeque<Pending<()>>,
}

impl fmt::Debug for ObjectWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectWriter").field("path", &self.shown).finish_non_exhaustive()
    }
}

impl ObjectWriter {
    pub(super) fn new(store: Arc<Inner>, path: Path, shown: String) -> Self {
        Self { store, shown, path, part: Vec::new(), upload: None, in_flight: VecDeque::new() }
    }

    fn receive<T>(&self, pending: &Pending<T>) -> Result<T, StorageError> {
        let answer = self.store.receive("write", &self.shown, pending);
        answer.map_err(|failure| write_error("write", self.shown.clone(), failure))
    }

    /// Waits until at most `limit` parts are on their way.
    fn drain(&mut self, limit: usize) -> Result<(), StorageError> {
        while self.in_flight.len() > limit {
            if let Some(oldest) = self.in_flight.pop_front() {
                self.receive(&oldest)?;
            }
        }
        Ok(())
    }

    fn send_part(&mut self) -> Result<(), StorageError> {
        self.drain(PARTS_IN_FLIGHT - 1)?;
        if self.upload.is_none() {
            let (store, path) = (self.store.store.clone(), self.path.clone());
            let pending = self.store.spawn(async move { store.put_multipart(&path).await });
            self.upload = Some(self.receive(&pending)?);
        }
        let part = std::mem::replace(&mut self.part, Vec::with_capacity(PART_BYTES));
        if let Some(upload) = &mut self.upload {
            // some stores start their work right here, and want to find a runtime
            let request = {
                let _runtime = self.store.handle.enter();
                upload.put_part(PutPayload::from(part))
            };
            self.in_flight.push_back(self.store.spawn(request));
        }
        Ok(())
    }
}

impl BlobWriter for ObjectWriter {
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PART_BYTES - self.part.len()));
            self.part.extend_from_slice(now);
            bytes = later;
            if self.part.len() == PART_BYTES {
                self.send_part()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        if self.upload.is_none() {
            let (store, path) = (self.store.store.clone(), self.path.clone());
            let payload = PutPayload::from(std::mem::take(&mut self.part));
            let pending = self.store.spawn(async move { store.put(&path, payload).await });
            return self.receive(&pending).map(drop);
        }
        if !self.part.is_empty() {
            self.send_part()?;
        }
        self.drain(0)?;
        let Some(mut upload) = self.upload.take() else { return Ok(()) };
        let pending = self.store.spawn(async move {
            let done = upload.complete().await.map(drop);
            if done.is_err() {
                let _ = upload.abort().await;
            }
            done
        });
        self.receive(&pending)
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take() else { return };
        let (shown, parts) = (self.shown.clone(), std::mem::take(&mut self.in_flight));
        self.store.handle.spawn(async move {
            // a part that arrives after the abort would stay
            for part in parts {
                let _ = part.task.await;
            }
            if let Err(error) = upload.abort().await {
                tracing::warn!(path = %shown, %error, "parts of an abandoned upload could not be removed");
            }
        });
    }
}
