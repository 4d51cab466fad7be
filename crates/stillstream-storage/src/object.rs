//! Any [`object_store::ObjectStore`] as a [`BlobStore`].

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{
    MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::error::{SHORT, StorageError};
use crate::options::StorageOptions;
use crate::store::{BlobStore, BlobWriter, CasSupport, Created, Deleted, Entry, Replaced, Tag, check_key};

/// Size of a part of a large upload. S3 wants at least 5 MiB and takes 10 000 parts: up to 78 GiB for one
/// stream.
const PART_BYTES: usize = 8 << 20;
/// Parts of one stream that may be on their way at once.
const PARTS_IN_FLIGHT: usize = 4;

/// A prefix of an object store as a [`BlobStore`]. Requests run on the given Tokio runtime; each has a
/// deadline.
#[derive(Clone)]
pub struct ObjectBlobStore(Arc<Inner>);

struct Inner {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    uri: String,
    cas: CasSupport,
    handle: Handle,
    deadline: Duration,
}

impl fmt::Debug for ObjectBlobStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectBlobStore").field("uri", &self.0.uri).field("cas", &self.0.cas).finish()
    }
}

impl ObjectBlobStore {
    /// Everything below `prefix` of `store`; `uri` is how error messages call that place. `cas` says whether
    /// the store can replace an object on condition of its ETag ([`CasSupport::Tags`]: S3, GCS, Azure,
    /// memory), or only create if absent.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        uri: impl Into<String>,
        cas: CasSupport,
        options: &StorageOptions,
        handle: Handle,
    ) -> Self {
        let prefix = prefix.trim_matches('/').to_owned();
        let uri = uri.into().trim_end_matches('/').to_owned();
        Self(Arc::new(Inner { store, prefix, uri, cas, handle, deadline: options.deadline }))
    }

    fn path(&self, key: &str) -> Result<Path, StorageError> {
        check_key(key)?;
        self.raw_path(key)
    }

    fn raw_path(&self, key: &str) -> Result<Path, StorageError> {
        Path::parse(crate::store::join(&self.0.prefix, key)).map_err(|error| StorageError::BadLocation {
            location: self.display(key),
            reason: error.to_string(),
        })
    }

    fn wait<T: Send + 'static>(
        &self,
        operation: &'static str,
        key: &str,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, Failure> {
        let pending = self.0.spawn(request);
        self.0.receive(operation, &self.display(key), &pending)
    }
}

/// A request on its way.
struct Pending<T> {
    answers: Receiver<object_store::Result<T>>,
    task: JoinHandle<()>,
}

/// How a request failed.
enum Failure {
    Store(object_store::Error),
    /// No answer: time ran out, or the runtime was shut down.
    Unanswered(StorageError),
}

impl Inner {
    /// Starts the request. The caller waits on a channel of the standard library, not in the runtime, so that
    /// a call from within a runtime's thread is slow at worst and never a panic.
    fn spawn<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Pending<T> {
        let (answer, answers) = sync_channel(1);
        let task = self.handle.spawn(async move {
            // nobody may be waiting any more: then the answer is of no use
            let _ = answer.send(request.await);
        });
        Pending { answers, task }
    }

    fn receive<T>(&self, operation: &'static str, path: &str, pending: &Pending<T>) -> Result<T, Failure> {
        let reason = match pending.answers.recv_timeout(self.deadline) {
            Ok(answer) => return answer.map_err(Failure::Store),
            Err(RecvTimeoutError::Timeout) => format!("no answer within {:?}", self.deadline),
            Err(RecvTimeoutError::Disconnected) => "the runtime was shut down".into(),
        };
        Err(Failure::Unanswered(StorageError::Indeterminate { operation, path: path.into(), reason }))
    }
}

/// A failed read: it had no effect, whatever the reason.
fn read_error(operation: &'static str, path: String, failure: Failure) -> StorageError {
    let source = match failure {
        Failure::Store(object_store::Error::NotFound { .. }) => return StorageError::NotFound { path },
        Failure::Store(error) => io_error(error),
        Failure::Unanswered(error) => std::io::Error::new(std::io::ErrorKind::TimedOut, error.to_string()),
    };
    StorageError::io(operation, path, source)
}

/// A failed write: determinate only where the store said no.
fn write_error(operation: &'static str, path: String, failure: Failure) -> StorageError {
    use object_store::Error as E;
    match failure {
        Failure::Unanswered(error) => error,
        Failure::Store(
            error @ (E::InvalidPath { .. }
            | E::NotSupported { .. }
            | E::NotImplemented { .. }
            | E::PermissionDenied { .. }
            | E::Unauthenticated { .. }
            | E::UnknownConfigurationKey { .. }
            | E::NotFound { .. }
            | E::AlreadyExists { .. }
            | E::Precondition { .. }),
        ) => StorageError::Io { operation, path, source: io_error(error) },
        Failure::Store(error) => StorageError::Indeterminate { operation, path, reason: error.to_string() },
    }
}

fn io_error(error: object_store::Error) -> std::io::Error {
    use object_store::Error as E;
    let kind = match &error {
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => std::io::ErrorKind::PermissionDenied,
        E::NotSupported { .. } | E::NotImplemented { .. } => std::io::ErrorKind::Unsupported,
        _ => std::io::ErrorKind::Other,
    };
    std::io::Error::new(kind, error)
}

fn tag_of(result: object_store::PutResult) -> Tag {
    Tag { e_tag: result.e_tag, version: result.version }
}

