//! The sink's adapter: what happens when something fails between pre-commit and commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use parking_lot::Mutex;
use stillstream_state::MemorySnapshotStore;
use stillstream_types::{CheckpointId, Error, OperatorSubtaskState, Result};

use super::{Plain, PlainWriter, Prepared, Sink, SinkContext, SinkOperator, SinkWriter};
use crate::batch::Batch;
use crate::operator::{AsyncSnapshot, OpenContext, Operator, Output};

/// Commits numbers into a list; what is durable, and how often something fails, is known to the test.
#[derive(Clone, Default)]
struct Recorder(Arc<Record>);

#[derive(Default)]
struct Record {
    durable: Mutex<Vec<u64>>,
    committed: Mutex<Vec<u64>>,
    disk_full: AtomicU32,
    commits_to_fail: AtomicU32,
    commit_attempts: AtomicU32,
}

struct Writer(Recorder, Vec<u64>);

fn fails(left: &AtomicU32) -> bool {
    left.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok()
}

impl Sink<u64> for Recorder {
    type Committable = Vec<u64>;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, Vec<u64>>>> {
        Ok(Box::new(Writer(self.clone(), Vec::new())))
    }
}

impl SinkWriter<u64, Vec<u64>> for Writer {
    fn write(&mut self, batch: Batch<u64>) -> Result<()> {
        self.1.extend(batch.values);
        Ok(())
    }
    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<Vec<u64>>>> {
        if self.1.is_empty() {
            return Ok(None);
        }
        let (committable, record) = (std::mem::take(&mut self.1), self.0.clone());
        let durable = committable.clone();
        let make_durable = move || {
            if fails(&record.0.disk_full) {
                return Err(Error::msg("no space left"));
            }
            record.0.durable.lock().extend(&durable);
            Ok(())
        };
        Ok(Some(Prepared { committable, make_durable: Some(Box::new(make_durable)) }))
    }
    fn commit(&mut self, committable: &Vec<u64>) -> Result<()> {
        self.0.0.commit_attempts.fetch_add(1, SeqCst);
        if fails(&self.0.0.commits_to_fail) {
            return Err(Error::msg("broker away"));
        }
        let (durable, mut committed) = (self.0.0.durable.lock(), self.0.0.committed.lock());
        for n in committable {
            assert!(durable.contains(n), "{n} is committed and not durable");
            if !committed.contains(n) {
                committed.push(*n);
            }
        }
        Ok(())
    }
}

type Subtask = SinkOperator<u64, Recorder>;

fn open(sink: &Recorder, retries: u32, restored: Option<OperatorSubtaskState>) -> Result<Subtask> {
    let mut context = OpenContext::for_test("sink", 0, 1);
    if let Some(state) = restored {
        context = context.restored_for_test(2, CheckpointId(9), state);
    }
    let mut operator = SinkOperator::new(Arc::new(sink.clone()), retries);
    operator.open(&mut context)?;
    Ok(operator)
}

fn write(operator: &mut Subtask, n: u64) {
    operator.process(0, Batch::new(vec![n]).into(), &mut Output::default()).unwrap();
}

fn prepare(operator: &mut Subtask, id: u64) -> AsyncSnapshot {
    operator.snapshot(CheckpointId(id)).unwrap().unwrap()
}

fn store() -> MemorySnapshotStore {
    MemorySnapshotStore::default()
}

#[test]
fn a_failed_pre_commit_declines_its_checkpoint_and_is_made_up_for_by_the_next() {
    let sink = Recorder::default();
    let mut operator = open(&sink, 0, None).unwrap();
    sink.0.disk_full.store(1, SeqCst);
    write(&mut operator, 1);
    assert!(prepare(&mut operator, 1)(&store()).unwrap_err().to_string().contains("no space left"));
    operator.checkpoint_aborted(CheckpointId(1)).unwrap();
    write(&mut operator, 2);
    let state = prepare(&mut operator, 2)(&store()).unwrap();
    assert_eq!(*sink.0.durable.lock(), [1, 2]);
    operator.checkpoint_complete(CheckpointId(2)).unwrap();
    assert_eq!(*sink.0.committed.lock(), [1, 2]);

    let again = Recorder::default();
    again.0.durable.lock().extend([1, 2]);
    open(&again, 0, Some(state)).unwrap();
    assert_eq!(*again.0.committed.lock(), [1, 2], "checkpoint 2 holds what was written for checkpoint 1");
}

