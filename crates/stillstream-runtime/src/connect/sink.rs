//! A sink that takes part in checkpoints by two-phase commit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stillstream_state::Data;
use stillstream_types::file_access::FileAccess;
use stillstream_types::{CheckpointId, JobId, OperatorId, Result, SubtaskIndex};

use crate::clock::Clock;
use crate::metrics::Counters;
use crate::operator::OpenContext;
use crate::operator::batch::Batch;
use crate::waker::Waker;

/// What a job without checkpoints calls its only transaction: above every checkpoint, so that what a crash
/// leaves of it is never taken for part of one.
pub(crate) const NO_CHECKPOINT: CheckpointId = CheckpointId(u64::MAX);

/// How a commit that fails is tried again before the job fails.
///
/// ```
/// use std::time::Duration;
/// use stillstream_runtime::connect::CommitPolicy;
/// let policy = CommitPolicy::default();
/// let pauses: Duration = (1..=policy.retries).map(|tries| policy.pause(tries, 0)).sum();
/// assert!(pauses > Duration::from_secs(40), "half a minute away costs a delay and no more");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitPolicy {
    /// How often it is tried again: `sink.committer.retries`.
    pub retries: u32,
    /// For how long it is tried at most: `stillstream.sink.commit-timeout`.
    pub timeout: Duration,
    /// The pause before the first new try. Each one is twice as long as the one before it.
    pub first_pause: Duration,
    /// No pause is longer, up to a quarter that is added so that not all subtasks come back at once.
    pub longest_pause: Duration,
}

impl Default for CommitPolicy {
    fn default() -> Self {
        Self {
            retries: 10,
            timeout: Duration::from_secs(600),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(10),
        }
    }
}

impl CommitPolicy {
    /// The pause after so many tries have failed. `spread` may be any number that differs between those who
    /// should not come back at the same moment.
    pub fn pause(&self, tries: u32, spread: u64) -> Duration {
        let doubled = 2u32.saturating_pow(tries.saturating_sub(1));
        let pause = self.first_pause.saturating_mul(doubled).min(self.longest_pause);
        let mixed = (spread ^ u64::from(tries) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        pause + pause.mul_f64(mixed as f64 / 1024.0)
    }
}

/// The description of a sink; one per program, used in every process. After Flink's Sink V2, in one operator.
///
/// At barrier n the writer *prepares* what it has written since the last one: from then on it can be
/// committed, also by another process, with nothing but the *committable*, which goes into checkpoint n. When
/// n is complete the committable is committed; after a restore it is committed again, as nobody knows whether
/// the first time succeeded. So [`commit`](Committer::commit) must take "already committed" for success.
///
/// Writing is the worker's, and must not wait. Committing has a thread of its own, and may: a target that is
/// away for a while costs a delay. Meanwhile checkpoints go on, and each holds what is not committed yet.
pub trait Sink<T: Data>: Send + Sync + 'static {
    /// What is needed to commit. `()` for a sink that has nothing to commit.
    type Committable: Data;

    /// Makes the writer of one subtask.
    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<T, Self::Committable>>>;

    /// Makes what commits for one subtask. A closure will do: `Ok(Box::new(|committable: &Id| ..))`. Called
    /// before [`writer`](Self::writer).
    fn committer(&self, context: &SinkContext) -> Result<Box<dyn Committer<Self::Committable>>>;

    /// Checks before the job starts that the target is there and can be written.
    fn validate(&self) -> Result<()> {
        Ok(())
    }

    /// As [`validate`](Self::validate), which it calls if not said otherwise: for a sink whose target must
    /// fit the job's checkpoints.
    fn validate_for(&self, job: &JobOutline) -> Result<()> {
        let _ = job;
        self.validate()
    }
}

/// What a sink may know of its job before that starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOutline {
    /// The job's name.
    pub name: String,
    /// How often a checkpoint is taken (`execution.checkpointing.interval`); `None`: never.
    pub checkpoint_interval: Option<Duration>,
    /// How long one may take (`execution.checkpointing.timeout`).
    pub checkpoint_timeout: Duration,
}

/// Makes a pre-committed transaction durable; see [`Prepared`].
pub type MakeDurable = Box<dyn FnMut() -> Result<()> + Send>;

/// A transaction that is closed for writing.
pub struct Prepared<C> {
    /// What is needed to commit it.
    pub committable: C,
    /// What must still be done (flush, fsync, rename) before it may be called pre-committed. Runs on the
    /// snapshot pool, before the checkpoint is acknowledged; its error declines the checkpoint and not the
    /// job. It then runs again for the next checkpoint, which takes this transaction along: it must be
    /// repeatable.
    pub make_durable: Option<MakeDurable>,
}

impl<C> Prepared<C> {
    /// A transaction that is pre-committed as it stands.
    pub fn done(committable: C) -> Self {
        Self { committable, make_durable: None }
    }
}

