//! The sink's adapter: what happens when something fails between pre-commit and commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_state::MemorySnapshotStore;
use stillstream_types::{CheckpointId, Error, ErrorKind, OperatorSubtaskState, Result, SnapshotForm};

use super::{
    CommitPolicy, Committer, Plain, PlainWriter, Prepared, Sink, SinkContext, SinkOperator, SinkWriter,
};
use crate::clock::{Clock, ManualClock, SystemClock};
use crate::operator::batch::Batch;
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
    /// The first number of each commit that succeeded, in the order of the calls.
    order: Mutex<Vec<u64>>,
    /// A commit that has begun does not return while this is set.
    holds: AtomicBool,
    under_way: AtomicU32,
    recovered: AtomicU32,
}

/// What does not come for so long will not come.
const DEADLINE: Duration = Duration::from_secs(20);

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let clock = SystemClock::default();
    while !done() {
        assert!(clock.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::yield_now();
    }
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
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<Vec<u64>>>> {
        let own = self.clone();
        Ok(Box::new(move |committable: &Vec<u64>| {
            own.0.under_way.fetch_add(1, SeqCst);
            let result = own.commit(committable);
            own.0.under_way.fetch_sub(1, SeqCst);
            result
        }))
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
    fn recovered(&mut self, _: Option<CheckpointId>) -> Result<()> {
        self.0.0.recovered.fetch_add(1, SeqCst);
        Ok(())
    }
}

impl Recorder {
    fn commit(&self, committable: &Vec<u64>) -> Result<()> {
        self.0.commit_attempts.fetch_add(1, SeqCst);
        wait_for("the commit is let go", || !self.0.holds.load(SeqCst));
        if fails(&self.0.commits_to_fail) {
            return Err(Error::msg("broker away"));
        }
        let (durable, mut committed) = (self.0.durable.lock(), self.0.committed.lock());
        self.0.order.lock().extend(committable.first());
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

/// Tries again at once.
fn policy(retries: u32) -> CommitPolicy {
    CommitPolicy { retries, first_pause: Duration::ZERO, ..CommitPolicy::default() }
}

fn open(sink: &Recorder, retries: u32, restored: Option<OperatorSubtaskState>) -> Result<Subtask> {
    let mut operator = SinkOperator::new(Arc::new(sink.clone()), policy(retries));
    operator.open(&mut context(restored))?;
    Ok(operator)
}

fn context(restored: Option<OperatorSubtaskState>) -> OpenContext {
    let context = OpenContext::for_test("sink", 0, 1);
    match restored {
        Some(state) => context.restored_for_test(2, CheckpointId(9), state),
        None => context,
    }
}

/// Waits until nothing is under way any more, or a commit has failed for good.
fn settle(operator: &mut Subtask) -> Result<()> {
    let mut result = Ok(None);
    wait_for("the commits come to their end", || {
        result = operator.commits_under_way();
        !matches!(result, Ok(Some(_)))
    });
    result.map(drop)
}

fn complete(operator: &mut Subtask, id: u64) -> Result<()> {
    operator.checkpoint_complete(CheckpointId(id))?;
    settle(operator)
}

/// The state of a sink that has prepared these and committed nothing.
fn prepared(sink: &Recorder, numbers: &[u64]) -> OperatorSubtaskState {
    let mut operator = open(sink, 0, None).unwrap();
    let mut state = OperatorSubtaskState::default();
    for n in numbers {
        write(&mut operator, *n);
        state = prepare(&mut operator, *n)(&store()).unwrap();
    }
    state
}

fn write(operator: &mut Subtask, n: u64) {
    operator.process(0, Batch::new(vec![n]).into(), &mut Output::default()).unwrap();
}

fn prepare(operator: &mut Subtask, id: u64) -> AsyncSnapshot {
    operator.snapshot(CheckpointId(id), SnapshotForm::Checkpoint).unwrap().unwrap()
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
    complete(&mut operator, 2).unwrap();
    assert_eq!(*sink.0.committed.lock(), [1, 2]);

    let again = Recorder::default();
    again.0.durable.lock().extend([1, 2]);
    settle(&mut open(&again, 0, Some(state)).unwrap()).unwrap();
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
    complete(&mut operator, 2).unwrap();
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
    complete(&mut operator, 2).unwrap();
    complete(&mut operator, 1).unwrap();
    assert_eq!(*sink.0.committed.lock(), [1, 2]);
}

#[test]
fn a_commit_is_tried_again_and_its_last_error_is_kept() {
    let sink = Recorder::default();
    let mut operator = open(&sink, 10, None).unwrap();
    write(&mut operator, 1);
    prepare(&mut operator, 1)(&store()).unwrap();
    sink.0.commits_to_fail.store(10, SeqCst);
    complete(&mut operator, 1).unwrap();
    assert_eq!(sink.0.commit_attempts.load(SeqCst), 11);

    write(&mut operator, 2);
    prepare(&mut operator, 2)(&store()).unwrap();
    sink.0.commits_to_fail.store(11, SeqCst);
    let error = complete(&mut operator, 2).unwrap_err().to_string();
    assert!(
        error.contains("checkpoint 2 failed 11 times") && error.contains("sink.committer.retries: 10"),
        "{error}"
    );
    assert!(error.contains("broker away"), "{error}");
    assert_eq!(*sink.0.committed.lock(), [1]);
}

#[test]
fn pauses_grow_until_half_a_minute_has_passed_and_differ_between_subtasks() {
    let policy = CommitPolicy::default();
    let pauses: Vec<_> = (1..=policy.retries).map(|tries| policy.pause(tries, 3)).collect();
    assert!(pauses[0] >= Duration::from_millis(100) && pauses[0] < Duration::from_millis(126), "{pauses:?}");
    assert!(pauses[..7].windows(2).all(|pair| pair[1] > pair[0].mul_f64(1.5)), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause < Duration::from_millis(12_600)), "{pauses:?}");
    assert!(pauses.iter().sum::<Duration>() > Duration::from_secs(40), "{pauses:?}");
    assert_ne!(policy.pause(5, 0), policy.pause(5, 1));
    assert!(policy.pause(u32::MAX, 0) < Duration::from_millis(12_600));
}

#[test]
fn a_worker_does_not_wait_for_a_commit_and_checkpoints_hold_what_is_not_confirmed() {
    let sink = Recorder::default();
    let mut operator = open(&sink, 0, None).unwrap();
    sink.0.holds.store(true, SeqCst);
    for id in 1..=3 {
        write(&mut operator, id);
        prepare(&mut operator, id)(&store()).unwrap();
        operator.checkpoint_complete(CheckpointId(id)).unwrap();
        assert_eq!(operator.commits_under_way().unwrap(), Some(CheckpointId(1)));
    }
    wait_for("the commit begins", || sink.0.under_way.load(SeqCst) == 1);
    write(&mut operator, 4);
    let state = prepare(&mut operator, 4)(&store()).unwrap();
    sink.0.holds.store(false, SeqCst);
    settle(&mut operator).unwrap();
    assert_eq!(
        *sink.0.order.lock(),
        [1, 2, 3],
        "in the order of the checkpoints, and nothing that is not announced"
    );

    let again = Recorder::default();
    again.0.durable.lock().extend([1, 2, 3, 4]);
    settle(&mut open(&again, 0, Some(state)).unwrap()).unwrap();
    assert_eq!(*again.0.order.lock(), [1, 2, 3, 4]);
}

#[test]
fn a_commit_that_fails_holds_up_those_behind_it() {
    let sink = Recorder::default();
    let mut operator = open(&sink, 10, None).unwrap();
    for id in 1..=2 {
        write(&mut operator, id);
        prepare(&mut operator, id)(&store()).unwrap();
    }
    sink.0.commits_to_fail.store(5, SeqCst);
    complete(&mut operator, 2).unwrap();
    assert_eq!(*sink.0.order.lock(), [1, 2]);
    assert_eq!(sink.0.commit_attempts.load(SeqCst), 7);
}

#[test]
fn a_restored_sink_takes_records_only_after_its_commits_and_before_that_aborts_nothing() {
    let sink = Recorder::default();
    let state = prepared(&sink, &[1, 2]);
    assert_eq!(sink.0.recovered.swap(0, SeqCst), 1);
    sink.0.holds.store(true, SeqCst);
    let mut operator = open(&sink, 0, Some(state)).unwrap();
    wait_for("the commit begins", || sink.0.under_way.load(SeqCst) == 1);
    assert!(!operator.ready(&mut Output::default()).unwrap());
    assert_eq!(sink.0.recovered.load(SeqCst), 0);
    let again = prepare(&mut operator, 10)(&store()).unwrap();
    assert!(!again.is_empty(), "a checkpoint meanwhile holds what is not committed");
    sink.0.holds.store(false, SeqCst);
    wait_for("the sink is ready", || operator.ready(&mut Output::default()).unwrap());
    assert_eq!((sink.0.recovered.load(SeqCst), &**sink.0.committed.lock()), (1, &[1, 2][..]));
    write(&mut operator, 3);
}

#[test]
fn a_commit_of_the_last_attempt_has_returned_before_the_next_one_aborts_what_is_left_over() {
    let sink = Recorder::default();
    let make = SinkOperator::factory(Arc::new(sink.clone()), || policy(10));
    let mut first: Subtask = make();
    first.open(&mut context(None)).unwrap();
    write(&mut first, 1);
    prepare(&mut first, 1)(&store()).unwrap();
    sink.0.holds.store(true, SeqCst);
    first.checkpoint_complete(CheckpointId(1)).unwrap();
    wait_for("the commit begins", || sink.0.under_way.load(SeqCst) == 1);
    drop(first);
    sink.0.recovered.store(0, SeqCst);

    let mut second: Subtask = make();
    let mut next = context(None);
    next.generation = 2;
    second.open(&mut next).unwrap();
    assert!(!second.ready(&mut Output::default()).unwrap());
    assert_eq!(sink.0.recovered.load(SeqCst), 0);
    // what fails now is of no interest to anybody: it is not tried again beside the new attempt
    sink.0.commits_to_fail.store(1, SeqCst);
    sink.0.holds.store(false, SeqCst);
    wait_for("the sink is ready", || second.ready(&mut Output::default()).unwrap());
    assert_eq!((sink.0.recovered.load(SeqCst), sink.0.commit_attempts.load(SeqCst)), (1, 1));
}

#[test]
fn a_commit_that_does_not_return_is_an_error_that_says_so() {
    let (sink, clock) = (Recorder::default(), Arc::new(ManualClock::default()));
    let mut operator: Subtask = SinkOperator::new(Arc::new(sink.clone()), policy(10));
    operator.open(&mut context(None).with_clock(clock.clone())).unwrap();
    write(&mut operator, 1);
    prepare(&mut operator, 1)(&store()).unwrap();
    sink.0.holds.store(true, SeqCst);
    operator.checkpoint_complete(CheckpointId(1)).unwrap();
    wait_for("the commit begins", || sink.0.under_way.load(SeqCst) == 1);
    clock.set_ms(600_000);
    assert_eq!(operator.commits_under_way().unwrap(), Some(CheckpointId(1)));
    clock.set_ms(900_000);
    let error = operator.commits_under_way().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let text = error.to_string();
    assert!(
        text.contains("checkpoint 1") && text.contains("stillstream.sink.commit-timeout: 600 s"),
        "{text}"
    );
    sink.0.holds.store(false, SeqCst);
}

#[test]
fn a_commit_that_panics_or_can_never_succeed_is_not_tried_again() {
    for panics in [true, false] {
        let calls = Arc::new(AtomicU32::new(0));
        let sink = Hopeless { panics, calls: calls.clone() };
        let mut operator: SinkOperator<u64, Hopeless> = SinkOperator::new(Arc::new(sink), policy(10));
        operator.open(&mut context(None)).unwrap();
        operator.snapshot(CheckpointId(1), SnapshotForm::Checkpoint).unwrap().unwrap()(&store()).unwrap();
        operator.checkpoint_complete(CheckpointId(1)).unwrap();
        let mut result = Ok(None);
        wait_for("the commit fails", || {
            result = operator.commits_under_way();
            result.is_err()
        });
        let error = result.unwrap_err().to_string();
        assert!(error.contains("failed once") && error.contains("for ever"), "{error}");
        assert_eq!(calls.load(SeqCst), 1);
    }
}

struct Hopeless {
    panics: bool,
    calls: Arc<AtomicU32>,
}

impl Sink<u64> for Hopeless {
    type Committable = u64;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>> {
        Ok(Box::new(Nothing))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<u64>>> {
        let (panics, calls) = (self.panics, self.calls.clone());
        Ok(Box::new(move |_: &u64| {
            calls.fetch_add(1, SeqCst);
            assert!(!panics, "gone for ever");
            Err(Error::new(ErrorKind::CorruptSnapshot, "gone for ever"))
        }))
    }
}

struct Nothing;

impl SinkWriter<u64, u64> for Nothing {
    fn write(&mut self, _: Batch<u64>) -> Result<()> {
        Ok(())
    }
    fn prepare(&mut self, id: CheckpointId) -> Result<Option<Prepared<u64>>> {
        Ok(Some(Prepared::done(id.0)))
    }
}

#[test]
fn without_checkpoints_a_sink_ends_when_its_only_commit_is_through() {
    let sink = Recorder::default();
    let mut operator = SinkOperator::new(Arc::new(sink.clone()), policy(3));
    let mut context = context(None);
    context.checkpointing = false;
    operator.open(&mut context).unwrap();
    write(&mut operator, 1);
    sink.0.disk_full.store(1, SeqCst);
    sink.0.commits_to_fail.store(1, SeqCst);
    sink.0.holds.store(true, SeqCst);
    operator.finish().unwrap();
    assert!(operator.commits_under_way().unwrap().is_some());
    sink.0.holds.store(false, SeqCst);
    settle(&mut operator).unwrap();
    assert_eq!(*sink.0.committed.lock(), [1]);
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

/// A writer that closes a transaction at each barrier, whether or not there is something in it.
struct Always;

impl Sink<u64> for Always {
    type Committable = u64;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>> {
        Ok(Box::new(Nothing))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<u64>>> {
        Ok(Box::new(|_: &u64| Ok(())))
    }
}

#[test]
fn a_sink_that_closes_an_empty_transaction_at_its_end_has_lost_nothing() {
    let mut operator: SinkOperator<u64, _> = SinkOperator::new(Arc::new(Always), policy(0));
    operator.open(&mut context(None)).unwrap();
    let mut output = Output::default();
    operator.process(0, Batch::new(vec![1u64]).into(), &mut output).unwrap();
    operator.snapshot(CheckpointId(1), SnapshotForm::Checkpoint).unwrap();
    operator.checkpoint_complete(CheckpointId(1)).unwrap();
    wait_for("the commit is through", || operator.commits_under_way().unwrap().is_none());
    operator.finish().unwrap();
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
    let mut operator: SinkOperator<u64, _> = SinkOperator::new(Arc::new(sink), policy(0));
    operator.open(&mut OpenContext::for_test("plain", 0, 1)).unwrap();
    assert!(operator.snapshot(CheckpointId(1), SnapshotForm::Checkpoint).unwrap().is_none());
    assert_eq!(flushes.load(SeqCst), 1);
    operator.finish().unwrap();
    assert_eq!(flushes.load(SeqCst), 2);
}
