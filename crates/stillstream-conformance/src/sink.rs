//! The suite of sinks: a small job with every crash that it can have.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stillstream_runtime::clock::{Clock, SystemClock};
use stillstream_runtime::connect::{CommitPolicy, Committer, Sink, SinkContext, SinkOperator, SinkWriter};
use stillstream_runtime::testing::redistribute;
use stillstream_runtime::{AsyncSnapshot, Batch, OpenContext, Operator, Output};
use stillstream_state::{Data, MemorySnapshotStore};
use stillstream_types::{CheckpointId, Error, OperatorSubtaskState, Result, SnapshotForm};

/// Where a sink writes to, as the suite sees it.
pub trait SinkTarget {
    /// What is written.
    type Item: Data + Ord + Debug;
    /// The sink.
    type Sink: Sink<Self::Item>;
    /// A sink that writes to this target.
    fn sink(&self) -> Self::Sink;
    /// Record number `n`; different for each number.
    fn item(&self, n: u64) -> Self::Item;
    /// What a reader sees who only sees committed records.
    fn committed(&self) -> Vec<Self::Item>;
    /// What is left of transactions that were not committed; empty after the end of a job.
    fn left_overs(&self) -> Vec<String>;
    /// Waits until the target has got all of `count` records that were written, whether they are committed or
    /// not, if the sink writes in the background. The suite asks for it when it lets a process die that
    /// cannot clean up after itself: it has but one process, and what a dead one had on its way is gone with
    /// it.
    fn await_written(&self, count: u64) {
        let _ = count;
    }
}

/// Records that are written before each checkpoint: also none at all, twice in a row, and at the end.
const ROUNDS: [u64; 6] = [5, 0, 0, 9, 1, 0];

/// A sink that takes this long for a commit has failed.
const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until something is the case; a target that takes its time is not disturbed meanwhile.
fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let clock = SystemClock::default();
    let mut looks = 0u32;
    while !is_so()? {
        assert!(clock.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        looks += 1;
        match looks {
            0..1000 => std::thread::yield_now(),
            _ => std::thread::park_timeout(Duration::from_millis(1)),
        }
    }
    Ok(())
}

/// Waits until everything that was announced is committed. What a crash leaves undone is then known: commits
/// run in a thread of their own, and without this the suite would not be the same twice.
fn await_commits(subtask: &mut impl Operator) -> Result<()> {
    wait_until("commits come to their end", || Ok(subtask.commits_under_way()?.is_none()))
}

/// Waits until a subtask takes records, as the runtime does before each batch.
fn await_ready(subtask: &mut impl Operator) -> Result<()> {
    wait_until("the sink takes records", || subtask.ready(&mut Output::default()))
}

/// One try, so that every error is seen.
fn policy() -> CommitPolicy {
    CommitPolicy { retries: 0, ..CommitPolicy::default() }
}

/// What goes wrong in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    /// Nothing but the crash.
    Crash,
    /// The job is opened after the crash, and crashes again at once.
    CrashTwice,
    /// Writers get no chance to clean up after themselves.
    HardCrash,
    /// Each second checkpoint is aborted before its asynchronous part has run.
    Aborts,
    /// Each second notice of a completed checkpoint is lost.
    LostNotices,
}

/// What a commit says that has happened, where its target misreports.
const MISREPORTED: &str = "the connection was lost before the answer came";

/// A sink whose target commits and reports a failure, the first time for each transaction, if it misreports.
struct Reported<K> {
    sink: K,
    /// The transactions of which that was said.
    misreported: Option<Arc<Mutex<BTreeSet<Vec<u8>>>>>,
}

impl<T: Data, K: Sink<T>> Sink<T> for Reported<K> {
    type Committable = K::Committable;

    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<T, K::Committable>>> {
        self.sink.writer(context)
    }

    fn committer(&self, context: &SinkContext) -> Result<Box<dyn Committer<K::Committable>>> {
        let mut committer = self.sink.committer(context)?;
        let Some(misreported) = self.misreported.clone() else { return Ok(committer) };
        Ok(Box::new(move |committable: &K::Committable| {
            committer.commit(committable)?;
            let mut bytes = Vec::new();
            committable.encode(&mut bytes);
            match misreported.lock().is_ok_and(|mut said| said.insert(bytes)) {
                true => Err(Error::msg(MISREPORTED)),
                false => Ok(()),
            }
        }))
    }
}

struct Job<'a, T: SinkTarget> {
    target: &'a T,
    sink: Arc<Reported<T::Sink>>,
    trouble: Trouble,
    generation: u64,
    next_checkpoint: u64,
    /// The newest completed checkpoint: its id, the state, and how many rounds it covers.
    completed: Option<(u64, Vec<OperatorSubtaskState>, usize)>,
    steps_left: usize,
    /// Records that the sink has taken, in all attempts.
    written: u64,
}