impl BlobStore for ObjectBlobStore {
    fn display(&self, key: &str) -> String {
        crate::store::join(&self.0.uri, key)
    }

    fn local_folder(&self, _: &str) -> Result<Option<PathBuf>, StorageError> {
        Ok(None)
    }

    fn cas_support(&self) -> CasSupport {
        self.0.cas
    }

    fn put_new(&self, key: &str, bytes: &[u8]) -> Result<Created, StorageError> {
        let (store, path, payload) =
            (self.0.store.clone(), self.path(key)?, PutPayload::from(bytes.to_vec()));
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.wait("create", key, async move { store.put_opts(&path, payload, options).await }) {
            Ok(result) => Ok(Created::New(Some(tag_of(result)))),
            Err(Failure::Store(
                object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. },
            )) => Ok(Created::Exists),
            Err(failure) => Err(write_error("create", self.display(key), failure)),
        }
    }

    fn put_if(&self, key: &str, bytes: &[u8], tag: &Tag) -> Result<Replaced, StorageError> {
        let (store, path, payload) =
            (self.0.store.clone(), self.path(key)?, PutPayload::from(bytes.to_vec()));
        let version = UpdateVersion { e_tag: tag.e_tag.clone(), version: tag.version.clone() };
        let options = PutOptions { mode: PutMode::Update(version), ..PutOptions::default() };
        match self.wait("replace", key, async move { store.put_opts(&path, payload, options).await }) {
            Ok(result) => Ok(Replaced::New(tag_of(result))),
            Err(Failure::Store(
                object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. },
            )) => Ok(Replaced::Mismatch),
            Err(failure) => Err(write_error("replace", self.display(key), failure)),
        }
    }

    fn create(&self, key: &str) -> Result<Box<dyn BlobWriter>, StorageError> {
        let path = self.path(key)?;
        Ok(Box::new(ObjectWriter {
            store: self.0.clone(),
            shown: self.display(key),
            path,
            part: Vec::new(),
            upload: None,
            in_flight: VecDeque::new(),
        }))
    }

    fn get(&self, key: &str) -> Result<(Vec<u8>, Option<Tag>), StorageError> {
        let (store, path) = (self.0.store.clone(), self.path(key)?);
        let request = async move {
            let found = store.get(&path).await?;
            let tag = Tag { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            Ok((found.bytes().await?, tag))
        };
        let (bytes, tag) = self
            .wait("read", key, request)
            .map_err(|failure| read_error("read", self.display(key), failure))?;
        Ok((bytes.into(), Some(tag)))
    }

    fn read(&self, key: &str, offset: u64, len: u64) -> Result<Vec<u8>, StorageError> {
        let end = offset.saturating_add(len);
        if len == 0 {
            // an empty range is refused by some stores; whether the object exists is still checked
            let found = self.len(key)?;
            let short = || StorageError::corrupt(self.display(key), SHORT, format!("at least {end}"), found);
            return if found < end { Err(short()) } else { Ok(Vec::new()) };
        }
        let (store, path) = (self.0.store.clone(), self.path(key)?);
        match self.wait("read", key, async move { store.get_range(&path, offset..end).await }) {
            Ok(bytes) if bytes.len() as u64 == len => Ok(bytes.into()),
            // a range that reaches past the end is cut by some stores and refused by others
            result => {
                let found = self.len(key)?;
                if found < end {
                    let at_least = format!("at least {end}");
                    return Err(StorageError::corrupt(self.display(key), SHORT, at_least, found));
                }
                match result {
                    Err(failure) => Err(read_error("read", self.display(key), failure)),
                    Ok(bytes) => {
                        let what = "bytes of a range request";
                        Err(StorageError::corrupt(self.display(key), what, len, bytes.len()))
                    }
                }
            }
        }
    }

    fn len(&self, key: &str) -> Result<u64, StorageError> {
        let (store, path) = (self.0.store.clone(), self.path(key)?);
        let found = self.wait("look at", key, async move { store.head(&path).await });
        Ok(found.map_err(|failure| read_error("look at", self.display(key), failure))?.size)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Entry>, StorageError> {
        let (store, path) = (self.0.store.clone(), self.raw_path(prefix)?);
        let request = async move { store.list(Some(&path)).try_collect::<Vec<_>>().await };
        let found = self
            .wait("list", prefix, request)
            .map_err(|failure| read_error("list", self.display(prefix), failure))?;
        let skip = if self.0.prefix.is_empty() { 0 } else { self.0.prefix.len() + 1 };
        let entry = |meta: object_store::ObjectMeta| {
            let key = meta.location.as_ref().get(skip..)?.to_owned();
            Some(Entry { key, len: meta.size })
        };
        Ok(found.into_iter().filter_map(entry).collect())
    }

    fn delete(&self, key: &str) -> Result<Deleted, StorageError> {
        let (store, path) = (self.0.store.clone(), self.path(key)?);
        match self.wait("delete", key, async move { store.delete(&path).await }) {
            Ok(()) => Ok(Deleted::Yes),
            Err(Failure::Store(object_store::Error::NotFound { .. })) => Ok(Deleted::NotFound),
            Err(failure) => Err(write_error("delete", self.display(key), failure)),
        }
    }

    fn remove_empty_dirs(&self, _: &str) -> Result<(), StorageError> {
        Ok(())
    }

    fn sync_folder(&self, _: &str) -> Result<(), StorageError> {
        Ok(())
    }
}

/// A stream on its way: one put when it is short, parts when it is long.
struct ObjectWriter {
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
