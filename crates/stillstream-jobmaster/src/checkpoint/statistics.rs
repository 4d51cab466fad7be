//! What a person wants to know of checkpoints: counts, sizes, durations, and which subtask was slow in which
//! phase.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stillstream_types::{CheckpointId, CheckpointKind, CompletedRef, SavepointFormat, SubtaskId};

use crate::checkpoint::distribution::Distribution;
use crate::checkpoint::pending::word;
use crate::message::AckMetrics;

/// So many checkpoints are remembered.
pub const HISTORY: usize = 10;

/// A part of a checkpoint's time in one subtask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubtaskPhase {
    /// From the trigger to the first barrier.
    StartDelay,
    /// From the first barrier to the last.
    Alignment,
    /// The synchronous part of the snapshot.
    Synchronous,
    /// The asynchronous part: writing to storage.
    Asynchronous,
}

impl fmt::Display for SubtaskPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StartDelay => "start delay (the barrier came late: look for back pressure upstream)",
            Self::Alignment => "alignment (one input was behind the others: look for skew or back pressure)",
            Self::Synchronous => "synchronous part (the worker stood still while state was frozen)",
            Self::Asynchronous => "asynchronous part (writing state to checkpoint storage)",
        })
    }
}

/// The subtask that acknowledged last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slowest {
    /// Which.
    pub subtask: SubtaskId,
    /// Its task's name.
    pub name: String,
    /// From the trigger to its acknowledgement.
    pub after: Duration,
    /// Where most of its time went.
    pub phase: SubtaskPhase,
    /// How long that phase took.
    pub phase_took: Duration,
}

/// The longest that each phase took in any one subtask; they need not be phases of the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LongestPhases {
    /// From the trigger to the first barrier.
    pub start_delay: Duration,
    /// From the first barrier to the last.
    pub alignment: Duration,
    /// The synchronous part: so long a worker stood still.
    pub synchronous: Duration,
    /// The asynchronous part: writing to storage.
    pub asynchronous: Duration,
}

impl LongestPhases {
    /// Of what some subtasks measured.
    pub fn of<'a>(metrics: impl IntoIterator<Item = &'a AckMetrics>) -> Self {
        metrics.into_iter().fold(Self::default(), |longest, metrics| Self {
            start_delay: longest.start_delay.max(metrics.start_delay),
            alignment: longest.alignment.max(metrics.alignment),
            synchronous: longest.synchronous.max(metrics.synchronous),
            asynchronous: longest.asynchronous.max(metrics.asynchronous),
        })
    }
}

/// What one subtask did for a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubtaskStatistics {
    /// Which.
    pub subtask: SubtaskId,
    /// From the trigger to its acknowledgement.
    pub after: Duration,
    /// Bytes of its state.
    pub size_bytes: u64,
    /// What it measured.
    pub metrics: AckMetrics,
}

/// How far a checkpoint got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckpointStatus {
    /// Not decided.
    InProgress,
    /// It is the truth.
    Completed,
    /// It was aborted, with the reason as a sentence.
    Failed(String),
}

/// One checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointSummary {
    /// Its number.
    pub id: CheckpointId,
    /// What it is.
    pub kind: CheckpointKind,
    /// The form of a savepoint.
    pub format: Option<SavepointFormat>,
    /// How far it got.
    pub status: CheckpointStatus,
    /// When it was triggered, since the coordinator's zero.
    pub triggered_at: Duration,
    /// From the trigger to its end.
    pub duration: Duration,
    /// Bytes of state acknowledged.
    pub size_bytes: u64,
    /// How many subtasks acknowledged.
    pub acknowledged: usize,
    /// How many subtasks take part.
    pub subtasks: usize,
    /// Up to ten of those that did not acknowledge, with their names.
    pub missing: Vec<(SubtaskId, String)>,
    /// The last one that acknowledged.
    pub slowest: Option<Slowest>,
    /// The longest of each phase, over those that acknowledged.
    pub phases: LongestPhases,
    /// Its directory, relative to that of the job; of a savepoint its location.
    pub path: Arc<str>,
    /// When it was triggered, by the wall clock: milliseconds since 1970.
    pub triggered_at_ms: i64,
    /// Those that acknowledged, by subtask.
    pub details: Arc<[SubtaskStatistics]>,
}

