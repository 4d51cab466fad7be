//! Batches: what travels on every edge.
//!
//! Operators see typed [`Batch`]es; edges carry [`AnyBatch`], which is either a boxed typed batch (within a
//! process) or bytes that the consumer decodes (between processes). One virtual call a batch, never one a
//! record.

mod wire;

use std::any::Any;
use std::cell::RefCell;
use std::fmt;

use stillstream_state::Data;
use stillstream_types::{Error, ErrorKind, KeyHash, Result};
use timely::bytes::arc::Bytes;
use timely::container::Accountable;

use crate::operator::event_time::{EventTime, Mark};
use wire::{HAS_HASHES, HAS_TIMES, decode_batch};

/// Records of one type, with a column of event times and a column of key hashes where there are any.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    /// The records.
    pub values: Vec<T>,
    /// Event time of each record in milliseconds; empty if the records have none.
    pub times: Vec<i64>,
    /// Key hash of each record; empty unless the batch comes from a `key_by`.
    pub hashes: Vec<KeyHash>,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { values: Vec::new(), times: Vec::new(), hashes: Vec::new() }
    }
}

impl<T> Batch<T> {
    /// Records without event time.
    pub fn new(values: Vec<T>) -> Self {
        Self { values, times: Vec::new(), hashes: Vec::new() }
    }

    /// Records with event times; `times` is empty or as long as `values`.
    pub fn timed(values: Vec<T>, times: Vec<i64>) -> Self {
        debug_assert!(times.is_empty() || times.len() == values.len());
        Self { values, times, hashes: Vec::new() }
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Cuts off the records from `at` on, with their times and hashes.
    fn split_from(&mut self, at: usize) -> Self {
        fn tail<C>(column: &mut Vec<C>, at: usize) -> Vec<C> {
            if column.is_empty() { Vec::new() } else { column.split_off(at.min(column.len())) }
        }
        Self {
            values: tail(&mut self.values, at),
            times: tail(&mut self.times, at),
            hashes: tail(&mut self.hashes, at),
        }
    }

    /// Event time of record `i`, or `None` if the records have none.
    #[inline(always)]
    pub fn time(&self, i: usize) -> Option<i64> {
        self.times.get(i).copied()
    }

    /// Appends one record. Give a time with every record of a batch or with none.
    #[inline(always)]
    pub fn push(&mut self, value: T, time: Option<i64>) {
        self.values.push(value);
        if let Some(time) = time {
            self.times.push(time);
        }
    }
}

/// A [`Batch`] whose record type is known only to its producer and its consumer.
pub trait ErasedBatch: Any + Send {
    /// Appends the binary form (see [`AnyBatch`]).
    fn encode(&self, out: &mut Vec<u8>);
    /// A copy.
    fn duplicate(&self) -> Box<dyn ErasedBatch>;
    /// Cuts off the records from `at` on.
    fn split_off(&mut self, at: usize) -> Box<dyn ErasedBatch>;
    /// About how many bytes a record takes: measured on one of them where records own memory.
    fn record_size(&self) -> usize;
    /// For the downcast.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: Data> ErasedBatch for Batch<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.times.is_empty() { 0 } else { HAS_TIMES }
            | if self.hashes.is_empty() { 0 } else { HAS_HASHES };
        out.push(flags);
        self.times.iter().for_each(|time| out.extend_from_slice(&time.to_le_bytes()));
        self.hashes.iter().for_each(|hash| out.extend_from_slice(&hash.0.to_le_bytes()));
        T::encode_slice(&self.values, out);
    }

    fn duplicate(&self) -> Box<dyn ErasedBatch> {
        Box::new(self.clone())
    }

    fn split_off(&mut self, at: usize) -> Box<dyn ErasedBatch> {
        Box::new(self.split_from(at))
    }