enum End {
    Crashed,
    Finished,
}

type Subtask<T> = SinkOperator<<T as SinkTarget>::Item, Reported<<T as SinkTarget>::Sink>>;

impl<T: SinkTarget> Job<'_, T> {
    /// Whether the job is to crash here.
    fn crashes(&mut self) -> bool {
        self.steps_left = self.steps_left.saturating_sub(1);
        self.steps_left == 0
    }

    fn open(&mut self, parallelism: usize) -> Result<Vec<Subtask<T>>> {
        self.generation += 1;
        let restored =
            self.completed.as_ref().map(|(id, states, _)| (*id, redistribute(states, parallelism)));
        let mut subtasks = Vec::new();
        for subtask in 0..parallelism {
            let mut context = OpenContext::for_test("sink", subtask as u32, parallelism as u32);
            context.generation = self.generation;
            if let Some((id, states)) = &restored {
                context =
                    context.restored_for_test(self.generation, CheckpointId(*id), states[subtask].clone());
            }
            let mut operator = SinkOperator::new(self.sink.clone(), policy());
            operator.open(&mut context)?;
            subtasks.push(operator);
        }
        subtasks.iter_mut().try_for_each(await_commits)?;
        Ok(subtasks)
    }

    /// Runs to the end, or to the crash.
    fn attempt(&mut self, parallelism: usize) -> Result<End> {
        let mut subtasks = self.open(parallelism)?;
        let end = self.run(&mut subtasks)?;
        if matches!(end, End::Crashed) && self.trouble == Trouble::HardCrash {
            self.target.await_written(self.written);
            std::mem::forget(subtasks);
        }
        Ok(end)
    }

    fn run(&mut self, subtasks: &mut [Subtask<T>]) -> Result<End> {
        let first = self.completed.as_ref().map_or(0, |(_, _, rounds)| *rounds);
        for round in first..ROUNDS.len() {
            let begin: u64 = ROUNDS[..round].iter().sum();
            for n in begin..begin + ROUNDS[round] {
                let subtask = n as usize % subtasks.len();
                let batch = Batch::new(vec![self.target.item(n)]);
                await_ready(&mut subtasks[subtask])?;
                subtasks[subtask].process(0, batch.into(), &mut Output::default())?;
                self.written += 1;
            }
            if self.crashes() {
                return Ok(End::Crashed);
            }
            self.next_checkpoint += 1;
            let id = CheckpointId(self.next_checkpoint);
            let last = round + 1 == ROUNDS.len();
            let abort = self.trouble == Trouble::Aborts && round % 2 == 0 && !last;
            let lose = self.trouble == Trouble::LostNotices && round % 2 == 0 && !last;
            if self.checkpoint(id, round + 1, abort, lose, subtasks)? {
                return Ok(End::Crashed);
            }
        }
        subtasks.iter_mut().try_for_each(|subtask| subtask.finish())?;
        Ok(End::Finished)
    }

    /// One checkpoint; returns whether the job crashed in it.
    fn checkpoint(
        &mut self,
        id: CheckpointId,
        rounds: usize,
        abort: bool,
        lose: bool,
        subtasks: &mut [Subtask<T>],
    ) -> Result<bool> {
        let mut parts: Vec<Option<AsyncSnapshot>> = Vec::new();
        for subtask in subtasks.iter_mut() {
            parts.push(subtask.snapshot(id, SnapshotForm::Checkpoint)?);
            if self.crashes() {
                return Ok(true);
            }
        }
        if abort {
            drop(parts);
            subtasks.iter_mut().try_for_each(|subtask| subtask.checkpoint_aborted(id))?;
            return Ok(self.crashes());
        }
        let (store, mut states) = (MemorySnapshotStore::default(), Vec::new());
        for part in parts {
            states.push(part.map_or_else(|| Ok(OperatorSubtaskState::default()), |part| part(&store))?);
            if self.crashes() {
                return Ok(true);
            }
        }
        self.completed = Some((id.0, states, rounds));
        if self.crashes() {
            return Ok(true);
        }
        for subtask in subtasks.iter_mut().filter(|_| !lose) {
            subtask.checkpoint_complete(id)?;
            await_commits(subtask)?;
            if self.crashes() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Runs a small job on fresh targets, with a crash at every point in turn: between any two calls of any
/// subtask. After the crash it goes on from its last completed checkpoint, with the same or another
/// parallelism. Some of its checkpoints are empty, aborted, or completed without a notice; and in one run
/// every commit happens and is reported as failed.
///
/// # Panics
/// If committed records are not each of those written, once; if something is seen before its checkpoint is
/// complete; or if something is left over at the end.
pub fn sink<T: SinkTarget>(fresh: impl Fn() -> T) {
    sink_at_every(1, fresh);
}

/// As [`sink`], with a crash at every `nth` point only, beginning with another one for each kind of trouble:
/// for targets that take their time.
///
/// # Panics
/// As [`sink`].
pub fn sink_at_every<T: SinkTarget>(nth: usize, fresh: impl Fn() -> T) {
    fresh().sink().validate().expect("the sink is valid");
    let troubles =
        [Trouble::Crash, Trouble::CrashTwice, Trouble::HardCrash, Trouble::Aborts, Trouble::LostNotices];
    let mut first = 0;
    for trouble in troubles {
        for (before, after) in [(1, 1), (2, 3), (3, 1)] {
            let mut crash_at = 1 + first % nth;
            first += 1;
            while crashing_run(&fresh(), trouble, before, after, crash_at) {
                crash_at += nth;
            }
            assert!(crash_at > 12, "the job had {crash_at} points to crash at, which is too few");
        }
    }
    misreported_commits(&fresh());
    without_checkpoints(&fresh());
}

/// Returns whether there was a crash.
fn crashing_run<T: SinkTarget>(
    target: &T,
    trouble: Trouble,
    before: usize,
    after: usize,
    crash_at: usize,
) -> bool {
    let when = || format!("{trouble:?} at step {crash_at}, parallelism {before} and then {after}");
    let fail = |error: stillstream_types::Error| -> End { panic!("{}: {error}", when()) };
    let sink = Arc::new(Reported { sink: target.sink(), misreported: None });
    let (generation, next_checkpoint, completed) = (0, 0, None);
    let (steps_left, written) = (crash_at, 0);
    let mut job = Job { target, sink, trouble, generation, next_checkpoint, completed, steps_left, written };
    let crashed = matches!(job.attempt(before).unwrap_or_else(fail), End::Crashed);
    let covered: u64 = ROUNDS[..job.completed.as_ref().map_or(0, |(_, _, rounds)| *rounds)].iter().sum();
    let seen = target.committed().len() as u64;
    assert!(seen <= covered, "{}: {seen} records are seen, checkpoints cover {covered}", when());
    if crashed {
        job.steps_left = usize::MAX;
        if trouble == Trouble::CrashTwice {
            drop(job.open(after).map_err(|error| panic!("{}: {error}", when())));
        }
        job.attempt(after).unwrap_or_else(fail);
    }
    let (mut found, mut expected) = (target.committed(), items(target));
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{}", when());
    drop(job);
    assert_eq!(target.left_overs(), Vec::<String>::new(), "{}", when());
    crashed
}

/// Each commit happens, is reported as failed, and fails the job, which goes on with another parallelism and
/// commits once more.
fn misreported_commits<T: SinkTarget>(target: &T) {
    let misreported = Arc::new(Mutex::new(BTreeSet::new()));
    let sink = Arc::new(Reported { sink: target.sink(), misreported: Some(misreported.clone()) });
    let (generation, next_checkpoint, completed, written) = (0, 0, None, 0);
    let (trouble, steps_left) = (Trouble::Crash, usize::MAX);
    let mut job = Job { target, sink, trouble, generation, next_checkpoint, completed, steps_left, written };
    let mut attempts = 0;
    while let Err(error) = job.attempt([2, 3, 1][attempts % 3]) {
        assert!(error.to_string().contains(MISREPORTED), "commits that are reported as failed: {error}");
        attempts += 1;
        assert!(attempts < 100, "the job does not end");
    }
    let said = misreported.lock().map_or(0, |said| said.len());
    assert!(attempts > 0 || said == 0, "a commit that fails fails the job");
    let (mut found, mut expected) = (target.committed(), items(target));
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "commits that happened and were reported as failed");
    drop(job);
    assert_eq!(target.left_overs(), Vec::<String>::new(), "commits that were reported as failed");
}

fn items<T: SinkTarget>(target: &T) -> Vec<T::Item> {
    (0..ROUNDS.iter().sum()).map(|n| target.item(n)).collect()
}

/// A job without checkpoints commits everything at its end, and nothing before.
fn without_checkpoints<T: SinkTarget>(target: &T) {
    let mut context = OpenContext::for_test("sink", 0, 1);
    context.checkpointing = false;
    let mut operator = SinkOperator::new(Arc::new(target.sink()), policy());
    let mut run = || -> Result<()> {
        operator.open(&mut context)?;
        await_ready(&mut operator)?;
        operator.process(0, Batch::new(items(target)).into(), &mut Output::default())?;
        assert_eq!(target.committed(), [], "nothing is seen before the end");
        operator.finish()?;
        await_commits(&mut operator)
    };
    run().unwrap_or_else(|error| panic!("without checkpoints: {error}"));
    let (mut found, mut expected) = (target.committed(), items(target));
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "without checkpoints");
    drop(operator);
    assert_eq!(target.left_overs(), Vec::<String>::new(), "without checkpoints");
}