/// Says in one line why a checkpoint took its time or did not make it: which subtask, which phase.
///
/// ```
/// use std::time::Duration;
/// use stillstream_jobmaster::{CheckpointStatus, CheckpointSummary, LongestPhases, explain};
/// use stillstream_types::{CheckpointId, CheckpointKind, SubtaskId};
/// let expired = CheckpointSummary {
///     id: CheckpointId(7),
///     kind: CheckpointKind::Checkpoint,
///     format: None,
///     status: CheckpointStatus::Failed("expired".into()),
///     triggered_at: Duration::ZERO,
///     duration: Duration::from_secs(600),
///     size_bytes: 0,
///     acknowledged: 3,
///     subtasks: 4,
///     missing: vec![(SubtaskId::new(2, 1), "window".into())],
///     slowest: None,
///     phases: LongestPhases::default(),
///     path: "chk-7".into(),
///     triggered_at_ms: 0,
///     details: [].into(),
/// };
/// assert_eq!(
///     explain(&expired),
///     "checkpoint 7 failed after 600.0 s (expired): 1 of 4 subtasks did not acknowledge: window (2#1)"
/// );
/// ```
pub fn explain(summary: &CheckpointSummary) -> String {
    let mut text = format!("{} {} ", word(summary.kind), summary.id);
    let took = summary.duration.as_secs_f64();
    match &summary.status {
        CheckpointStatus::InProgress => text += &format!("has been running for {took:.1} s"),
        CheckpointStatus::Completed => text += &format!("completed after {took:.1} s"),
        CheckpointStatus::Failed(reason) => text += &format!("failed after {took:.1} s ({reason})"),
    }
    if summary.acknowledged < summary.subtasks {
        text += ": ";
        text += &missing_text(summary.subtasks - summary.acknowledged, summary.subtasks, &summary.missing);
    } else if let Some(slow) = &summary.slowest {
        text += &format!(
            ": the last of {} subtasks was {} ({}) after {:.1} s, of which {:.1} s {}",
            summary.subtasks,
            slow.name,
            slow.subtask,
            slow.after.as_secs_f64(),
            slow.phase_took.as_secs_f64(),
            slow.phase
        );
    }
    text
}

/// "2 of 4 subtasks did not acknowledge: map (1#0), map (1#1)"
pub(crate) fn missing_text(count: usize, of: usize, named: &[(SubtaskId, String)]) -> String {
    let names: Vec<_> = named.iter().map(|(id, name)| format!("{name} ({id})")).collect();
    let more = if count > named.len() { format!(" and {} more", count - named.len()) } else { String::new() };
    format!("{count} of {of} subtasks did not acknowledge: {}{more}", names.join(", "))
}

/// The phase that took most of a subtask's time, and how long.
pub fn slowest_phase(metrics: &AckMetrics) -> (SubtaskPhase, Duration) {
    let mut worst = (SubtaskPhase::StartDelay, metrics.start_delay);
    for next in [
        (SubtaskPhase::Alignment, metrics.alignment),
        (SubtaskPhase::Synchronous, metrics.synchronous),
        (SubtaskPhase::Asynchronous, metrics.asynchronous),
    ] {
        if next.1 > worst.1 {
            worst = next;
        }
    }
    worst
}

/// Counts since the coordinator was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Checkpoints that got an id and a location.
    pub triggered: u64,
    /// Not decided yet.
    pub in_progress: u64,
    /// Completed.
    pub completed: u64,
    /// Failed or aborted.
    pub failed: u64,
    /// Savepoints among those that failed: a person has been told of each, and the job does not depend on
    /// them.
    pub failed_savepoints: u64,
    /// Attempts that were begun from a checkpoint.
    pub restored: u64,
}

impl Counts {
    /// Checkpoints of the job's own that failed or were aborted.
    pub fn failed_checkpoints(&self) -> u64 {
        self.failed.saturating_sub(self.failed_savepoints)
    }
}

/// What an attempt was begun from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoredSummary {
    /// The checkpoint.
    pub checkpoint: CompletedRef,
    /// When, by the wall clock: milliseconds since 1970.
    pub at_ms: i64,
}

/// Counts, the last of each kind, and the last ten that ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckpointStatistics {
    /// Counts.
    pub counts: Counts,
    /// The newest completed one. Savepoints are not among them.
    pub last_completed: Option<CheckpointSummary>,
    /// The newest completed savepoint.
    pub last_savepoint: Option<CheckpointSummary>,
    /// The newest that failed.
    pub last_failed: Option<CheckpointSummary>,
    /// What the newest attempt was begun from, if that was a checkpoint of the job's own.
    pub last_restored: Option<RestoredSummary>,
    /// The last ten that ended, oldest first.
    pub history: VecDeque<CheckpointSummary>,
    /// Bytes of state of all that completed.
    pub sizes: Distribution,
    /// From trigger to completion, in milliseconds, of all that completed.
    pub durations: Distribution,
}

