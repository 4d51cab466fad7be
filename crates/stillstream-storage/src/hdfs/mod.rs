//! A folder of HDFS as a [`BlobStore`].
//!
//! A file is written under a temporary name in its own folder, closed, and renamed, which the NameNode does
//! in one step: a name is absent or leads to a whole file. A rename that must not replace fails where the
//! name is taken, so of racing writers one wins; that is all that the register needs, whose versions are
//! files.
//!
//! To close a file takes half a second or a whole one: the client waits until the NameNode has heard of the
//! last block from a DataNode. So small state goes into `_metadata`, and files are written side by side.
//!
//! A process that was killed leaves files under temporary names that are still open. Nobody waits for their
//! leases: no other process writes these names, and the NameNode deletes an open file like any other.

mod error;
mod writer;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use hdfs_native::{Client, HdfsError, WriteOptions};

use stillstream_types::file_access::FileAccess;

use crate::error::{SHORT, StorageError};
use crate::location::RemoteLocation;
use crate::options::StorageOptions;
use crate::remote::Background;
use crate::request::Requests;
use crate::store::{
    BlobStore, BlobWriter, CasSupport, Created, Deleted, Entry, Replaced, Tag, check_key, join,
};
use error::Failure;
use writer::HdfsWriter;

/// Streams below this size go into `_metadata`.
const SMALL: usize = 100 << 10;
/// A long range is read in pieces of this size, so that each has a deadline of its own.
const PIECE_BYTES: u64 = 16 << 20;
/// Pieces of one range that may be on their way at once.
const PIECES_IN_FLIGHT: usize = 3;
/// Files that are deleted side by side.
const DELETES_IN_FLIGHT: usize = 16;

/// Counts the temporary names of this process.
static NEXT_TEMP: AtomicU64 = AtomicU64::new(0);

/// A folder of HDFS.
#[derive(Clone)]
pub(crate) struct HdfsStore(Arc<Inner>);

struct Inner {
    client: Client,
    /// Absolute, without a slash at the end; empty for the whole file system.
    root: String,
    uri: String,
    requests: Requests,
    mode: u32,
    tag: u64,
    _background: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for HdfsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HdfsStore").field("uri", &self.0.uri).finish_non_exhaustive()
    }
}

impl HdfsStore {
    pub fn new(
        background: Arc<Background>,
        client: Client,
        location: &RemoteLocation,
        options: &StorageOptions,
    ) -> Self {
        let requests = Requests { handle: background.handle().clone(), deadline: options.deadline };
        let root = match location.path() {
            "" => String::new(),
            path => format!("/{path}"),
        };
        Self(Arc::new(Inner {
            client,
            root,
            uri: location.to_string().trim_end_matches('/').to_owned(),
            requests,
            // the NameNode knows no umask of a process
            mode: match options.file_access {
                FileAccess::Umask => FileAccess::Everyone.file_mode(),
                access => access.file_mode(),
            },
            tag: options.process_tag,
            _background: background,
        }))
    }

    fn path(&self, key: &str) -> Result<String, StorageError> {
        check_key(key)?;
        Ok(format!("{}/{key}", self.0.root))
    }

    /// The folder; that of the store itself for an empty prefix.
    fn folder(&self, prefix: &str) -> Result<String, StorageError> {
        match prefix {
            "" if self.0.root.is_empty() => Ok("/".into()),
            "" => Ok(self.0.root.clone()),
            prefix => self.path(prefix),
        }
    }

    fn temporary(&self, path: &str) -> String {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let number = NEXT_TEMP.fetch_add(1, Ordering::Relaxed);
        format!("{folder}/.{name}.{:016x}-{number}.tmp", self.0.tag)
    }