impl<C: fmt::Debug> fmt::Debug for Prepared<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("committable", &self.committable)
            .field("make_durable", &self.make_durable.is_some())
            .finish()
    }
}

/// Commits for one subtask, in a thread of its own: a call may wait for its target.
pub trait Committer<C>: Send + 'static {
    /// Commits; a transaction that is committed already is a success. Transactions come in the order of their
    /// checkpoints, and the next one only after this one has succeeded.
    ///
    /// # Errors
    /// An error is tried again after a pause that grows ([`CommitPolicy`]); then it fails the job, which
    /// commits again after its restart. One that no new try can mend
    /// ([`Error::is_fatal`](stillstream_types::Error::is_fatal)) fails it at once.
    fn commit(&mut self, committable: &C) -> Result<()>;
}

impl<C, F: FnMut(&C) -> Result<()> + Send + 'static> Committer<C> for F {
    fn commit(&mut self, committable: &C) -> Result<()> {
        self(committable)
    }
}

/// The writer of one subtask. All calls are made on a worker thread.
///
/// Order: `recovered` once all restored committables are committed, then any mix of the others, `finished`
/// last. Without checkpointing `prepare` is called once, at the end.
pub trait SinkWriter<T, C>: 'static {
    /// Writes a batch. Must not wait: a writer whose client is busy says so in [`ready`](Self::ready).
    fn write(&mut self, batch: Batch<T>) -> Result<()>;

    /// Whether the writer takes a batch now. One that says no wakes its operator by [`SinkContext::waker`].
    fn ready(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Pre-commit, the synchronous part: closes the current transaction; `None` if nothing was written since
    /// the last. Later writes belong to the next checkpoint.
    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<C>>>;

    /// All committables that were restored have been committed, by this subtask as far as they are its own,
    /// and no commit of an earlier attempt in this process is under way: aborts what earlier attempts left
    /// behind. Other subtasks may not have committed theirs yet, so what was prepared for checkpoint
    /// `restored` or an earlier one must stay; `None` on a fresh start.
    fn recovered(&mut self, restored: Option<CheckpointId>) -> Result<()> {
        let _ = restored;
        Ok(())
    }

    /// The job has finished: everything is committed and that is recorded, so no commit will be asked for
    /// again. What was kept to recognise one may go.
    fn finished(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What a writer is told when it is made.
#[derive(Clone)]
pub struct SinkContext {
    /// The sink's name, for messages and counters.
    pub name: Arc<str>,
    /// The identity of its state.
    pub operator: OperatorId,
    /// Which parallel instance this is.
    pub subtask: SubtaskIndex,
    /// How many there are.
    pub parallelism: u32,
    /// The job: two jobs that write to one place are told apart by it.
    pub job: JobId,
    /// Where the job's checkpoints are kept, as the job was told; empty if they are kept nowhere. Two jobs of
    /// one name are told apart by it.
    pub checkpoint_storage: Arc<str>,
    /// Who may read the files that the sink makes.
    pub file_access: FileAccess,
    /// Grows with every attempt to run the job: makes names of transactions and temporary files unique.
    pub generation: u64,
    /// Whether the job takes checkpoints; without them everything is committed at the end.
    pub checkpointing: bool,
    /// The checkpoint that the job was restored from.
    pub restored_checkpoint: Option<CheckpointId>,
    /// Processing time.
    pub clock: Arc<dyn Clock>,
    /// Schedules the sink from any thread, after it said that it is not ready.
    pub waker: Waker,
    /// Counts by name.
    pub counters: Arc<Counters>,
}

impl SinkContext {
    pub(crate) fn of(context: &OpenContext) -> Self {
        Self {
            name: context.name.clone(),
            operator: context.operator,
            subtask: context.subtask,
            parallelism: context.parallelism,
            job: context.job,
            checkpoint_storage: context.checkpoint_storage.clone(),
            file_access: context.file_access,
            generation: context.generation,
            checkpointing: context.checkpointing,
            restored_checkpoint: context.restored_checkpoint,
            clock: context.clock.clone(),
            waker: context.waker.clone(),
            counters: context.counters.clone(),
        }
    }

    /// A context of generation 1 with checkpointing, a clock that stands still at 0 and a waker that wakes
    /// nobody: to try a writer by hand.
    pub fn for_test(name: &str, subtask: u32, parallelism: u32) -> Self {
        Self {
            name: name.into(),
            operator: OperatorId::from_uid(name),
            subtask: SubtaskIndex(subtask),
            parallelism,
            job: JobId::from_name("by hand"),
            checkpoint_storage: "".into(),
            file_access: FileAccess::default(),
            generation: 1,
            checkpointing: true,
            restored_checkpoint: None,
            clock: Arc::new(crate::clock::ManualClock::default()),
            waker: Waker::idle(),
            counters: Arc::default(),
        }
    }
}

impl fmt::Debug for SinkContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SinkContext({} {}/{}, generation {})",
            self.name, self.subtask, self.parallelism, self.generation
        )
    }
}