impl CheckpointStatistics {
    pub(crate) fn on_started(&mut self) {
        self.counts.triggered += 1;
        self.counts.in_progress += 1;
    }

    pub(crate) fn on_ended(&mut self, summary: CheckpointSummary) {
        self.counts.in_progress = self.counts.in_progress.saturating_sub(1);
        if summary.status == CheckpointStatus::Completed {
            self.counts.completed += 1;
            self.sizes.add(summary.size_bytes);
            self.durations.add(u64::try_from(summary.duration.as_millis()).unwrap_or(u64::MAX));
            match summary.kind {
                CheckpointKind::Savepoint => self.last_savepoint = Some(summary.clone()),
                CheckpointKind::Checkpoint | CheckpointKind::Final => {
                    self.last_completed = Some(summary.clone());
                }
            }
        } else {
            self.counts.failed += 1;
            self.counts.failed_savepoints += u64::from(summary.kind == CheckpointKind::Savepoint);
            self.last_failed = Some(summary.clone());
        }
        self.history.push_back(summary);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(id: u64, status: CheckpointStatus) -> CheckpointSummary {
        CheckpointSummary {
            id: CheckpointId(id),
            kind: CheckpointKind::Checkpoint,
            format: None,
            status,
            triggered_at: Duration::ZERO,
            duration: Duration::from_millis(12_300),
            size_bytes: 5,
            acknowledged: 2,
            subtasks: 2,
            missing: Vec::new(),
            slowest: None,
            phases: LongestPhases::default(),
            path: format!("chk-{id}").into(),
            triggered_at_ms: 0,
            details: [].into(),
        }
    }

    #[test]
    fn the_history_holds_the_last_ten_and_the_counts_hold_all() {
        let mut statistics = CheckpointStatistics::default();
        for id in 1..=12 {
            statistics.on_started();
            let status =
                if id == 12 { CheckpointStatus::Failed("x".into()) } else { CheckpointStatus::Completed };
            statistics.on_ended(summary(id, status));
        }
        assert_eq!(statistics.history.len(), HISTORY);
        assert_eq!(statistics.history[0].id, CheckpointId(3));
        assert_eq!(statistics.last_completed.as_ref().unwrap().id, CheckpointId(11));
        let counts = statistics.counts;
        assert_eq!((counts.triggered, counts.in_progress, counts.completed, counts.failed), (12, 0, 11, 1));
    }

    #[test]
    fn a_savepoint_is_counted_and_is_not_taken_for_the_newest_checkpoint() {
        let mut statistics = CheckpointStatistics::default();
        statistics.on_ended(summary(1, CheckpointStatus::Completed));
        let kind = CheckpointKind::Savepoint;
        statistics.on_ended(CheckpointSummary { kind, ..summary(2, CheckpointStatus::Completed) });
        statistics.on_ended(summary(3, CheckpointStatus::Failed("x".into())));
        let id = |summary: &Option<CheckpointSummary>| summary.as_ref().map(|summary| summary.id.0);
        assert_eq!(id(&statistics.last_completed), Some(1));
        assert_eq!((id(&statistics.last_savepoint), id(&statistics.last_failed)), (Some(2), Some(3)));
        assert_eq!(statistics.counts.completed, 2);
        statistics.on_ended(CheckpointSummary { kind, ..summary(4, CheckpointStatus::Failed("x".into())) });
        assert_eq!((statistics.counts.failed, statistics.counts.failed_checkpoints()), (2, 1));
    }

    #[test]
    fn a_slow_checkpoint_is_explained_by_its_last_subtask_and_that_ones_longest_phase() {
        let metrics = AckMetrics {
            alignment: Duration::from_millis(11_900),
            asynchronous: Duration::from_millis(300),
            ..AckMetrics::default()
        };
        let (phase, phase_took) = slowest_phase(&metrics);
        let slowest = Slowest {
            subtask: SubtaskId::new(2, 3),
            name: "window".into(),
            after: Duration::from_millis(12_300),
            phase,
            phase_took,
        };
        let text =
            explain(&CheckpointSummary { slowest: Some(slowest), ..summary(4, CheckpointStatus::Completed) });
        assert!(
            text.starts_with(
                "checkpoint 4 completed after 12.3 s: the last of 2 subtasks was window (2#3) after 12.3 s, \
                 of which 11.9 s alignment"
            ),
            "{text}"
        );
    }

    #[test]
    fn at_most_the_named_subtasks_are_printed_and_the_rest_is_counted() {
        let named = vec![(SubtaskId::new(1, 0), "map".to_owned())];
        assert_eq!(missing_text(3, 4, &named), "3 of 4 subtasks did not acknowledge: map (1#0) and 2 more");
    }
}