    fn wait<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, HdfsError>> + Send + 'static,
    ) -> Result<T, Failure> {
        self.0.wait(request)
    }

    /// Everything below the folder; nothing where there is no such folder.
    fn statuses(
        &self,
        prefix: &str,
        recursive: bool,
    ) -> Result<Vec<hdfs_native::client::FileStatus>, StorageError> {
        let (client, folder) = (self.0.client.clone(), self.folder(prefix)?);
        let found = self.wait(async move {
            let mut found = Vec::new();
            let mut listing = client.list_status_iter(&folder, recursive).into_stream();
            while let Some(status) = listing.next().await {
                match status {
                    Ok(status) => found.push(status),
                    // a folder that was removed since it was seen
                    Err(HdfsError::FileNotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(found)
        });
        match found {
            Err(failure) if failure.is_not_found() => Ok(Vec::new()),
            found => found.map_err(|failure| failure.determinate("list", self.display(prefix))),
        }
    }

    fn key_of(&self, path: &str) -> Option<String> {
        path.strip_prefix(self.0.root.as_str())?.strip_prefix('/').map(str::to_owned)
    }
}

impl Inner {
    fn wait<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, HdfsError>> + Send + 'static,
    ) -> Result<T, Failure> {
        match self.requests.receive(&self.requests.spawn(request)) {
            Ok(answer) => answer.map_err(Failure::Hdfs),
            Err(reason) => Err(Failure::Unanswered(reason)),
        }
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions::default().permission(self.mode).overwrite(true).create_parent(true)
    }
}

impl BlobStore for HdfsStore {
    fn display(&self, key: &str) -> String {
        if key.is_empty() { self.0.uri.clone() } else { join(&self.0.uri, key) }
    }

    fn local_folder(&self, _: &str) -> Result<Option<PathBuf>, StorageError> {
        Ok(None)
    }

    fn cas_support(&self) -> CasSupport {
        CasSupport::CreateNew
    }

    fn inline_at_least(&self) -> usize {
        SMALL
    }

    fn put_new(&self, key: &str, bytes: &[u8]) -> Result<Created, StorageError> {
        let path = self.path(key)?;
        // whoever finds the name taken need not write at all
        if self.len(key).is_ok() {
            return Ok(Created::Exists);
        }
        let mut writer =
            HdfsWriter::open(self.0.clone(), path.clone(), self.temporary(&path), self.display(key))?;
        writer.write(bytes)?;
        writer.publish_new()
    }

    fn put_if(&self, key: &str, _: &[u8], _: &Tag) -> Result<Replaced, StorageError> {
        Err(StorageError::Io {
            operation: "replace conditionally",
            path: self.display(key),
            source: std::io::Error::new(std::io::ErrorKind::Unsupported, "files have no tags"),
        })
    }

    fn create(&self, key: &str) -> Result<Box<dyn BlobWriter>, StorageError> {
        let path = self.path(key)?;
        let temporary = self.temporary(&path);
        Ok(Box::new(HdfsWriter::open(self.0.clone(), path, temporary, self.display(key))?))
    }

    fn get(&self, key: &str) -> Result<(Vec<u8>, Option<Tag>), StorageError> {
        let (client, path) = (self.0.client.clone(), self.path(key)?);
        let found = self.wait(async move {
            let reader = client.read(&path).await?;
            reader.read_range(0, reader.file_length()).await
        });
        let bytes = found.map_err(|failure| failure.determinate("read", self.display(key)))?;
        Ok((bytes.into(), None))
    }

    fn read(&self, key: &str, offset: u64, len: u64) -> Result<Vec<u8>, StorageError> {
        let (client, path, shown) = (self.0.client.clone(), self.path(key)?, self.display(key));
        let end = offset.saturating_add(len);
        let fail = |failure: Failure| failure.determinate("read", shown.clone());
        let reader = Arc::new(self.wait(async move { client.read(&path).await }).map_err(fail)?);
        let found = reader.file_length() as u64;
        if found < end {
            return Err(StorageError::corrupt(shown, SHORT, format!("at least {end}"), found));
        }
        let (mut bytes, mut at, mut in_flight) = (Vec::with_capacity(len as usize), offset, VecDeque::new());
        while at < end || !in_flight.is_empty() {
            while at < end && in_flight.len() < PIECES_IN_FLIGHT {
                let (reader, piece) = (reader.clone(), PIECE_BYTES.min(end - at));
                let request = async move { reader.read_range(at as usize, piece as usize).await };
                in_flight.push_back(self.0.requests.spawn(request));
                at += piece;
            }
            if let Some(oldest) = in_flight.pop_front() {
                let piece = self.0.requests.receive(&oldest).map_err(Failure::Unanswered);
                bytes.extend_from_slice(&piece.and_then(|piece| piece.map_err(Failure::Hdfs)).map_err(fail)?);
            }
        }
        Ok(bytes)
    }

    fn len(&self, key: &str) -> Result<u64, StorageError> {
        let (client, path) = (self.0.client.clone(), self.path(key)?);
        let found = self.wait(async move { client.get_file_info(&path).await });
        match found {
            Ok(status) if status.isdir => Err(StorageError::NotFound { path: self.display(key) }),
            Ok(status) => Ok(status.length as u64),
            Err(failure) => Err(failure.determinate("look at", self.display(key))),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<Entry>, StorageError> {
        let files = self.statuses(prefix, true)?.into_iter().filter(|status| !status.isdir);
        Ok(files
            .filter_map(|file| Some(Entry { key: self.key_of(&file.path)?, len: file.length as u64 }))
            .collect())
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StorageError> {
        let folders = self.statuses(prefix, false)?.into_iter().filter(|status| status.isdir);
        Ok(folders.filter_map(|folder| Some(folder.path.rsplit('/').next()?.to_owned())).collect())
    }

    fn delete_all(&self, keys: &[String]) -> Vec<Result<Deleted, StorageError>> {
        let mut in_flight = VecDeque::new();
        let mut deleted = Vec::with_capacity(keys.len());
        let receive = |key: &String, pending| {
            let answer = self.0.requests.receive(&pending).map_err(Failure::Unanswered);
            self.deleted(
                key,
                answer.and_then(|answer: Result<bool, HdfsError>| answer.map_err(Failure::Hdfs)),
            )
        };
        for key in keys {
            let path = match self.path(key) {
                Ok(path) => path,
                Err(error) => {
                    deleted.extend(in_flight.drain(..).map(|(key, pending)| receive(key, pending)));
                    deleted.push(Err(error));
                    continue;
                }
            };
            let client = self.0.client.clone();
            in_flight
                .push_back((key, self.0.requests.spawn(async move { client.delete(&path, false).await })));
            if in_flight.len() >= DELETES_IN_FLIGHT
                && let Some((key, pending)) = in_flight.pop_front()
            {
                deleted.push(receive(key, pending));
            }
        }
        deleted.extend(in_flight.drain(..).map(|(key, pending)| receive(key, pending)));
        deleted
    }

    fn delete(&self, key: &str) -> Result<Deleted, StorageError> {
        let (client, path) = (self.0.client.clone(), self.path(key)?);
        self.deleted(key, self.wait(async move { client.delete(&path, false).await }))
    }

    fn remove_empty_dirs(&self, prefix: &str) -> Result<(), StorageError> {
        let below = self.statuses(prefix, true)?;
        let mut folders: Vec<String> =
            below.into_iter().filter(|status| status.isdir).map(|status| status.path).collect();
        folders.push(self.folder(prefix)?);
        // the innermost first
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.matches('/').count()));
        for folder in folders.into_iter().filter(|folder| folder != "/") {
            let (client, path) = (self.0.client.clone(), folder.clone());
            match self.wait(async move { client.delete(&path, false).await }) {
                Ok(_) => {}
                Err(failure) if failure.is_not_empty() || failure.is_not_found() => {}
                Err(failure) => return Err(failure.determinate("remove the folder", folder)),
            }
        }
        Ok(())
    }

    fn sync_folder(&self, _: &str) -> Result<(), StorageError> {
        // the NameNode answers when its log has it
        Ok(())
    }
}

impl HdfsStore {
    fn deleted(&self, key: &str, answer: Result<bool, Failure>) -> Result<Deleted, StorageError> {
        match answer {
            Ok(true) => Ok(Deleted::Yes),
            Ok(false) => Ok(Deleted::NotFound),
            Err(failure) if failure.is_not_found() => Ok(Deleted::NotFound),
            Err(failure) => Err(failure.of_write("delete", self.display(key))),
        }
    }
}
