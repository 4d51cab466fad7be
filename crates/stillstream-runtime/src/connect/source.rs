//! A replayable source: splits with positions, and readers of them.

use std::fmt;
use std::sync::Arc;

use stillstream_state::Data;
use stillstream_types::{Error, ErrorKind, OperatorId, Result, SubtaskIndex};

use super::enumerator::Enumerator;
use crate::clock::Clock;
use crate::metrics::Counters;
use crate::operator::batch::{AnyBatch, Batch};
use crate::operator::enumeration::EnumeratorContext;
use crate::operator::{OpenContext, SourceStatus};
use crate::waker::Waker;

/// The description of a replayable source; one per program, used in every process. After Flink's FLIP-27
/// sources.
///
/// What it reads is cut into *splits* (a file, a range of a file, a partition). A split carries its own
/// position: it says where to go on, also that nothing is left. Positions are in every checkpoint, so that
/// after a failure or a restart with another parallelism each record is read again from exactly where the
/// checkpoint left it.
///
/// ```
/// use stillstream_runtime::connect::{SourceContext, SplitReader, SplitSource};
/// use stillstream_runtime::{Batch, SourceStatus};
/// use stillstream_types::Result;
///
/// /// Counts from 0 to `end`, in one split: its position is the next number.
/// struct Count { end: u64 }
/// struct Reader { end: u64, next: Vec<u64> }
///
/// impl SplitSource for Count {
///     type Item = u64;
///     type Split = u64;
///     fn splits(&self) -> Result<Vec<u64>> { Ok(vec![0]) }
///     fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<u64, u64>>> {
///         Ok(Box::new(Reader { end: self.end, next: Vec::new() }))
///     }
/// }
///
/// impl SplitReader<u64, u64> for Reader {
///     fn assign(&mut self, splits: Vec<u64>) -> Result<()> { self.next.extend(splits); Ok(()) }
///     fn poll(&mut self, max_records: usize, out: &mut Batch<u64>) -> Result<SourceStatus> {
///         let Some(next) = self.next.first_mut() else { return Ok(SourceStatus::Ended) };
///         let until = self.end.min(*next + max_records as u64);
///         out.values.extend(*next..until);
///         *next = until;
///         Ok(if until == self.end { SourceStatus::Ended } else { SourceStatus::More })
///     }
///     fn positions(&self) -> Vec<u64> { self.next.clone() }
/// }
///
/// let mut reader = Count { end: 3 }.reader(&SourceContext::for_test("count", 0, 1))?;
/// reader.assign(vec![1])?; // as if restored
/// let mut out = Batch::default();
/// assert_eq!(reader.poll(10, &mut out)?, SourceStatus::Ended);
/// assert_eq!((out.values, reader.positions()), (vec![1, 2], vec![3]));
/// # Ok::<(), stillstream_types::Error>(())
/// ```
pub trait SplitSource: Send + Sync + 'static {
    /// What it reads.
    type Item: Data;
    /// A part of the input, with the position from which to go on.
    type Split: Data;

    /// All splits of a fresh start: the short form, for a source that knows its whole input when it begins.
    /// It is called once, in the JobManager, on a thread where it may block. The splits are dealt out evenly,
    /// and the source ends when all of them have been read.
    ///
    /// # Errors
    /// Fail the attempt. A source that has neither splits nor an [enumerator](Self::enumerator) fails so.
    fn splits(&self) -> Result<Vec<Self::Split>> {
        let text = "the source says neither what its splits are nor how they are found: implement SplitSource::splits or \
                    SplitSource::enumerator";
        Err(Error::new(ErrorKind::Plan, text))
    }

    /// Makes what finds the splits, where that is more than [`splits`](Self::splits) once: splits that appear
    /// while the job runs, or that are handed out one by one. Called for each attempt, in the JobManager, on
    /// a thread where it may block. `None`, the default: `splits` is asked once.
    ///
    /// # Errors
    /// Fail the attempt.
    fn enumerator(&self, context: &EnumeratorContext) -> Result<Option<Enumerator<Self::Split>>> {
        let _ = context;
        Ok(None)
    }

    /// Which of so many readers reads the split: a number below `readers`, and for the same split and the
    /// same `readers` always the same. It counts where an enumerator names no reader, and when a job is
    /// restored at another parallelism. `None`, the default: splits are dealt out evenly.
    fn reader_of(&self, split: &Self::Split, readers: u32) -> Option<u32> {
        let _ = (split, readers);
        None
    }

    /// Makes the reader of one subtask.
    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<Self::Item, Self::Split>>>;

    /// Checks before the job starts that the input is there and can be read.
    fn validate(&self) -> Result<()> {
        Ok(())
    }
}

