//! What an operator is to the runtime: batches in, batches out, a snapshot at each barrier.
//!
//! An operator instance lives on one worker thread. It never blocks on input or output, takes its time from
//! the [`OpenContext`] and returns errors; a panic is caught by the driver and named.
//!
//! | module | what is inside |
//! |---|---|
//! | [`batch`] | what travels on edges |
//! | [`enumeration`] | what finds the splits of a source and deals them out |
//! | [`event_time`] | watermarks and idleness, which travel between the records of a batch |
//! | `record_type` | which type of records an operator has taken, for messages |
//! | `testing` | drives one operator by hand |

pub mod batch;
pub mod enumeration;
pub mod event_time;
pub(crate) mod record_type;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use stillstream_types::PendingTimers;
use stillstream_types::file_access::FileAccess;
use stillstream_types::{
    CheckpointId, Error, ErrorKind, JobId, KeyGroupRange, KeyGroups, OperatorId, OperatorSubtaskState,
    Result, SnapshotForm, SubtaskIndex, Timestamp, streams::SnapshotStore,
};

use crate::backends::StateBackends;
use crate::clock::Clock;
use crate::flow::watermark_groups::WatermarkGroups;
use crate::operator::batch::AnyBatch;
use crate::waker::Waker;

/// What an operator emits, in order.
#[derive(Debug)]
pub enum Emission {
    /// Records of the main output.
    Batch(AnyBatch),
    /// Records of a side output.
    Side(u32, AnyBatch),
    /// No record with an earlier time follows.
    Watermark(Timestamp),
    /// Nothing is expected for now (`true`), or something is again.
    Idle(bool),
    /// What a source tells of its splits, to the operator behind it in its chain and to nobody else.
    Split(SplitEvent),
}

/// What a source tells of its splits, so that each has a watermark of its own. Splits go by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SplitEvent {
    /// From here on the source tells of its splits: one that has none does not hold event time back.
    Told,
    /// The split is being read.
    Opened(u32),
    /// The records that follow come from this split.
    From(u32),
    /// The split has been read through.
    Ended(u32),
    /// The source has read all splits that it has, and waits for others; or it has got some.
    Waits(bool),
}

/// Takes what an operator emits during one call.
#[derive(Debug)]
pub struct Output {
    pub(crate) emitted: VecDeque<Emission>,
    pub(crate) room: usize,
}

impl Default for Output {
    fn default() -> Self {
        Self { emitted: VecDeque::new(), room: usize::MAX }
    }
}

impl Output {
    /// How many timers or results one call of [`Operator::resume`] or [`Operator::processing_time`] should do
    /// at most: few where the last ones took long, since what is emitted is sent after the call.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Emits a batch into the main output. An empty one is dropped.
    pub fn batch(&mut self, batch: impl Into<AnyBatch>) {
        let batch = batch.into();
        if !batch.is_empty() {
            self.emitted.push_back(Emission::Batch(batch));
        }
    }

    /// Emits a batch into side output `side` (the operator's own numbering, as declared in the plan).
    pub fn side(&mut self, side: u32, batch: impl Into<AnyBatch>) {
        let batch = batch.into();
        if !batch.is_empty() {
            self.emitted.push_back(Emission::Side(side, batch));
        }
    }

    /// Says that no record with an earlier time follows. Watermarks that do not advance are ignored
    /// downstream.
    pub fn watermark(&mut self, watermark: Timestamp) {
        self.emitted.push_back(Emission::Watermark(watermark));
    }

    /// Says that nothing is expected for now, so that nobody waits for this stream's watermark; or that
    /// records may come again. What has been said already is not repeated downstream.
    pub fn idle(&mut self, idle: bool) {
        self.emitted.push_back(Emission::Idle(idle));
    }

    /// Tells of a split; see [`SplitEvent`].
    pub fn split(&mut self, event: SplitEvent) {
        self.emitted.push_back(Emission::Split(event));
    }

    /// Takes out what was emitted so far: for tests that drive an operator by hand.
    pub fn drain(&mut self) -> impl Iterator<Item = Emission> + '_ {
        self.emitted.drain(..)
    }
}

/// The asynchronous part of a snapshot: runs on the snapshot pool, writes, and says where the state lies.
pub type AsyncSnapshot = Box<dyn FnOnce(&dyn SnapshotStore) -> Result<OperatorSubtaskState> + Send>;

