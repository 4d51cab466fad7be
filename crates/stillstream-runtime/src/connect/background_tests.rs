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
    mut read: impl FnMut(&ChunkSender<u64, u64>) -> Result<()> + Send + 'static,
) -> BackgroundReader<u64, u64> {
    let mut reader =
        BackgroundReader::start("test", 2, Waker::idle(), move |_, chunks| read(chunks)).unwrap();
    reader.assign(vec![0]);
    reader
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

/// Reads each split up to the next ten.
fn tens(splits: Vec<(usize, u64)>, chunks: &ChunkSender<u64, u64>) {
    for (split, next) in splits {
        for n in next..next.next_multiple_of(10) {
            let _ = chunks.send(Chunk { split, ..chunk(n) });
        }
    }
}

#[test]
fn splits_that_are_assigned_when_all_is_read_are_read_too_and_keep_their_numbers() {
    let mut reader = BackgroundReader::start("test", 2, Waker::idle(), |splits, chunks| {
        tens(splits, chunks);
        Ok(())
    });
    let reader = reader.as_mut().unwrap();
    assert!(all(reader).unwrap().is_empty(), "without splits it has read all of them");
    reader.assign(vec![8, 17]);
    assert_eq!(all(reader).unwrap(), [8, 9, 17, 18, 19]);
    reader.forget(|split| *split == 10);
    reader.assign(vec![25]);
    reader.assign(vec![38]);
    assert_eq!(all(reader).unwrap(), [25, 26, 27, 28, 29, 38, 39]);
    assert_eq!(reader.positions(), [20, 30, 40]);
}

#[test]
fn a_thread_that_reads_on_takes_splits_that_are_assigned_meanwhile() {
    let (took, takes) = mpsc::channel();
    let mut reader = BackgroundReader::start("test", 2, Waker::idle(), move |splits, chunks| {
        tens(splits, chunks);
        let mut more = Vec::new();
        while more.is_empty() {
            more = chunks.assigned();
            std::thread::yield_now();
        }
        took.send(more.clone()).unwrap();
        tens(more, chunks);
        Ok(())
    })
    .unwrap();
    reader.assign(vec![8]);
    let mut out = Batch::default();
    while out.len() < 2 {
        assert_ne!(reader.poll(1, &mut out).unwrap(), SourceStatus::Ended, "it reads on");
    }
    reader.assign(vec![19]);
    assert_eq!(all(&mut reader).unwrap(), [19]);
    assert_eq!((takes.recv().unwrap(), reader.positions()), (vec![(1, 19)], vec![10, 20]));
}

#[test]
fn what_comes_of_splits_that_are_left_out_comes_in_order_when_they_are_read_again() {
    let (send, order) = mpsc::channel::<(usize, u64)>();
    let mut reader = BackgroundReader::start("test", 2, Waker::idle(), move |_, chunks| {
        for (split, n) in &order {
            if !chunks.send(Chunk { split, ..chunk(n) }) {
                break;
            }
        }
        Ok(())
    })
    .unwrap();
    reader.assign(vec![0, 0]);
    let take = |reader: &mut BackgroundReader<u64, u64>, n: usize| {
        let mut out = Batch::default();
        while out.len() < n {
            reader.poll(n - out.len(), &mut out).unwrap();
            std::thread::yield_now();
        }
        out.values
    };
    [(0, 1), (1, 2)].into_iter().for_each(|chunk| send.send(chunk).unwrap());
    assert_eq!(take(&mut reader, 1), [1]);
    reader.pause([1].into());
    [(1, 3), (0, 4)].into_iter().for_each(|chunk| send.send(chunk).unwrap());
    assert_eq!(take(&mut reader, 1), [4]);
    assert_eq!(reader.positions(), [5, 0], "the positions are as of what was taken");
    // the thread has read all, and what was set aside is still to come
    drop(send);
    assert!(matches!(reader.poll(1, &mut Batch::default()).unwrap(), SourceStatus::Idle { .. }));
    reader.pause(Default::default());
    assert_eq!(take(&mut reader, 2), [2, 3]);
    assert_eq!(all(&mut reader).unwrap(), [] as [u64; 0]);
}
