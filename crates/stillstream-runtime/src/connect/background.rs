//! Reading in a thread of its own: the worker never waits for input.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};

use stillstream_types::{Error, ErrorKind, Result, ResultExt};

use crate::catch::catch_on_thread;
use crate::operator::SourceStatus;
use crate::operator::batch::{AnyBatch, Batch};
use crate::waker::Waker;

/// Records of one split, and where the split goes on after them.
#[derive(Debug)]
pub struct Chunk<T, S> {
    /// The number of the split, as it came with it.
    pub split: usize,
    /// The split as of the end of the chunk.
    pub position: S,
    /// The records.
    pub records: Batch<T>,
    /// Records for the source's side output.
    pub side: Option<AnyBatch>,
    /// How many records were left out.
    pub skipped: u64,
    /// What a rate limit counts: records or bytes.
    pub weight: u64,
}

enum Message<T, S> {
    Chunk(Box<Chunk<T, S>>),
    Failed(Error),
    /// So many splits that the thread was given have been read.
    Read(usize),
}

/// Splits with their numbers.
type Numbered<S> = Vec<(usize, S)>;

/// The thread's end of the channel.
pub struct ChunkSender<T, S> {
    messages: SyncSender<Message<T, S>>,
    assigned: Receiver<Numbered<S>>,
    /// How many splits the thread was given.
    taken: Cell<usize>,
    waiting: Arc<AtomicBool>,
    waker: Waker,
}

impl<T, S> fmt::Debug for ChunkSender<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChunkSender")
    }
}

impl<T, S> ChunkSender<T, S> {
    /// Sends a chunk, and waits while the channel is full. `false`: the reader is gone, so the thread should
    /// end.
    #[must_use]
    pub fn send(&self, chunk: Chunk<T, S>) -> bool {
        self.give(Message::Chunk(Box::new(chunk)))
    }

    /// The splits that were assigned since the thread was given some. A thread that reads for ever, or
    /// several splits side by side, asks now and then; one that returns when it is through need not.
    pub fn assigned(&self) -> Vec<(usize, S)> {
        self.taken(self.assigned.try_iter().flatten().collect())
    }

    /// Waits for splits. `None`: the reader is gone.
    fn wait(&self) -> Option<Numbered<S>> {
        let first = self.assigned.recv().ok()?;
        let splits = first.into_iter().chain(self.assigned.try_iter().flatten());
        Some(self.taken(splits.collect()))
    }

    fn taken(&self, splits: Numbered<S>) -> Numbered<S> {
        self.taken.set(self.taken.get() + splits.len());
        splits
    }

    fn give(&self, message: Message<T, S>) -> bool {
        let sent = self.messages.send(message).is_ok();
        if self.waiting.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
        sent
    }
}

/// What has arrived from the thread.
#[derive(Debug)]
pub enum Arrived<'a, T, S> {
    /// A chunk that can be taken.
    Chunk(&'a Chunk<T, S>),
    /// Nothing; the operator will be woken.
    Nothing,
    /// Nothing, before other splits are assigned.
    Ended,
}

/// Reads splits in a named thread over a bounded channel.
///
/// Positions travel with the records, so that a snapshot is as of what was *taken*, not of what was read
/// ahead; errors and panics of the thread travel too. Splits can be [assigned](Self::assign) at any time. The
/// thread ends with its next [`send`](ChunkSender::send) after the reader was dropped.
///
/// ```
/// use stillstream_runtime::{Batch, SourceStatus, connect::{BackgroundReader, Chunk}, waker::Waker};
/// // a split is the next number, and goes to the next multiple of 30
/// let mut reader = BackgroundReader::start("numbers", 4, Waker::idle(), |splits, chunks| {
///     for (split, next) in splits {
///         for from in (next..next.next_multiple_of(30)).step_by(10) {
///             let (position, records) = (from + 10, Batch::new((from..from + 10).collect()));
///             let chunk = Chunk { split, position, records, side: None, skipped: 0, weight: 10 };
///             if !chunks.send(chunk) {
///                 return Ok(()); // nobody wants more
///             }
///         }
///     }
///     Ok(()) // the thread waits for other splits
/// })?;
/// reader.assign(vec![1u64]);
/// let mut out = Batch::default();
/// while out.len() < 20 {
///     assert_ne!(reader.poll(10, &mut out)?, SourceStatus::Ended);
/// }
/// assert_eq!(reader.positions(), vec![21]);
/// # Ok::<(), stillstream_types::Error>(())
/// ```
pub struct BackgroundReader<T, S> {
    name: String,
    messages: Receiver<Message<T, S>>,
    waiting: Arc<AtomicBool>,
    next: VecDeque<Box<Chunk<T, S>>>,
    /// Splits that are left out, and what came of them meanwhile.
    paused: BTreeSet<usize>,
    aside: VecDeque<Box<Chunk<T, S>>>,
    assign: Sender<Numbered<S>>,
    /// By number.
    splits: BTreeMap<usize, S>,
    /// How many were assigned, and how many of them were read when the thread said so last.
    assigned: usize,
    read: usize,
    side: Vec<AnyBatch>,
    skipped: u64,
}

impl<T, S: fmt::Debug> fmt::Debug for BackgroundReader<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundReader").field("name", &self.name).field("splits", &self.splits).finish()
    }
}