#[test]
fn what_an_aborted_checkpoint_never_made_durable_is_made_durable_by_the_next() {
    let sink = Recorder::default();
    let mut operator = open(&sink, 0, None).unwrap();
    write(&mut operator, 1);
    drop(prepare(&mut operator, 1));
    // nothing new for checkpoint 2: it still has to do checkpoint 1's work
    prepare(&mut operator, 2)(&store()).unwrap();
    operator.checkpoint_complete(CheckpointId(2)).unwrap();
    assert_eq!(*sink.0.committed.lock(), [1]);
}

#[test]
fn a_notice_commits_what_is_older_and_nothing_that_is_newer() {
    let sink = Recorder::default();
    let mut operator = open(&sink, 0, None).unwrap();
    for id in 1..=3 {
        write(&mut operator, id);
        prepare(&mut operator, id)(&store()).unwrap();
    }
    operator.checkpoint_complete(CheckpointId(2)).unwrap();
    operator.checkpoint_complete(CheckpointId(1)).unwrap();
    assert_eq!(*sink.0.committed.lock(), [1, 2]);
}

#[test]
fn a_commit_is_tried_again_and_its_last_error_is_kept() {
    let sink = Recorder::default();
    let mut operator = open(&sink, 10, None).unwrap();
    write(&mut operator, 1);
    prepare(&mut operator, 1)(&store()).unwrap();
    sink.0.commits_to_fail.store(10, SeqCst);
    operator.checkpoint_complete(CheckpointId(1)).unwrap();
    assert_eq!(sink.0.commit_attempts.load(SeqCst), 11);

    write(&mut operator, 2);
    prepare(&mut operator, 2)(&store()).unwrap();
    sink.0.commits_to_fail.store(11, SeqCst);
    let error = operator.checkpoint_complete(CheckpointId(2)).unwrap_err().to_string();
    assert!(error.contains("checkpoint 2 failed 11 times (sink.committer.retries: 10)"), "{error}");
    assert!(error.contains("broker away"), "{error}");
    operator.checkpoint_complete(CheckpointId(3)).unwrap();
    assert_eq!(*sink.0.committed.lock(), [1, 2]);
}

#[test]
fn a_sink_does_not_end_with_records_that_no_checkpoint_covers() {
    let sink = Recorder::default();
    let mut operator = open(&sink, 0, None).unwrap();
    write(&mut operator, 1);
    let error = operator.finish().unwrap_err().to_string();
    assert!(error.contains("records that no checkpoint holds"), "{error}");
    assert!(sink.0.committed.lock().is_empty());
}

#[test]
fn a_plain_sink_is_flushed_before_each_checkpoint_and_at_the_end() {
    struct Counting(Arc<AtomicU32>);
    impl PlainWriter<u64> for Counting {
        fn write(&mut self, _: Batch<u64>) -> Result<()> {
            Ok(())
        }
        fn flush(&mut self) -> Result<()> {
            self.0.fetch_add(1, SeqCst);
            Ok(())
        }
    }
    let flushes = Arc::new(AtomicU32::new(0));
    let shared = flushes.clone();
    let sink = Plain::new(move |_| Ok(Counting(shared.clone())));
    let mut operator: SinkOperator<u64, _> = SinkOperator::new(Arc::new(sink), 0);
    operator.open(&mut OpenContext::for_test("plain", 0, 1)).unwrap();
    assert!(operator.snapshot(CheckpointId(1)).unwrap().is_none());
    assert_eq!(flushes.load(SeqCst), 1);
    operator.finish().unwrap();
    assert_eq!(flushes.load(SeqCst), 2);
}