/// Reads the splits of one subtask. All calls are made on a worker thread and must not block: a source that
/// waits for its input reads by a [`BackgroundReader`](super::BackgroundReader).
pub trait SplitReader<T, S>: 'static {
    /// Takes splits, to be read beside those that it has. Called before anything else, with what was restored
    /// (at a fresh start with none), and then whenever the enumerator has found some: also again and again,
    /// and also after [`poll`](Self::poll) has said that all is read. A split that says that it is done is
    /// not read again.
    fn assign(&mut self, splits: Vec<S>) -> Result<()>;

    /// Appends up to about `max_records` records to `out`. [`SourceStatus::Ended`]: all splits that were
    /// assigned have been read. The source ends with that if the enumerator has said that there are no more;
    /// else it is idle until it is assigned others.
    fn poll(&mut self, max_records: usize, out: &mut Batch<T>) -> Result<SourceStatus>;

    /// All splits that were assigned, each with its position as of what [`poll`](Self::poll) has returned so
    /// far. Those that are done may be left out: the enumerator knows that they were assigned.
    fn positions(&self) -> Vec<S>;

    /// The [`positions`](Self::positions) that checkpoint `id` gets: for a source that acknowledges them to
    /// the outside when that is [complete](Self::checkpoint_complete).
    fn snapshot(&mut self, id: stillstream_types::CheckpointId) -> Vec<S> {
        let _ = id;
        self.positions()
    }

    /// How far the input was read, as a person finds it there ("line 12 of `in.csv`"): for the message about
    /// a record whose processing fails. Only asked for then.
    fn place(&self) -> Option<String> {
        None
    }

    /// What there is to tell of the splits, asked after each [`assign`](Self::assign) and after each
    /// [`poll`](Self::poll). A reader whose splits are read side by side says here which one the records of
    /// that call came from, and each split has a watermark of its own: a slow one holds event time back, and
    /// a fast one makes no record of a slow one late. `None`, the default: all records of the subtask have
    /// one watermark together.
    fn split_news(&mut self) -> Option<SplitNews> {
        None
    }

    /// Leaves these splits out from now on, and reads all others: in watermark alignment they are further
    /// ahead than their group allows. Called again whenever the list changes; an empty one lets all of them
    /// go on. A reader that tells of its splits and does not do this waits only as a whole, once its slowest
    /// split is ahead.
    fn pause(&mut self, splits: &[usize]) -> Result<()> {
        let _ = splits;
        Ok(())
    }

    /// Records for the source's side output 0 that came with the last [`poll`](Self::poll), such as malformed
    /// rows.
    fn side_output(&mut self) -> Option<AnyBatch> {
        None
    }

    /// Checkpoint `id` is complete: a source that acknowledges to the outside does it here.
    fn checkpoint_complete(&mut self, id: stillstream_types::CheckpointId) -> Result<()> {
        let _ = id;
        Ok(())
    }
}

/// What a reader tells of its splits. They are numbered from 0 in the order in which they were assigned, over
/// all calls of [`SplitReader::assign`]; a number is never used again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitNews {
    /// Splits that are being read from now on. After `assign`: those of that call that are not done.
    pub opened: Vec<usize>,
    /// Where the records of the last `poll` came from.
    pub current: Option<usize>,
    /// Splits that have been read through with these records.
    pub ended: Vec<usize>,
}

/// What a reader is told when it is made.
#[derive(Clone)]
pub struct SourceContext {
    /// The source's name, for messages and counters.
    pub name: Arc<str>,
    /// The identity of its state.
    pub operator: OperatorId,
    /// Which parallel instance this is.
    pub subtask: SubtaskIndex,
    /// How many there are.
    pub parallelism: u32,
    /// Processing time.
    pub clock: Arc<dyn Clock>,
    /// Schedules the source from any thread, after it said that it is idle.
    pub waker: Waker,
    /// Counts by name, for skipped rows and the like.
    pub counters: Arc<Counters>,
}

impl SourceContext {
    pub(crate) fn of(context: &OpenContext) -> Self {
        Self {
            name: context.name.clone(),
            operator: context.operator,
            subtask: context.subtask,
            parallelism: context.parallelism,
            clock: context.clock.clone(),
            waker: context.waker.clone(),
            counters: context.counters.clone(),
        }
    }

    /// A context with a clock that stands still at 0 and a waker that wakes nobody: to try a reader by hand.
    pub fn for_test(name: &str, subtask: u32, parallelism: u32) -> Self {
        Self {
            name: name.into(),
            operator: OperatorId::from_uid(name),
            subtask: SubtaskIndex(subtask),
            parallelism,
            clock: Arc::new(crate::clock::ManualClock::default()),
            waker: Waker::idle(),
            counters: Arc::default(),
        }
    }
}

impl fmt::Debug for SourceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceContext({} {}/{})", self.name, self.subtask, self.parallelism)
    }
}
