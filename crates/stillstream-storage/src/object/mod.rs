//! Any [`object_store::ObjectStore`] as a [`BlobStore`].

mod error;
mod writer;

use std::any::Any;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use error::{read_error, write_error};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::error::{SHORT, StorageError};
use crate::options::StorageOptions;
#[cfg(feature = "cloud")]
use crate::remote::Background;
use crate::store::{BlobStore, BlobWriter, CasSupport, Created, Deleted, Entry, Replaced, Tag, check_key};
use writer::ObjectWriter;

/// A long range is read in pieces of this size, so that each has a deadline of its own.
const PIECE_BYTES: u64 = 8 << 20;
/// Pieces of one range that may be on their way at once.
const PIECES_IN_FLIGHT: usize = 4;

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
    /// What the handle is of, where nobody else keeps it.
    _background: Option<Arc<dyn Any + Send + Sync>>,
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
        Self::build(store, prefix, uri.into(), cas, options, handle, None)
    }

    /// The same on a runtime that lives as long as the store.
    #[cfg(feature = "cloud")]
    pub(crate) fn on(
        background: Arc<Background>,
        store: Arc<dyn ObjectStore>,
        location: &crate::location::RemoteLocation,
        cas: CasSupport,
        options: &StorageOptions,
    ) -> Self {
        let handle = background.handle().clone();
        Self::build(store, location.path(), location.to_string(), cas, options, handle, Some(background))
    }

    fn build(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        uri: String,
        cas: CasSupport,
        options: &StorageOptions,
        handle: Handle,
        background: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        let prefix = prefix.trim_matches('/').to_owned();
        let uri = uri.trim_end_matches('/').to_owned();
        let deadline = options.deadline;
        Self(Arc::new(Inner { store, prefix, uri, cas, handle, deadline, _background: background }))
    }

    fn path(&self, key: &str) -> Result<Path, StorageError> {
        check_key(key)?;
        self.raw_path(key)
    }

    fn raw_path(&self, key: &str) -> Result<Path, StorageError> {
        let whole =
            if key.is_empty() { self.0.prefix.clone() } else { crate::store::join(&self.0.prefix, key) };
        Path::parse(whole).map_err(|error| StorageError::BadLocation {
            location: self.display(key),
            reason: error.to_string(),
        })
    }

    /// Deletes in batches where the store has such a request; which of them are surely gone.
    fn delete_batch(&self, keys: &[String]) -> Option<HashSet<Path>> {
        let paths: Vec<Path> = keys.iter().map(|key| self.path(key)).collect::<Result<_, _>>().ok()?;
        let store = self.0.store.clone();
        let request = async move {
            let paths = futures::stream::iter(paths.into_iter().map(Ok)).boxed();
            Ok(store
                .delete_stream(paths)
                .filter_map(async |deleted| deleted.ok())
                .collect::<HashSet<Path>>()
                .await)
        };
        self.wait("delete", "", request).ok()
    }

    /// The bytes from `offset` to `end`, a few pieces at a time; fewer where a store gives fewer.
    fn read_pieces(&self, key: &str, offset: u64, end: u64) -> Result<Vec<u8>, StorageError> {
        let (path, shown) = (self.path(key)?, self.display(key));
        let (mut bytes, mut at, mut in_flight) = (Vec::new(), offset, VecDeque::new());
        while at < end || !in_flight.is_empty() {
            while at < end && in_flight.len() < PIECES_IN_FLIGHT {
                let (store, path, to) =
                    (self.0.store.clone(), path.clone(), end.min(at.saturating_add(PIECE_BYTES)));
                in_flight.push_back(self.0.spawn(async move { store.get_range(&path, at..to).await }));
                at = to;
            }
            if let Some(oldest) = in_flight.pop_front() {
                let piece = self.0.receive("read", &shown, &oldest);
                let piece = piece.map_err(|failure| read_error("read", shown.clone(), failure))?;
                bytes.extend_from_slice(&piece);
            }
        }
        Ok(bytes)
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

fn tag_of(result: object_store::PutResult) -> Tag {
    Tag { e_tag: result.e_tag, version: result.version }
}

impl BlobStore for ObjectBlobStore {
    fn display(&self, key: &str) -> String {
        if key.is_empty() { self.0.uri.clone() } else { crate::store::join(&self.0.uri, key) }
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
        Ok(Box::new(ObjectWriter::new(self.0.clone(), self.path(key)?, self.display(key))))
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
        match self.read_pieces(key, offset, end) {
            Ok(bytes) if bytes.len() as u64 == len => Ok(bytes),
            // a range that reaches past the end is cut by some stores and refused by others
            result => {
                let found = self.len(key)?;
                if found < end {
                    let at_least = format!("at least {end}");
                    return Err(StorageError::corrupt(self.display(key), SHORT, at_least, found));
                }
                match result {
                    Err(error) => Err(error),
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

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StorageError> {
        let (store, path) = (self.0.store.clone(), self.raw_path(prefix)?);
        let found = self
            .wait("list", prefix, async move { store.list_with_delimiter(Some(&path)).await })
            .map_err(|failure| read_error("list", self.display(prefix), failure))?;
        let name = |path: &Path| path.filename().map(str::to_owned);
        Ok(found.common_prefixes.iter().filter_map(name).collect())
    }

    fn delete_all(&self, keys: &[String]) -> Vec<Result<Deleted, StorageError>> {
        if keys.len() < 2 {
            return keys.iter().map(|key| self.delete(key)).collect();
        }
        // what a batch does not confirm is deleted alone, which also says why it could not be
        let confirmed = self.delete_batch(keys).unwrap_or_default();
        let one = |key: &String| match self.path(key) {
            Ok(path) if confirmed.contains(&path) => Ok(Deleted::Yes),
            _ => self.delete(key),
        };
        keys.iter().map(one).collect()
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
