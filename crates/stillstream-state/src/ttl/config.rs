//! [`StateTtlConfig`]: how long state lives, what counts as a touch, and who removes what has expired.

use std::time::Duration;

use crate::StateError;

/// What starts the time to live anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TtlUpdateType {
    /// Writing: the default.
    #[default]
    OnCreateAndWrite,
    /// Reading too. A read then costs a write.
    OnReadAndWrite,
}

/// What a read gives when the time to live is over and the value is still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TtlVisibility {
    /// Nothing: the default.
    #[default]
    NeverReturnExpired,
    /// The value, once: the read removes it. Whether it is still there depends on clean-up, so on nothing
    /// that a program knows.
    ReturnExpiredIfNotCleanedUp,
}

/// Clean-up while RocksDB compacts files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompactionCleanup {
    /// `None`: as the backend's options say.
    pub query_time_after: Option<u64>,
    /// `None`: as the backend's options say.
    pub periodic: Option<Duration>,
}

/// The time to live of a state (Flink's `StateTtlConfig`), in processing time.
///
/// Each value, list item, map entry or accumulator lives for itself. An expired one is never read
/// ([`NeverReturnExpired`](TtlVisibility::NeverReturnExpired)); its memory comes back when something meets
/// it:
///
/// | | in memory | in RocksDB |
/// |---|---|---|
/// | a read | removes it | removes it |
/// | the background | a sweep after each batch looks at some entries | a compaction drops it |
/// | a full snapshot | leaves it out | leaves it out |
/// | an incremental checkpoint | has it until the sweep comes by | has it until its file is compacted |
///
/// ```
/// use std::time::Duration;
/// use stillstream_state::{StateTtlConfig, TtlUpdateType};
///
/// let day = StateTtlConfig::new(Duration::from_secs(24 * 3600)).update_type(TtlUpdateType::OnReadAndWrite);
/// assert_eq!(day.time_to_live(), Duration::from_secs(86_400));
/// ```
///
/// It is no part of a snapshot: after a change of the program the new configuration applies to what was
/// stored under the old one. State that was saved without a time to live gets one that begins at the restore;
/// the reverse forgets the times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateTtlConfig {
    ttl: Duration,
    update: TtlUpdateType,
    visibility: TtlVisibility,
    full_snapshot: bool,
    /// Entries that the sweep looks at for each access.
    incremental: Option<u32>,
    compaction: Option<CompactionCleanup>,
}

impl StateTtlConfig {
    /// Entries that a sweep looks at for each access of the state, unless another number is set: Flink's
    /// default.
    pub const SWEPT_PER_ACCESS: u32 = 5;

    /// State that lives so long after it was written; in whole milliseconds, at least one.
    pub fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            update: TtlUpdateType::default(),
            visibility: TtlVisibility::default(),
            full_snapshot: true,
            incremental: Some(Self::SWEPT_PER_ACCESS),
            compaction: Some(CompactionCleanup::default()),
        }
    }

    /// What starts the time anew.
    pub fn update_type(self, update: TtlUpdateType) -> Self {
        Self { update, ..self }
    }

    /// What a read gives of what has expired.
    pub fn visibility(self, visibility: TtlVisibility) -> Self {
        Self { visibility, ..self }
    }

    /// Whether full snapshots leave out what has expired (the default). It does not change the state itself.
    pub fn cleanup_full_snapshot(self, leave_out: bool) -> Self {
        Self { full_snapshot: leave_out, ..self }
    }

    /// State in memory: after each batch, the sweep looks at so many entries for each access of the state in
    /// that batch. With `n`, what has expired and was not swept yet is at most about `1 / (n - 1)` of the
    /// rest; at 1 it may grow.
    pub fn cleanup_incrementally(self, entries_per_access: u32) -> Self {
        Self { incremental: Some(entries_per_access), ..self }
    }

    /// State in RocksDB: compactions drop what has expired, and ask for the time after so many entries.
    pub fn cleanup_in_rocksdb_compaction(self, query_time_after_entries: u64) -> Self {
        let cleanup = self.compaction.unwrap_or_default();
        let cleanup = CompactionCleanup { query_time_after: Some(query_time_after_entries), ..cleanup };
        Self { compaction: Some(cleanup), ..self }
    }

    /// State in RocksDB: files older than this are compacted, so that what is never written again goes too.
    /// Zero: never.
    pub fn periodic_compaction(self, age: Duration) -> Self {
        let cleanup = CompactionCleanup { periodic: Some(age), ..self.compaction.unwrap_or_default() };
        Self { compaction: Some(cleanup), ..self }
    }

    /// Neither a sweep nor a compaction removes anything: only reads and full snapshots do.
    pub fn disable_cleanup_in_background(self) -> Self {
        Self { incremental: None, compaction: None, ..self }
    }

    /// How long state lives.
    pub fn time_to_live(&self) -> Duration {
        self.ttl
    }

    /// Whether a read starts the time to live anew.
    pub fn touches_on_read(&self) -> bool {
        self.update == TtlUpdateType::OnReadAndWrite
    }

    /// Whether a read gives what has expired and is still there.
    pub fn shows_expired(&self) -> bool {
        self.visibility == TtlVisibility::ReturnExpiredIfNotCleanedUp
    }

    /// Whether full snapshots leave out what has expired.
    pub fn leaves_out_of_snapshots(&self) -> bool {
        self.full_snapshot
    }

    /// Entries that a sweep looks at for each access; none: there is no sweep.
    pub fn swept_per_access(&self) -> Option<u32> {
        self.incremental
    }

    /// How compactions remove what has expired; none: they do not.
    pub fn compaction(&self) -> Option<CompactionCleanup> {
        self.compaction
    }

    /// In milliseconds, if it makes sense.
    pub(crate) fn checked(&self, name: &str) -> Result<i64, StateError> {
        let wrong = |why: &str| StateError::Ttl { name: name.into(), why: why.into() };
        if self.ttl < Duration::from_millis(1) {
            return Err(wrong(
                "it is shorter than a millisecond: set the time that a value is to live after it was written",
            ));
        }
        if self.incremental == Some(0) {
            return Err(wrong(
                "a sweep of 0 entries never removes anything: set at least 2, or `disable_cleanup_in_background`",
            ));
        }
        if self.compaction.is_some_and(|cleanup| cleanup.query_time_after == Some(0)) {
            return Err(wrong(
                "the compaction filter cannot ask for the time after 0 entries: set 1 for each entry",
            ));
        }
        // longer than any clock runs: never
        Ok(i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX))
    }
}
