//! Reading in a thread of its own: the worker never waits for input.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use stillstream_types::{Error, ErrorKind, Result, ResultExt};

use crate::catch::catch_on_thread;
use crate::operator::SourceStatus;
use crate::operator::batch::{AnyBatch, Batch};
use crate::waker::Waker;

/// Records of one split, and where the split goes on after them.
#[derive(Debug)]
pub struct Chunk<T, S> {
    /// Index of the split among those assigned.
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
    Ended,
}

/// The thread's end of the channel.
pub struct ChunkSender<T, S> {
    messages: SyncSender<Message<T, S>>,
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
    /// Nothing, and never more.
    Ended,
}

/// Reads splits in a named thread over a bounded channel.
///
/// Positions travel with the records, so that a snapshot is as of what was *taken*, not of what was read
/// ahead; errors and panics of the thread travel too. The thread ends with its next
/// [`send`](ChunkSender::send) after the reader was dropped.
///
/// ```
/// use stillstream_runtime::{Batch, SourceStatus, connect::{BackgroundReader, Chunk}, waker::Waker};
/// let splits = vec![0u64]; // one split; its position is the next number
/// let mut reader = BackgroundReader::start("numbers", splits, 4, Waker::idle(), |splits, chunks| {
///     for from in (splits[0]..30).step_by(10) {
///         let records = Batch::new((from..from + 10).collect());
///         let chunk = Chunk { split: 0, position: from + 10, records, side: None, skipped: 0, weight: 10 };
///         if !chunks.send(chunk) {
///             break;
///         }
///     }
///     Ok(())
/// })?;
/// let mut out = Batch::default();
/// while out.len() < 20 {
///     assert_ne!(reader.poll(10, &mut out)?, SourceStatus::Ended);
/// }
/// assert_eq!(reader.positions(), vec![20]);
/// # Ok::<(), stillstream_types::Error>(())
/// ```
pub struct BackgroundReader<T, S> {
    name: String,
    messages: Receiver<Message<T, S>>,
    waiting: Arc<AtomicBool>,
    next: VecDeque<Box<Chunk<T, S>>>,
    splits: Vec<S>,
    side: Vec<AnyBatch>,
    skipped: u64,
    ended: bool,
}

impl<T, S: fmt::Debug> fmt::Debug for BackgroundReader<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundReader").field("name", &self.name).field("splits", &self.splits).finish()
    }
}

impl<T: Send + 'static, S: Clone + Send + 'static> BackgroundReader<T, S> {
    /// Starts a thread called `name` that reads `splits`; at most `capacity` chunks wait in the channel.
    /// `read` sends chunks until it is through, or until nobody takes them any more.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        name: &str,
        splits: Vec<S>,
        capacity: usize,
        waker: Waker,
        read: impl FnOnce(Vec<S>, &ChunkSender<T, S>) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let (sender, messages) = sync_channel(capacity.max(1));
        let waiting = Arc::new(AtomicBool::new(false));
        let chunks = ChunkSender { messages: sender, waiting: waiting.clone(), waker };
        let assigned = splits.clone();
        let run = move || {
            let result = catch_on_thread(|| read(assigned, &chunks));
            chunks.give(match result {
                Ok(()) => Message::Ended,
                Err(error) => Message::Failed(error),
            });
        };
        std::thread::Builder::new()
            .name(name.to_string())
            .spawn(run)
            .context(|| format!("starting the thread `{name}`"))
            .kind(ErrorKind::Connector)?;
        let (next, side) = (VecDeque::new(), Vec::new());
        Ok(Self { name: name.to_string(), messages, waiting, next, splits, side, skipped: 0, ended: false })
    }

    /// Looks at the next chunk without taking it.
    ///
    /// # Errors
    /// What the thread failed with.
    pub fn peek(&mut self) -> Result<Arrived<'_, T, S>> {
        if self.next.is_empty() && !self.ended {
            let mut message = self.messages.try_recv();
            if matches!(message, Err(TryRecvError::Empty)) {
                // ask to be woken, then look again: the thread may have sent in between
                self.waiting.store(true, Ordering::SeqCst);
                message = self.messages.try_recv();
            }
            match message {
                Ok(Message::Chunk(chunk)) => self.next.push_back(chunk),
                Ok(Message::Ended) => self.ended = true,
                Ok(Message::Failed(error)) => return Err(error),
                Err(TryRecvError::Empty) => return Ok(Arrived::Nothing),
                Err(TryRecvError::Disconnected) => {
                    let message = format!("the thread `{}` ended and did not say why", self.name);
                    return Err(Error::new(ErrorKind::Connector, message));
                }
            }
        }
        Ok(self.next.front().map_or(Arrived::Ended, |chunk| Arrived::Chunk(chunk)))
    }

    /// Takes the chunk that [`peek`](Self::peek) showed: appends its records to `out` and moves its split on.
    /// Returns its weight, or `None` if there was none.
    pub fn take(&mut self, out: &mut Batch<T>) -> Option<u64> {
        let chunk = *self.next.pop_front()?;
        if let Some(split) = self.splits.get_mut(chunk.split) {
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
        self.splits.clone()
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
