//! The binary form of batches, in which they travel between processes. [`AnyBatch`] describes it.

use std::cell::RefCell;

use stillstream_state::{Data, DecodeError};
use stillstream_types::KeyHash;
use timely::bytes::arc::Bytes;
use timely::dataflow::channels::ContainerBytes;

use super::{AnyBatch, Batch, Payload};
use crate::operator::event_time::{EventTime, Mark};

/// Bytes in front of a batch on the wire.
const HEADER: usize = 40;
/// Bytes of a mark on the wire.
const MARK: usize = 16;
pub(super) const HAS_TIMES: u8 = 1;
pub(super) const HAS_HASHES: u8 = 2;

pub(super) fn decode_batch<T: Data>(len: usize, mut input: &[u8]) -> Result<Batch<T>, DecodeError> {
    let flags = u8::decode(&mut input)?;
    let words = |on: bool, input: &mut &[u8]| -> Result<Vec<u64>, DecodeError> {
        if on { u64::decode_vec(len, input) } else { Ok(Vec::new()) }
    };
    let times = words(flags & HAS_TIMES != 0, &mut input)?.into_iter().map(|word| word as i64).collect();
    let hashes = words(flags & HAS_HASHES != 0, &mut input)?.into_iter().map(KeyHash).collect();
    Ok(Batch { values: T::decode_vec(len, &mut input)?, times, hashes })
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
    // Timely asks for the length just before it asks for the bytes: encode once and keep the result for that
    // moment.
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
        out.extend_from_slice(&self.bytes.to_le_bytes());
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
        let weighs = u64::from(word(32)) | u64::from(word(36)) << 32;
        Self {
            from: word(0),
            edge: word(4),
            to: word(12),
            weight: word(28),
            bytes: weighs,
            len: word(8),
            payload,
            marks,
        }
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
    use timely::container::Accountable;

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