/// One parallel instance of an operator.
///
/// All methods run on the worker's thread, one at a time. Order within a subtask: `open`, then any mix of the
/// others; `snapshot` only between batches, when nothing of an older epoch is left.
pub trait Operator: 'static {
    /// Sets the operator up and restores its state. Called once, before anything else.
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Processes a batch from logical input `port`.
    fn process(&mut self, port: usize, batch: AnyBatch, out: &mut Output) -> Result<()>;

    /// Event time has reached `watermark` on all inputs; `Timestamp::MAX` is their end. Calls come in order
    /// with those of [`process`](Self::process): every record before a call came before that watermark. An
    /// operator passes it on when everything that it causes has been emitted: at once (the default), or at
    /// the end of a sliced emission in [`resume`](Self::resume).
    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        out.watermark(watermark);
        Ok(())
    }

    /// All inputs are idle (`true`), or one is active again. An operator passes it on.
    fn idle(&mut self, idle: bool, out: &mut Output) -> Result<()> {
        out.idle(idle);
        Ok(())
    }

    /// The source in front of this operator, in the same chain, tells of its splits.
    fn split(&mut self, event: SplitEvent, out: &mut Output) -> Result<()> {
        let _ = (event, out);
        Ok(())
    }

    /// Whether the source in front of this operator, in the same chain, should wait: it is too far ahead of
    /// others in its [group](crate::flow::watermark_groups). It then is not asked for records; barriers go
    /// on.
    fn is_ahead(&mut self) -> bool {
        false
    }

    /// The splits of that source, of several, that alone are too far ahead: the source is asked to leave them
    /// out for now.
    fn splits_ahead(&mut self, splits: &mut Vec<u32>) {
        let _ = splits;
    }

    /// The input has ended. Called before [`watermark`](Self::watermark) with the end of event time, again
    /// and again until it returns `None`, so that an operator can see to timers of processing time that are
    /// still set. It says when it wants to be called again: a moment that has passed means at once. Such
    /// timers fire here or not at all.
    fn end_of_input(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        let _ = (now_ms, out);
        Ok(None)
    }

    /// Goes on with a long emission (a window that fires, a burst of timers); called until it returns
    /// `false`, and only while the edges that the output can reach have room. One call emits at most a few
    /// thousand records.
    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        let _ = out;
        Ok(false)
    }

    /// Whether the operator takes a batch now. One that says no must wake itself through its [`Waker`]. It
    /// may emit what it has waited for.
    fn ready(&mut self, out: &mut Output) -> Result<bool> {
        let _ = out;
        Ok(true)
    }

    /// Processing time is `now_ms`: fires what is due, and returns when to be called next. `None`: never
    /// again.
    fn processing_time(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        let _ = (now_ms, out);
        Ok(None)
    }

    /// The synchronous part of checkpoint or savepoint `id`; returns the asynchronous part, or `None` if
    /// there is no state. `form` matters to keyed state only.
    fn snapshot(&mut self, id: CheckpointId, form: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        let _ = (id, form);
        Ok(None)
    }

    /// Checkpoint `id` is complete. Notices can be lost: this one stands for all earlier ones too.
    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        let _ = id;
        Ok(())
    }

    /// Checkpoint `id` was aborted.
    fn checkpoint_aborted(&mut self, id: CheckpointId) -> Result<()> {
        let _ = id;
        Ok(())
    }

    /// The oldest checkpoint that was announced as complete and whose commits are still under way; `None` if
    /// everything that was announced is done, and so is what [`finish`](Self::finish) began. Asked whenever
    /// the operator was scheduled, so one that commits elsewhere wakes itself when that is done.
    ///
    /// # Errors
    /// If a commit has failed for good.
    fn commits_under_way(&mut self) -> Result<Option<CheckpointId>> {
        Ok(None)
    }

    /// All input is through and, with checkpointing, the final checkpoint is complete and confirmed. Without
    /// checkpointing a sink begins here to commit what it holds; it is done when
    /// [`commits_under_way`](Self::commits_under_way) says so.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What a source says when asked for records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceStatus {
    /// There may be more at once.
    More,
    /// Nothing now. The source wakes the operator through its [`Waker`], or wants to be asked again at this
    /// processing time.
    Idle {
        /// Milliseconds since 1970; `None` to wait for the waker.
        until_ms: Option<i64>,
    },
    /// There will never be more.
    Ended,
}

/// One parallel instance of a source.
pub trait Source: 'static {
    /// Sets the source up and restores its position. Called once, before anything else.
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Emits up to about `max_records` records, without blocking.
    fn poll(&mut self, max_records: usize, out: &mut Output) -> Result<SourceStatus>;

    /// Takes splits, in their binary form, beside those that it has. `answers`: this answers the source's
    /// wish for splits, also if there are none. `no_more`: no others will come.
    fn assign(&mut self, splits: &[&[u8]], answers: bool, no_more: bool) -> Result<()> {
        let _ = (answers, no_more);
        match splits {
            [] => Ok(()),
            _ => Err(Error::new(ErrorKind::Plan, "a source without splits was assigned some")),
        }
    }

    /// Whether the source has read all splits that it has and asks for others. It says so once.
    fn wants_splits(&mut self) -> bool {
        false
    }

    /// Leaves these splits out until it is called again with others: they are too far ahead in event time.
    fn pause(&mut self, splits: &[u32]) -> Result<()> {
        let _ = splits;
        Ok(())
    }

    /// How far the input was read, for messages.
    fn place(&self) -> Option<String> {
        None
    }

    /// The position, as of the records emitted so far.
    fn snapshot(&mut self, id: CheckpointId, form: SnapshotForm) -> Result<Option<AsyncSnapshot>>;

    /// Checkpoint `id`, and every earlier one, is complete.
    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        let _ = id;
        Ok(())
    }
}

