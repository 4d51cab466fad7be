//! A store that fails, lies or waits at a chosen operation.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stillstream_storage::StorageError;
use stillstream_storage::store::{BlobStore, BlobWriter, CasSupport, Created, Deleted, Entry, Replaced, Tag};

use crate::gate::Gate;

/// An operation of a [`BlobStore`] or of its writers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// `put_new`
    PutNew,
    /// `put_if`
    PutIf,
    /// `create`
    Create,
    /// `write` of a writer
    Write,
    /// `finish` of a writer
    Finish,
    /// `get`
    Get,
    /// `read`
    Read,
    /// `len`
    Len,
    /// `list`
    List,
    /// `delete`
    Delete,
}

/// What happens in place of the operation. *Did it happen* and *was it reported* are drawn apart.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It does not happen, and says so.
    Fail(io::ErrorKind),
    /// It does not happen, and it is reported that nobody knows.
    LostRequest,
    /// It happens, and it is reported that nobody knows.
    LostAnswer,
    /// It says that nothing is there (and does nothing).
    NotFound,
    /// A listing shows nothing.
    Hidden,
    /// Only this many bytes are stored, and success is reported.
    Tear(usize),
    /// It waits at the gate, and then happens.
    Wait(Gate),
}

/// Which operations a fault takes the place of.
#[derive(Clone, Debug)]
pub struct Rule {
    op: Op,
    key: String,
    fault: Fault,
    skip: u64,
    times: u64,
    /// Holds only once the store has done this many operations.
    after: u64,
}

impl Rule {
    /// Every `op` whose key contains `key`.
    pub fn new(op: Op, key: &str, fault: Fault) -> Self {
        Self { op, key: key.into(), fault, skip: 0, times: u64::MAX, after: 0 }
    }

    /// Only the `n`-th such operation, from 1, counted from now.
    pub fn nth(self, n: u64) -> Self {
        Self { skip: n.saturating_sub(1), times: 1, ..self }
    }

    /// Only the first `n` such operations.
    pub fn first(self, n: u64) -> Self {
        Self { skip: 0, times: n, ..self }
    }
}

impl Rule {
    /// Only once the store has done `n` operations of any kind.
    pub fn after_operation(self, n: u64) -> Self {
        Self { after: n, ..self }
    }

    fn fits(&self, op: Op, key: &str, done: u64) -> bool {
        self.op == op && self.times > 0 && done >= self.after && key.contains(&self.key)
    }
}

#[derive(Debug, Default)]
struct Plan {
    rules: Vec<Rule>,
    log: Vec<(Op, String)>,
}

/// Wraps a store; clones share rules and log.
///
/// ```
/// use std::{io::ErrorKind, sync::Arc};
/// use stillstream_storage::{LocalStore, StorageOptions, store::BlobStore};
/// use stillstream_testing::{FailingStore, Fault, Op, Rule};
///
/// let disk = LocalStore::new("/nowhere", &StorageOptions::default());
/// let store = FailingStore::new(Arc::new(disk));
/// store.add(Rule::new(Op::Delete, "chk-", Fault::Fail(ErrorKind::PermissionDenied)).nth(2));
/// assert!(store.delete("chk-1/a").is_ok());
/// assert!(store.delete("chk-1/b").is_err());
/// assert!(store.delete("chk-1/c").is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct FailingStore {
    inner: Arc<dyn BlobStore>,
    plan: Arc<Mutex<Plan>>,
}

impl FailingStore {
    /// Wraps `inner`; without rules it is as good as `inner`.
    pub fn new(inner: Arc<dyn BlobStore>) -> Self {
        Self { inner, plan: Arc::default() }
    }

    /// Adds a rule. The first rule that fits an operation counts.
    pub fn add(&self, rule: Rule) {
        self.plan().rules.push(rule);
    }

    /// The store heals.
    pub fn heal(&self) {
        self.plan().rules.clear();
    }

