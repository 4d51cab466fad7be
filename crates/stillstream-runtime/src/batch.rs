//! Batches: what travels on every edge.
//!
//! Operators see typed [`Batch`]es; edges carry [`AnyBatch`], which is either a boxed typed batch (within a process) or
//! bytes that the consumer decodes (between processes). One virtual call a batch, never one a record.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;

use stillstream_state::{Data, DecodeError};
use stillstream_types::{Error, ErrorKind, KeyHash, Result};
use timely::bytes::arc::Bytes;
use timely::container::Accountable;
use timely::dataflow::channels::ContainerBytes;

use crate::event_time::{EventTime, Mark};

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
    /// For the downcast.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Bytes in front of a batch on the wire.
const HEADER: usize = 32;
/// Bytes of a mark on the wire.
const MARK: usize = 16;
const HAS_TIMES: u8 = 1;
const HAS_HASHES: u8 = 2;

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

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn decode_batch<T: Data>(len: usize, mut input: &[u8]) -> Result<Batch<T>, DecodeError> {
    let flags = u8::decode(&mut input)?;
    let words = |on: bool, input: &mut &[u8]| -> Result<Vec<u64>, DecodeError> {
        if on { u64::decode_vec(len, input) } else { Ok(Vec::new()) }
    };
    let times = words(flags & HAS_TIMES != 0, &mut input)?.into_iter().map(|word| word as i64).collect();
    let hashes = words(flags & HAS_HASHES != 0, &mut input)?.into_iter().map(KeyHash).collect();
    Ok(Batch { values: T::decode_vec(len, &mut input)?, times, hashes })
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
/// Between processes: sender `u32`, edge `u32`, length `u32`, target `u32`, the number of records in the bytes and the first
/// one that counts, the number of marks and their weight, all `u32`; each mark as position `u32`, idle `u32` (0 or 1) and
/// watermark `i64`; one byte of flags, then the columns of times and hashes if the flags name them, then the records;
/// padded to 8 bytes.
pub struct AnyBatch {
    /// The worker that sent it.
    pub(crate) from: u32,
    /// The edge that it travels on.
    pub(crate) edge: u32,
    /// The subtask that it is for, where the producer decides that (broadcast, rebalance).
    pub(crate) to: u32,
    /// What the marks add to Timely's count. An exchange turns one container into several, each of which has every mark, and
    /// Timely wants the sum of their counts to be that of the container.
    pub(crate) weight: u32,
    len: u32,
    payload: Payload,
    /// By position.
    marks: Vec<Mark>,
}

impl Default for AnyBatch {
    fn default() -> Self {
        Self { from: 0, edge: 0, to: 0, weight: 0, len: 0, payload: Payload::Empty, marks: Vec::new() }
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
    /// If the batch holds another type, or its bytes are damaged: both mean that the peers do not run the same program.
    pub fn take<T: Data>(self) -> Result<Batch<T>> {
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

fn read_mark(bytes: &[u8]) -> Mark {
    let mut words =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let mut next = || words.next().unwrap_or(0);
    let (at, idle, low, high) = (next(), next() != 0, next(), next());
    let watermark = (u64::from(high) << 32 | u64::from(low)) as i64;
    Mark { at, time: EventTime { watermark, idle } }
}

thread_local! {
    // Timely asks for the length just before it asks for the bytes: encode once and keep the result for that moment.
    static ENCODED: RefCell<(usize, Vec<u8>)> = const { RefCell::new((0, Vec::new())) };
}

impl AnyBatch {
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.clear();
        let (sent, first) = match &self.payload {
            Payload::Bytes { sent, from, .. } => (*sent, *from),
            Payload::Empty | Payload::Typed(_) => (self.len, 0),
        };
        let marks = self.marks.len() as u32;
        for word in [self.from, self.edge, self.len, self.to, sent, first, marks, self.weight] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for Mark { at, time } in &self.marks {
            out.extend_from_slice(&at.to_le_bytes());
            out.extend_from_slice(&u32::from(time.idle).to_le_bytes());
            out.extend_from_slice(&time.watermark.to_le_bytes());
        }
        match &self.payload {
            Payload::Empty => {}
            Payload::Typed(batch) => batch.encode(out),
            Payload::Bytes { bytes, .. } => out.extend_from_slice(bytes),
        }
        out.resize(out.len().next_multiple_of(8), 0);
    }
}

impl ContainerBytes for AnyBatch {
    fn from_bytes(mut bytes: Bytes) -> Self {
        if bytes.len() < HEADER {
            return Self::default();
        }
        let header = bytes.extract_to(HEADER);
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let marks = word(24) as usize;
        if bytes.len() / MARK < marks {
            return Self::default();
        }
        let encoded = bytes.extract_to(marks * MARK);
        let marks = encoded.chunks_exact(MARK).map(read_mark).collect();
        let payload = Payload::Bytes { bytes, sent: word(16), from: word(20) };
        Self { from: word(0), edge: word(4), len: word(8), to: word(12), weight: word(28), payload, marks }
    }

    fn length_in_bytes(&self) -> usize {
        ENCODED.with_borrow_mut(|(owner, out)| {
            self.encode_into(out);
            *owner = std::ptr::from_ref(self).addr();
            out.len()
        })
    }

    fn into_bytes<W: std::io::Write>(&self, writer: &mut W) {
        ENCODED.with_borrow_mut(|(owner, out)| {
            if std::mem::take(owner) != std::ptr::from_ref(self).addr() {
                self.encode_into(out);
            }
            // the writer is a buffer of exactly the announced length
            let written = writer.write_all(out);
            debug_assert!(written.is_ok());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_survives_the_way_over_the_wire() {
        let batch = Batch {
            values: vec![("a".to_string(), 1u64), ("bc".to_string(), 2)],
            times: vec![5, -6],
            hashes: vec![KeyHash(7), KeyHash(8)],
        };
        let mut any = AnyBatch::from(batch.clone());
        (any.from, any.edge) = (3, 9);
        let mut wire = Vec::new();
        assert_eq!(any.length_in_bytes() % 8, 0);
        any.into_bytes(&mut wire);
        let back = AnyBatch::from_bytes(timely::bytes::arc::BytesMut::from(wire).freeze());
        assert_eq!((back.from, back.edge, back.len()), (3, 9, 2));
        let back = back.take::<(String, u64)>().unwrap();
        assert_eq!((back.values, back.times, back.hashes), (batch.values, batch.times, batch.hashes));
    }

    #[test]
    fn the_parts_of_a_batch_hold_its_records_on_both_sides_of_the_wire() {
        let whole = Batch {
            hashes: (0..10).map(KeyHash).collect(),
            ..Batch::timed((0..10u64).collect(), (10..20).collect())
        };
        let over_the_wire = |batch: AnyBatch| {
            let mut wire = Vec::new();
            batch.into_bytes(&mut wire);
            AnyBatch::from_bytes(timely::bytes::arc::BytesMut::from(wire).freeze())
        };
        for received in [false, true] {
            let mut rest = AnyBatch::from(whole.clone());
            if received {
                rest = over_the_wire(rest);
            }
            let mut parts = Vec::new();
            while rest.len() > 3 {
                let next = rest.split_off(3);
                parts.push(std::mem::replace(&mut rest, next));
            }
            parts.push(rest);
            let mut joined = Batch::default();
            for (i, part) in parts.into_iter().enumerate() {
                // a part can be sent on as it is
                let part = if i % 2 == 0 { part } else { over_the_wire(part) };
                let len = part.len();
                let part = part.take::<u64>().unwrap();
                assert_eq!((part.len(), part.times.len(), part.hashes.len()), (len, len, len));
                joined.values.extend(part.values);
                joined.times.extend(part.times);
                joined.hashes.extend(part.hashes);
            }
            assert_eq!(
                (joined.values, joined.times, joined.hashes),
                (whole.values.clone(), whole.times.clone(), whole.hashes.clone())
            );
        }
    }

    #[test]
    fn marks_keep_their_place_between_the_records_on_the_wire_and_in_parts() {
        let at = |watermark: i64| EventTime { watermark, idle: watermark % 2 == 1 };
        let mut any = AnyBatch::from(Batch::new((0..10u64).collect()));
        let marks: Vec<Mark> = [(0, -5), (3, 7), (3, 8), (9, i64::MAX - 1)]
            .map(|(position, watermark)| Mark { at: position, time: at(watermark) })
            .to_vec();
        any.set_marks(marks.clone());
        any.mark(at(i64::MAX));
        any.mark(EventTime::END);
        any.weight = 5;
        let mut wire = Vec::new();
        any.into_bytes(&mut wire);
        let mut back = AnyBatch::from_bytes(timely::bytes::arc::BytesMut::from(wire).freeze());
        assert_eq!(back.record_count(), 15);
        assert_eq!(back.marks().len(), 5, "of two at one place the later one counts");
        assert_eq!(back.marks()[..4], marks);
        assert_eq!(back.marks()[4], Mark { at: 10, time: EventTime::END });
        let rest = back.split_off(3);
        let places = |batch: &AnyBatch| batch.marks().iter().map(|mark| mark.at).collect::<Vec<_>>();
        assert_eq!((places(&back), places(&rest)), (vec![0, 3, 3], vec![6, 7]));
        assert_eq!(rest.take::<u64>().unwrap().values, [3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn a_batch_of_marks_alone_travels_too() {
        let mut any = AnyBatch::default();
        assert!(Accountable::is_empty(&any));
        any.mark(EventTime { watermark: 4, idle: true });
        any.weight = 1;
        assert!(!Accountable::is_empty(&any) && any.is_empty());
        let mut wire = Vec::new();
        any.into_bytes(&mut wire);
        let back = AnyBatch::from_bytes(timely::bytes::arc::BytesMut::from(wire).freeze());
        assert_eq!((back.marks(), back.record_count()), (any.marks(), 1));
        assert!(back.take::<String>().unwrap().is_empty());
    }

    #[test]
    fn another_type_is_refused_with_its_name() {
        let error = AnyBatch::from(Batch::new(vec![1u64])).take::<String>().unwrap_err();
        assert!(error.to_string().contains("alloc::string::String"), "{error}");
    }
}
