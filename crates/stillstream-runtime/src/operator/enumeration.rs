//! What an enumerator is to the runtime: it finds the splits of a source, and says who reads them. Splits and
//! states are bytes here; connectors are written against
//! [`SplitEnumerator`](crate::connect::SplitEnumerator).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{OperatorId, OperatorSubtaskState, Result, SubtaskIndex};

use crate::metrics::Counters;

/// What an enumerator is told when it is made.
#[derive(Clone)]
pub struct EnumeratorContext {
    /// The source's name, for messages and counters.
    pub name: Arc<str>,
    /// The identity of its state.
    pub operator: OperatorId,
    /// How many readers there are.
    pub parallelism: u32,
    /// Counts by name, in the figures of the job.
    pub counters: Arc<Counters>,
    /// Has the enumerator called before its time, from any thread.
    pub waker: EnumeratorWaker,
    pub(crate) over: Arc<AtomicBool>,
}

impl EnumeratorContext {
    pub(crate) fn new(
        name: &str,
        operator: OperatorId,
        parallelism: u32,
        counters: Arc<Counters>,
        waker: EnumeratorWaker,
    ) -> Self {
        Self { name: name.into(), operator, parallelism, counters, waker, over: Arc::default() }
    }

    /// A context outside of a job, whose waker wakes nobody: to try an enumerator by hand.
    pub fn for_test(name: &str, parallelism: u32) -> Self {
        let operator = OperatorId::from_uid(name);
        Self::new(name, operator, parallelism, Arc::default(), EnumeratorWaker::idle())
    }

    /// Whether the attempt is over, so that nobody wants what the enumerator finds: one that waits for long
    /// looks here now and then, and returns.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for EnumeratorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnumeratorContext({} for {} readers)", self.name, self.parallelism)
    }
}

/// Has an enumerator's [`discover`](crate::connect::SplitEnumerator::discover) called soon. May be cloned and
/// used on any thread, also after the attempt is over.
#[derive(Clone)]
pub struct EnumeratorWaker(Arc<dyn Fn() + Send + Sync>);

impl EnumeratorWaker {
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// A waker that wakes nobody: for tests that drive an enumerator by hand.
    pub fn idle() -> Self {
        Self::new(|| {})
    }

    /// Has the enumerator called.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for EnumeratorWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnumeratorWaker")
    }
}

/// What an attempt starts from, as far as it concerns an enumerator.
pub struct RestoredSplits {
    /// The enumerator's state; `None` if the snapshot has none of it.
    pub state: Option<Arc<[u8]>>,
    /// What the readers had, each of them all of it.
    pub readers: OperatorSubtaskState,
    /// Reads that.
    pub store: Arc<dyn SnapshotStore>,
}

/// What came of a call of an enumerator. It is taken in as a whole: no checkpoint has one part of it and not
/// the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Splits for readers.
    pub splits: Vec<(SubtaskIndex, Vec<u8>)>,
    /// There will be no others.
    pub no_more: bool,
    /// The enumerator's state with these splits assigned.
    pub state: Vec<u8>,
    /// When to look again.
    pub again: Option<Duration>,
}

/// An enumerator, as the runtime sees it. All calls are made on one thread of its own, and may block.
pub trait Enumerate: Send {
    /// Begins, from a snapshot or afresh. Called once, before anything else.
    ///
    /// # Errors
    /// Those of the source, and of a snapshot that cannot be read.
    fn open(&mut self, restored: Option<RestoredSplits>) -> Result<()>;

    /// Looks for splits.
    ///
    /// # Errors
    /// Those of the source.
    fn discover(&mut self) -> Result<Found>;

    /// A reader has read all that it was given.
    ///
    /// # Errors
    /// Those of the source.
    fn requested(&mut self, reader: SubtaskIndex) -> Result<Found>;
}

type MakeEnumerator = dyn Fn(&EnumeratorContext) -> Result<Box<dyn Enumerate>> + Send + Sync;

/// Makes the enumerator of a source.
#[derive(Clone)]
pub struct EnumeratorFactory(Arc<MakeEnumerator>);

impl EnumeratorFactory {
    pub(crate) fn new(
        make: impl Fn(&EnumeratorContext) -> Result<Box<dyn Enumerate>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(make))
    }

    /// Makes it, for one attempt.
    ///
    /// # Errors
    /// Those of the source.
    pub fn make(&self, context: &EnumeratorContext) -> Result<Box<dyn Enumerate>> {
        (self.0)(context)
    }
}

impl fmt::Debug for RestoredSplits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.as_ref().map(|state| state.len());
        f.debug_struct("RestoredSplits").field("state bytes", &state).finish_non_exhaustive()
    }
}

impl fmt::Debug for EnumeratorFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnumeratorFactory")
    }
}