    /// All operations so far with their keys.
    pub fn log(&self) -> Vec<(Op, String)> {
        self.plan().log.clone()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn fault(&mut self, op: Op, key: &str) -> Option<Fault> {
        let done = self.log.len() as u64;
        self.log.push((op, key.to_owned()));
        let rule = self.rules.iter_mut().find(|rule| rule.fits(op, key, done))?;
        if rule.skip > 0 {
            rule.skip -= 1;
            return None;
        }
        rule.times -= 1;
        Some(rule.fault.clone())
    }
}

/// Runs `act` under the fault of `(op, key)`; `torn` stands for it when only part of the bytes is to be
/// stored.
fn run<T>(
    plan: &Mutex<Plan>,
    inner: &dyn BlobStore,
    op: Op,
    key: &str,
    act: impl FnOnce(Option<usize>) -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    // looked up apart: a fault that waits must not hold the lock
    let fault = plan.lock().unwrap_or_else(PoisonError::into_inner).fault(op, key);
    let path = inner.display(key);
    let unknown = |path| StorageError::Indeterminate { operation: "reach", path, reason: "injected".into() };
    match fault {
        None => act(None),
        Some(Fault::Hidden) => act(Some(0)),
        Some(Fault::Fail(kind)) => {
            Err(StorageError::Io { operation: "use", path, source: io::Error::new(kind, "injected") })
        }
        Some(Fault::LostRequest) => Err(unknown(path)),
        Some(Fault::LostAnswer) => act(None).and(Err(unknown(path))),
        Some(Fault::NotFound) => Err(StorageError::NotFound { path }),
        Some(Fault::Tear(len)) => act(Some(len)),
        Some(Fault::Wait(gate)) => {
            gate.pass();
            act(None)
        }
    }
}

fn cut(bytes: &[u8], torn: Option<usize>) -> &[u8] {
    &bytes[..torn.unwrap_or(bytes.len()).min(bytes.len())]
}

impl BlobStore for FailingStore {
    fn display(&self, key: &str) -> String {
        self.inner.display(key)
    }

    fn local_folder(&self, prefix: &str) -> Result<Option<PathBuf>, StorageError> {
        self.inner.local_folder(prefix)
    }

    fn cas_support(&self) -> CasSupport {
        self.inner.cas_support()
    }

    fn put_new(&self, key: &str, bytes: &[u8]) -> Result<Created, StorageError> {
        run(&self.plan, &*self.inner, Op::PutNew, key, |torn| self.inner.put_new(key, cut(bytes, torn)))
    }

    fn put_if(&self, key: &str, bytes: &[u8], tag: &Tag) -> Result<Replaced, StorageError> {
        run(&self.plan, &*self.inner, Op::PutIf, key, |torn| self.inner.put_if(key, cut(bytes, torn), tag))
    }

    fn create(&self, key: &str) -> Result<Box<dyn BlobWriter>, StorageError> {
        let open = |torn: Option<usize>| {
            let (store, key, inner) = (self.clone(), key.to_owned(), self.inner.create(key)?);
            Ok(Box::new(FailingWriter { store, key, inner, room: torn.unwrap_or(usize::MAX) })
                as Box<dyn BlobWriter>)
        };
        run(&self.plan, &*self.inner, Op::Create, key, open)
    }

    fn get(&self, key: &str) -> Result<(Vec<u8>, Option<Tag>), StorageError> {
        run(&self.plan, &*self.inner, Op::Get, key, |_| self.inner.get(key))
    }

    fn read(&self, key: &str, offset: u64, len: u64) -> Result<Vec<u8>, StorageError> {
        run(&self.plan, &*self.inner, Op::Read, key, |_| self.inner.read(key, offset, len))
    }

    fn len(&self, key: &str) -> Result<u64, StorageError> {
        run(&self.plan, &*self.inner, Op::Len, key, |_| self.inner.len(key))
    }

    fn list(&self, prefix: &str) -> Result<Vec<Entry>, StorageError> {
        // nothing of it is kept, when it is hidden
        let list = |torn: Option<usize>| {
            let mut found = self.inner.list(prefix)?;
            found.truncate(torn.unwrap_or(usize::MAX));
            Ok(found)
        };
        run(&self.plan, &*self.inner, Op::List, prefix, list)
    }

    fn delete(&self, key: &str) -> Result<Deleted, StorageError> {
        match run(&self.plan, &*self.inner, Op::Delete, key, |_| self.inner.delete(key)) {
            Err(StorageError::NotFound { .. }) => Ok(Deleted::NotFound),
            other => other,
        }
    }

    fn remove_empty_dirs(&self, prefix: &str) -> Result<(), StorageError> {
        self.inner.remove_empty_dirs(prefix)
    }

    fn sync_folder(&self, prefix: &str) -> Result<(), StorageError> {
        self.inner.sync_folder(prefix)
    }
}

#[derive(Debug)]
struct FailingWriter {
    store: FailingStore,
    key: String,
    inner: Box<dyn BlobWriter>,
    /// Bytes that are still stored; the rest is lost without a word.
    room: usize,
}

impl BlobWriter for FailingWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let Self { store, key, inner, room } = self;
        run(&store.plan, &*store.inner, Op::Write, key, |torn| {
            let kept = cut(cut(bytes, torn), Some(*room));
            *room -= kept.len();
            inner.write(kept)
        })
    }

    fn finish(self: Box<Self>) -> Result<(), StorageError> {
        let Self { store, key, inner, .. } = *self;
        run(&store.plan, &*store.inner, Op::Finish, &key, |_| inner.finish())
    }
}