/// Flink's default of `pipeline.auto-watermark-interval`.
pub const DEFAULT_AUTO_WATERMARK_INTERVAL: Duration = Duration::from_millis(200);

/// What an operator is told when it is opened.
pub struct OpenContext {
    /// The operator's name, for messages.
    pub name: Arc<str>,
    /// The identity of its state.
    pub operator: OperatorId,
    /// Which parallel instance this is.
    pub subtask: SubtaskIndex,
    /// How many there are.
    pub parallelism: u32,
    /// The job's key groups.
    pub key_groups: KeyGroups,
    /// State to start from, restricted to what this subtask owns; `None` on a fresh start.
    pub restored: Option<OperatorSubtaskState>,
    /// The checkpoint that the state comes from.
    pub restored_checkpoint: Option<CheckpointId>,
    /// Nothing will run: the operator is opened to see which states it has. Sources and sinks connect to
    /// nothing then, and the snapshot that is asked for next holds no more than the names and types of the
    /// states.
    pub dry: bool,
    /// Reads the restored state.
    pub store: Arc<dyn SnapshotStore>,
    /// Makes the backend of keyed state.
    pub backend: StateBackends,
    /// Whether the job takes checkpoints; without them a sink commits when it finishes.
    pub checkpointing: bool,
    /// The job: two jobs that write to one place are told apart by it.
    pub job: JobId,
    /// Where its checkpoints are kept; empty if they are kept nowhere. Two jobs of one name are told apart by
    /// it.
    pub checkpoint_storage: Arc<str>,
    /// Who may read the files that the operator makes.
    pub file_access: FileAccess,
    /// Grows with every attempt to run the job, in all processes: makes names of temporary files unique.
    pub generation: u64,
    /// Processing time.
    pub clock: Arc<dyn Clock>,
    /// Schedules the operator from any thread.
    pub waker: Waker,
    /// What becomes of timers of processing time at the end of the input.
    pub pending_timers: PendingTimers,
    /// How often generators of watermarks are asked (`pipeline.auto-watermark-interval`); `None`: never.
    pub auto_watermark_interval: Option<Duration>,
    /// Whether strategies that are built in say after each batch how far event time is, and not at that
    /// interval.
    pub watermark_each_batch: bool,
    /// Groups of sources that keep together in event time.
    pub watermark_groups: WatermarkGroups,
    /// Counts records that were dropped, expired or otherwise not passed on, by reason.
    pub counters: Arc<crate::metrics::Counters>,
}

impl OpenContext {
    /// A context outside of a job: for tests that drive an operator by hand. Nothing is restored; the fields
    /// can be set.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use stillstream_runtime::{OpenContext, clock::ManualClock};
    /// use stillstream_types::KeyGroups;
    /// # #[derive(Debug)] struct NoStore;
    /// # use stillstream_types::{StreamHandle, streams::{SnapshotStore, SnapshotStream}};
    /// # impl SnapshotStore for NoStore {
    /// #     fn create(&self, _: &str) -> std::io::Result<Box<dyn SnapshotStream>> {
    /// #         Err(std::io::Error::other("none"))
    /// #     }
    /// #     fn read(&self, _: &StreamHandle, _: u64, _: u64) -> std::io::Result<Vec<u8>> { Ok(Vec::new()) }
    /// #     fn read_all(&self, _: &StreamHandle) -> std::io::Result<Vec<u8>> { Ok(Vec::new()) }
    /// # }
    /// let clock = Arc::new(ManualClock::default());
    /// let context = OpenContext::by_hand("count", 1, 2, KeyGroups::new(128), Arc::new(NoStore), clock);
    /// assert_eq!(context.key_group_range().len(), 64);
    /// ```
    pub fn by_hand(
        name: &str,
        subtask: u32,
        parallelism: u32,
        key_groups: KeyGroups,
        store: Arc<dyn SnapshotStore>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            name: name.into(),
            operator: OperatorId::from_uid(name),
            subtask: SubtaskIndex(subtask),
            parallelism,
            key_groups,
            restored: None,
            restored_checkpoint: None,
            dry: false,
            store,
            backend: crate::backends::heap(Default::default()),
            checkpointing: true,
            job: JobId::from_name("by hand"),
            checkpoint_storage: "".into(),
            file_access: FileAccess::default(),
            generation: 1,
            clock,
            waker: Waker::idle(),
            pending_timers: PendingTimers::Drop,
            auto_watermark_interval: Some(DEFAULT_AUTO_WATERMARK_INTERVAL),
            watermark_each_batch: true,
            watermark_groups: WatermarkGroups::default(),
            counters: Arc::default(),
        }
    }

    /// The key groups of this subtask.
    pub fn key_group_range(&self) -> KeyGroupRange {
        self.key_groups.range(self.subtask.0, self.parallelism)
    }
}

impl fmt::Debug for OpenContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenContext({} {}/{})", self.name, self.subtask, self.parallelism)
    }
}