impl<T: Send + 'static, S: Clone + Send + 'static> BackgroundReader<T, S> {
    /// Starts a thread called `name`; at most `capacity` chunks wait in the channel. `read` is called with
    /// splits and their numbers, which count from 0 in the order in which they were assigned. It sends chunks
    /// until it is through, or until nobody takes them any more, and is called again when others are
    /// assigned; or it goes on for ever, and asks for [those](ChunkSender::assigned) itself.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        name: &str,
        capacity: usize,
        waker: Waker,
        mut read: impl FnMut(Vec<(usize, S)>, &ChunkSender<T, S>) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let (sender, messages) = sync_channel(capacity.max(1));
        let (assign, assigned) = channel();
        let waiting = Arc::new(AtomicBool::new(false));
        let taken = Cell::new(0);
        let chunks = ChunkSender { messages: sender, assigned, taken, waiting: waiting.clone(), waker };
        let run = move || {
            while let Some(splits) = chunks.wait() {
                match catch_on_thread(|| read(splits, &chunks)) {
                    Ok(()) if chunks.give(Message::Read(chunks.taken.get())) => {}
                    Ok(()) => return,
                    Err(error) => {
                        chunks.give(Message::Failed(error));
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new()
            .name(name.to_string())
            .spawn(run)
            .context(|| format!("starting the thread `{name}`"))
            .kind(ErrorKind::Connector)?;
        Ok(Self {
            name: name.to_string(),
            messages,
            waiting,
            next: VecDeque::new(),
            paused: BTreeSet::new(),
            aside: VecDeque::new(),
            assign,
            splits: BTreeMap::new(),
            assigned: 0,
            read: 0,
            side: Vec::new(),
            skipped: 0,
        })
    }

    /// Gives the thread splits to read, beside those that it has.
    pub fn assign(&mut self, splits: Vec<S>) {
        if splits.is_empty() {
            return;
        }
        let numbered: Numbered<S> = (self.assigned..).zip(splits).collect();
        self.assigned += numbered.len();
        self.splits.extend(numbered.iter().cloned());
        // a thread that is gone has said why
        let _ = self.assign.send(numbered);
    }

    /// Looks at the next chunk without taking it.
    ///
    /// # Errors
    /// What the thread failed with.
    pub fn peek(&mut self) -> Result<Arrived<'_, T, S>> {
        while self.next.is_empty() && self.read < self.assigned {
            let mut message = self.messages.try_recv();
            if matches!(message, Err(TryRecvError::Empty)) {
                // ask to be woken, then look again: the thread may have sent in between
                self.waiting.store(true, Ordering::SeqCst);
                message = self.messages.try_recv();
            }
            match message {
                Ok(Message::Chunk(chunk)) if self.paused.contains(&chunk.split) => {
                    self.aside.push_back(chunk)
                }
                Ok(Message::Chunk(chunk)) => self.next.push_back(chunk),
                Ok(Message::Read(splits)) => self.read = splits,
                Ok(Message::Failed(error)) => return Err(error),
                Err(TryRecvError::Empty) => return Ok(Arrived::Nothing),
                Err(TryRecvError::Disconnected) => {
                    let message = format!("the thread `{}` ended and did not say why", self.name);
                    return Err(Error::new(ErrorKind::Connector, message));
                }
            }
        }
        Ok(match self.next.front() {
            Some(chunk) => Arrived::Chunk(chunk),
            None if !self.aside.is_empty() => Arrived::Nothing,
            None => Arrived::Ended,
        })
    }

    /// Sets chunks of these splits aside from now on, and of no others: what was set aside of those comes
    /// next. The thread should read nothing of them meanwhile, for what is set aside has no bound.
    pub fn pause(&mut self, splits: BTreeSet<usize>) {
        self.paused = splits;
        let waiting = std::mem::take(&mut self.aside).into_iter().chain(std::mem::take(&mut self.next));
        let paused = &self.paused;
        (self.aside, self.next) = waiting.partition(|chunk| paused.contains(&chunk.split));
    }

    /// Takes the chunk that [`peek`](Self::peek) showed: appends its records to `out` and moves its split on.
    /// Returns its weight, or `None` if there was none.
    pub fn take(&mut self, out: &mut Batch<T>) -> Option<u64> {
        let chunk = *self.next.pop_front()?;
        if let Some(split) = self.splits.get_mut(&chunk.split) {
            *split = chunk.position;
        }
        self.side.extend(chunk.side);
        self.skipped += chunk.skipped;
        if out.is_empty() {
            *out = chunk.records;
        } else {
            out.values.extend(chunk.records.values);
            out.times.extend(chunk.records.times);
        }
        Some(chunk.weight)
    }

    /// Takes chunks until `out` holds `max_records` or more, or nothing is left.
    ///
    /// # Errors
    /// What the thread failed with.
    pub fn poll(&mut self, max_records: usize, out: &mut Batch<T>) -> Result<SourceStatus> {
        loop {
            match self.peek()? {
                Arrived::Chunk(_) => self.take(out),
                Arrived::Nothing => return Ok(SourceStatus::Idle { until_ms: None }),
                Arrived::Ended => return Ok(SourceStatus::Ended),
            };
            if out.len() >= max_records || !self.side.is_empty() {
                return Ok(SourceStatus::More);
            }
        }
    }

    /// The splits as of what was taken.
    pub fn positions(&self) -> Vec<S> {
        self.splits.values().cloned().collect()
    }

    /// Leaves out of [`positions`](Self::positions), from now on, those that are `done`.
    pub fn forget(&mut self, mut done: impl FnMut(&S) -> bool) {
        self.splits.retain(|_, split| !done(split));
    }

    /// Records for the side output that came with what was taken since the last call.
    pub fn side_output(&mut self) -> Option<AnyBatch> {
        if self.side.is_empty() { None } else { Some(self.side.remove(0)) }
    }

    /// How many records were left out of what was taken since the last call.
    pub fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }
}