    fn record_size(&self) -> usize {
        let columns = usize::from(!self.times.is_empty()) + usize::from(!self.hashes.is_empty());
        let own = match self.values.get(self.values.len() / 2).filter(|_| std::mem::needs_drop::<T>()) {
            None => 0,
            Some(record) => MEASURED.with_borrow_mut(|bytes| {
                bytes.clear();
                record.encode(bytes);
                let size = bytes.len();
                bytes.shrink_to(1 << 16);
                size
            }),
        };
        own + size_of::<T>() + 8 * columns
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

thread_local! {
    // where a record is encoded to see how large it is
    static MEASURED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

enum Payload {
    Empty,
    Typed(Box<dyn ErasedBatch>),
    /// A part of what was sent.
    Bytes {
        bytes: Bytes,
        /// Records in the bytes.
        sent: u32,
        /// The first one of the part.
        from: u32,
    },
}

/// The container of every Timely edge: records, and marks of event time between them.
///
/// Between processes: sender `u32`, edge `u32`, length `u32`, target `u32`, the number of records in the
/// bytes and the first one that counts, the number of marks and their weight, all `u32`; what flow control
/// counts it as, in bytes, `u64`; each mark as position `u32`, idle `u32` (0 or 1) and watermark `i64`; one
/// byte of flags, then the columns of times and hashes if the flags name them, then the records; padded to 8
/// bytes.
pub struct AnyBatch {
    /// The worker that sent it.
    pub(crate) from: u32,
    /// The edge that it travels on.
    pub(crate) edge: u32,
    /// The subtask that it is for, where the producer decides that (broadcast, rebalance).
    pub(crate) to: u32,
    /// What the marks add to Timely's count. An exchange turns one container into several, each of which has
    /// every mark, and Timely wants the sum of their counts to be that of the container.
    pub(crate) weight: u32,
    /// What flow control counts it as.
    pub(crate) bytes: u64,
    len: u32,
    payload: Payload,
    /// By position.
    marks: Vec<Mark>,
}

impl Default for AnyBatch {
    fn default() -> Self {
        Self {
            from: 0,
            edge: 0,
            to: 0,
            weight: 0,
            bytes: 0,
            len: 0,
            payload: Payload::Empty,
            marks: Vec::new(),
        }
    }
}

impl fmt::Debug for AnyBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyBatch(edge {}, from {}, {} records)", self.edge, self.from, self.len)
    }
}

impl Clone for AnyBatch {
    fn clone(&self) -> Self {
        let payload = match &self.payload {
            Payload::Empty => Payload::Empty,
            Payload::Typed(batch) => Payload::Typed(batch.duplicate()),
            Payload::Bytes { bytes, sent, from } => {
                Payload::Bytes { bytes: bytes.clone(), sent: *sent, from: *from }
            }
        };
        Self { payload, marks: self.marks.clone(), ..*self }
    }
}

impl<T: Data> From<Batch<T>> for AnyBatch {
    fn from(batch: Batch<T>) -> Self {
        Self { len: batch.values.len() as u32, payload: Payload::Typed(Box::new(batch)), ..Self::default() }
    }
}

impl AnyBatch {
    /// How many records.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// About how many bytes a record takes.
    pub(crate) fn record_size(&self) -> usize {
        match &self.payload {
            Payload::Empty => 0,
            Payload::Typed(batch) => batch.record_size(),
            Payload::Bytes { bytes, sent, .. } => bytes.len() / (*sent).max(1) as usize,
        }
    }

    /// What is said of event time, by position.
    pub(crate) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Takes out what is said of event time.
    pub(crate) fn take_marks(&mut self) -> Vec<Mark> {
        std::mem::take(&mut self.marks)
    }

    /// Puts marks into a batch that has none.
    pub(crate) fn set_marks(&mut self, marks: Vec<Mark>) {
        self.marks = marks;
    }

    /// Says behind the last record how far event time is. What was said at the same place before is replaced.
    pub(crate) fn mark(&mut self, time: EventTime) {
        push_mark(&mut self.marks, self.len, time);
    }

    /// Whether there is neither a record nor a mark.
    pub(crate) fn is_void(&self) -> bool {
        self.len == 0 && self.marks.is_empty()
    }

    /// Cuts off the records from `at` on. Marks between the two parts stay with the first one.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let at = at.min(self.len()) as u32;
        let payload = match &mut self.payload {
            Payload::Empty => Payload::Empty,
            Payload::Typed(batch) => Payload::Typed(batch.split_off(at as usize)),
            // what type they are is known to the consumer only: it will decode them all and take its part
            Payload::Bytes { bytes, sent, from } => {
                Payload::Bytes { bytes: bytes.clone(), sent: *sent, from: *from + at }
            }
        };
        let first = self.marks.partition_point(|mark| mark.at <= at);
        let mut marks = self.marks.split_off(first);
        marks.iter_mut().for_each(|mark| mark.at -= at);
        let rest = Self { payload, len: self.len - at, marks, weight: 0, ..*self };
        self.len = at;
        rest
    }

    /// The typed batch.
    ///
    /// # Errors
    /// If the batch holds another type, or its bytes are damaged: both mean that the peers do not run the
    /// same program.
    pub fn take<T: Data>(self) -> Result<Batch<T>> {
        crate::operator::record_type::note::<T>();
        match self.payload {
            Payload::Empty | Payload::Bytes { sent: 0, .. } => Ok(Batch::default()),
            Payload::Typed(batch) => {
                batch.into_any().downcast::<Batch<T>>().map(|batch| *batch).map_err(|_| {
                    Error::new(
                        ErrorKind::Plan,
                        format!(
                            "an edge carries another type than `{}`, which its consumer expects",
                            std::any::type_name::<T>()
                        ),
                    )
                })
            }
            Payload::Bytes { bytes, sent, from } => {
                let decoded = decode_batch(sent as usize, &bytes).map(|mut batch: Batch<T>| {
                    if from > 0 {
                        batch = batch.split_from(from as usize);
                    }
                    if (self.len as usize) < batch.len() {
                        drop(batch.split_from(self.len as usize));
                    }
                    batch
                });
                decoded.map_err(|error| Error::new(
                    ErrorKind::Peer,
                    format!(
                        "a batch of {} records of `{}` from worker {} cannot be read ({error}); do all processes run the \
                         same build of the program?",
                        self.len, std::any::type_name::<T>(), self.from
                    ),
                ))
            }
        }
    }
}

impl Accountable for AnyBatch {
    #[inline]
    fn record_count(&self) -> i64 {
        self.len as i64 + self.weight as i64
    }
    #[inline]
    fn is_empty(&self) -> bool {
        self.is_void()
    }
}

/// Appends a mark; of two without a record between them the later one counts.
pub(crate) fn push_mark(marks: &mut Vec<Mark>, at: u32, time: EventTime) {
    match marks.last_mut() {
        Some(last) if last.at == at => last.time = time,
        _ => marks.push(Mark { at, time }),
    }
}
