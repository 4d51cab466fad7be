//! The background reader: what travels from its thread, and when the thread ends.

use std::sync::mpsc;
use std::time::Duration;

use stillstream_types::{Error, Result};

use super::{BackgroundReader, Chunk, ChunkSender};
use crate::operator::SourceStatus;
use crate::operator::batch::Batch;
use crate::waker::Waker;

fn chunk(n: u64) -> Chunk<u64, u64> {
    Chunk { split: 0, position: n + 1, records: Batch::new(vec![n]), side: None, skipped: 0, weight: 1 }
}

fn start(
    read: impl FnOnce(&ChunkSender<u64, u64>) -> Result<()> + Send + 'static,
) -> BackgroundReader<u64, u64> {
    BackgroundReader::start("test", vec![0], 2, Waker::idle(), move |_, chunks| read(chunks)).unwrap()
}

/// Polls until the reader ends or fails.
fn all(reader: &mut BackgroundReader<u64, u64>) -> Result<Vec<u64>> {
    let mut out = Batch::default();
    while reader.poll(1, &mut out)? != SourceStatus::Ended {
        std::thread::yield_now();
    }
    Ok(out.values)
}

#[test]
fn positions_are_those_of_what_was_taken_not_of_what_was_read_ahead() {
    let mut reader = start(|chunks| {
        (0..5).for_each(|n| assert!(chunks.send(chunk(n))));
        Ok(())
    });
    let mut out = Batch::default();
    while out.is_empty() {
        reader.poll(1, &mut out).unwrap();
    }
    assert_eq!((out.values, reader.positions()), (vec![0], vec![1]));
    assert_eq!(all(&mut reader).unwrap(), [1, 2, 3, 4]);
    assert_eq!(reader.positions(), [5]);
}

#[test]
fn errors_and_panics_of_the_thread_reach_the_worker_after_the_records_before_them() {
    let mut failing = start(|chunks| {
        assert!(chunks.send(chunk(0)));
        Err(Error::msg("disk gone"))
    });
    assert_eq!(all(&mut failing).unwrap_err().to_string(), "disk gone");
    assert_eq!(failing.positions(), [1]);
    let mut panicking = start(|_| panic!("index out of range"));
    let text = all(&mut panicking).unwrap_err().to_string();
    assert_eq!(text, "the thread `test` panicked: index out of range");
}

#[test]
fn the_thread_ends_when_the_reader_is_dropped() {
    let (ended, at_end) = mpsc::channel();
    let reader = start(move |chunks| {
        let mut n = 0;
        while chunks.send(chunk(n)) {
            n += 1;
        }
        let _ = ended.send(n);
        Ok(())
    });
    drop(reader);
    let sent = at_end.recv_timeout(Duration::from_secs(20)).expect("the thread ends");
    assert!(sent <= 3, "it did not read on: {sent}");
}
