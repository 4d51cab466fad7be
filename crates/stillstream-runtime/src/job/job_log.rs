//! What the log says of a running job: which line, when, and how often.
//!
//! The lines are made here and written by the JobManager. A job that runs says so once a minute; one that
//! fails again and again says so a few times in full, and then how often; a checkpoint that is late names who
//! holds it.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use stillstream_jobmaster::explain;
use stillstream_jobmaster::{CheckpointStatistics, CheckpointStatus, CheckpointSummary, Level};
use stillstream_types::{CheckpointId, SubtaskId};

use super::client::JobMetrics;

/// A job that has nothing else to say says this often how it does.
const SUMMARY: Duration = Duration::from_secs(60);
/// No checkpoint is called late before this, however fast the others were.
const LATE: Duration = Duration::from_secs(10);
/// Lines of one kind that are written in full, and the time after which there is room for one more.
const IN_FULL: u32 = 5;
const PAUSE: Duration = Duration::from_secs(10);
/// Kinds of lines that are told apart.
const KINDS: usize = 64;

/// Lets a few lines through, and then one for each pause, which says how many were held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limiter {
    room: u32,
    held_back: u64,
    since: Duration,
}

impl Limiter {
    pub fn new(now: Duration) -> Self {
        Self { room: IN_FULL, held_back: 0, since: now }
    }

    /// How many lines were held back before this one; `None` if it is held back itself.
    pub fn pass(&mut self, now: Duration) -> Option<u64> {
        let pauses = now.saturating_sub(self.since).as_nanos() / PAUSE.as_nanos();
        if pauses > 0 {
            self.room = (self.room + u32::try_from(pauses).unwrap_or(IN_FULL).min(IN_FULL)).min(IN_FULL);
            self.since = now;
        }
        let Some(room) = self.room.checked_sub(1) else {
            self.held_back += 1;
            return None;
        };
        self.room = room;
        Some(std::mem::take(&mut self.held_back))
    }
}

fn and_more(text: &str, held_back: u64) -> String {
    match held_back {
        0 => text.to_string(),
        1 => format!("{text} (one more like this was not logged)"),
        more => format!("{text} ({more} more like this were not logged)"),
    }
}

/// The text without its numbers, which differ from line to line of one kind.
fn kind_of(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit() && *c != '.').take(80).collect()
}

/// How large a number of bytes is.
pub(crate) fn bytes(n: u64) -> String {
    match n as f64 {
        n if n >= 1e9 => format!("{:.2} GB", n / 1e9),
        n if n >= 1e6 => format!("{:.1} MB", n / 1e6),
        n if n >= 1e4 => format!("{:.0} kB", n / 1e3),
        n => format!("{n:.0} B"),
    }
}

/// How long something took, for people.
pub(crate) fn time(took: Duration) -> String {
    let seconds = took.as_secs();
    match seconds {
        0 => format!("{} ms", took.as_millis()),
        1..120 => format!("{:.1} s", took.as_secs_f64()),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        7200..172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A number and what it counts.
pub(crate) fn count(n: u64, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}

/// A line to write.
pub(crate) type Line = (Level, String);

/// How a job does, as of now.
pub(crate) struct Now<'a> {
    pub now: Duration,
    pub running: bool,
    pub metrics: &'a JobMetrics,
    pub checkpoints: &'a CheckpointStatistics,
    pub restarts: u64,
}

/// A checkpoint that has been under way for some time.
pub(crate) struct UnderWay {
    pub id: CheckpointId,
    pub since: Duration,
    pub subtasks: usize,
    /// Who has not acknowledged, by name, and how many there are.
    pub missing: Vec<String>,
    pub missing_count: usize,
}

#[derive(Debug)]
pub(crate) struct JobLog {
    started: Duration,
    next_summary: Duration,
    /// Of the last summary.
    at: Duration,
    records_in: u64,
    records_out: u64,
    completed: u64,
    failed: u64,
    /// Checkpoints that were logged.
    ended: u64,
    late_after: Duration,
    late: Option<(CheckpointId, Duration)>,
    kinds: HashMap<String, Limiter>,
}

impl JobLog {
    pub fn new(now: Duration) -> Self {
        Self {
            started: now,
            next_summary: now + SUMMARY,
            at: now,
            records_in: 0,
            records_out: 0,
            completed: 0,
            failed: 0,
            ended: 0,
            late_after: LATE,
            late: None,
            kinds: HashMap::new(),
        }
    }

    /// The text, if it is not one of too many of its kind.
    pub fn limited(&mut self, kind: &str, text: &str, now: Duration) -> Option<String> {
        if self.kinds.len() >= KINDS && !self.kinds.contains_key(kind) {
            self.kinds.clear();
        }
        let limiter = self.kinds.entry(kind.to_string()).or_insert_with(|| Limiter::new(now));
        limiter.pass(now).map(|held_back| and_more(text, held_back))
    }

    /// A warning, if it is not one of too many that differ in numbers only.
    pub fn warning(&mut self, text: &str, now: Duration) -> Option<String> {
        self.limited(&kind_of(text), text, now)
    }

    /// What there is to say since the last time.
    pub fn lines(&mut self, now: &Now<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        let counts = now.checkpoints.counts;
        let new = (counts.completed + counts.failed).saturating_sub(self.ended);
        self.ended += new;
        let history = &now.checkpoints.history;
        let first = history.len().saturating_sub(usize::try_from(new).unwrap_or(usize::MAX));
        // those that failed were warned of
        let completed = history.iter().skip(first).filter(|c| c.status == CheckpointStatus::Completed);
        lines.extend(completed.map(|checkpoint| (Level::Debug, completed_line(checkpoint))));
        if let Some(last) = &now.checkpoints.last_completed {
            self.late_after = (last.duration * 3).max(LATE);
        }
        if now.now >= self.next_summary {
            if now.running {
                lines.push((Level::Info, self.summary(now)));
            }
            self.at = now.now;
            self.records_in = now.metrics.records_in;
            self.records_out = now.metrics.records_out;
            (self.completed, self.failed) = (counts.completed, counts.failed_checkpoints());
            self.next_summary = now.now + SUMMARY;
        }
        lines
    }

    fn summary(&self, now: &Now<'_>) -> String {
        let passed = now.now.saturating_sub(self.at).as_secs_f64().max(1e-3);
        // a worker that was replaced begins to count at zero
        let rate = |all: u64, before: u64| (all.saturating_sub(before) as f64 / passed).round();
        let (records_in, records_out) = (now.metrics.records_in, now.metrics.records_out);
        let mut text = format!(
            "running for {}: {records_in} records in ({}/s), {records_out} out ({}/s)",
            time(now.now.saturating_sub(self.started)),
            rate(records_in, self.records_in),
            rate(records_out, self.records_out),
        );
        let counts = now.checkpoints.counts;
        let (completed, failed) =
            (counts.completed - self.completed, counts.failed_checkpoints() - self.failed);
        // a string takes all that is written
        match &now.checkpoints.last_completed {
            Some(last) => {
                let _ = write!(
                    text,
                    "; {} in the last minute, the last one, {}, took {} for {}",
                    count(completed, "checkpoint"),
                    last.id,
                    time(last.duration),
                    bytes(last.size_bytes)
                );
            }
            None if counts.triggered > 0 => text += "; no checkpoint has completed yet",
            None => {}
        }
        if failed > 0 {
            let _ = write!(text, "; {} failed", count(failed, "checkpoint"));
        }
        if now.restarts > 0 {
            let _ = write!(text, "; {}", count(now.restarts, "restart"));
        }
        text
    }

    /// After this time a checkpoint that is under way is late: three times as long as the last one, at most
    /// half of what it may take.
    pub fn late_after(&self, timeout: Duration) -> Duration {
        self.late_after.min(timeout / 2)
    }

    /// The line about a late checkpoint: at once, and again whenever its time has doubled.
    pub fn late(&mut self, checkpoint: &UnderWay, now: Duration, timeout: Duration) -> Option<Line> {
        let after = now.saturating_sub(checkpoint.since);
        let due = match self.late {
            Some((id, said)) if id == checkpoint.id => said * 2,
            _ => self.late_after(timeout),
        };
        if after < due {
            return None;
        }
        self.late = Some((checkpoint.id, after));
        let holds = match checkpoint.missing_count {
            0 => "all subtasks have acknowledged; its metadata or the job's register is not written yet"
                .to_string(),
            missing => {
                let more = missing.saturating_sub(checkpoint.missing.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!(
                    "it waits for {} of {}: {}{more}",
                    missing,
                    count(checkpoint.subtasks as u64, "subtask"),
                    checkpoint.missing.join(", ")
                )
            }
        };
        let text = format!(
            "checkpoint {} is late, after {}: {holds}. It is given up after {} (execution.checkpointing.timeout)",
            checkpoint.id,
            time(after),
            time(timeout)
        );
        Some((Level::Warn, text))
    }
}

fn completed_line(checkpoint: &CheckpointSummary) -> String {
    format!("{}; {}", explain(checkpoint), bytes(checkpoint.size_bytes))
}

/// `map` subtask 3
pub(crate) fn subtask_name((id, name): &(SubtaskId, String)) -> String {
    format!("`{name}` subtask {}", id.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillstream_jobmaster::LongestPhases;
    use stillstream_types::CheckpointKind;

    const SECOND: Duration = Duration::from_secs(1);

    fn completed(id: u64, millis: u64) -> CheckpointSummary {
        CheckpointSummary {
            id: CheckpointId(id),
            kind: CheckpointKind::Checkpoint,
            format: None,
            status: CheckpointStatus::Completed,
            triggered_at: Duration::ZERO,
            duration: Duration::from_millis(millis),
            size_bytes: 3_400_000,
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

    fn statistics(ids: std::ops::RangeInclusive<u64>, millis: u64) -> CheckpointStatistics {
        let mut statistics = CheckpointStatistics::default();
        for id in ids {
            statistics.counts.triggered += 1;
            statistics.counts.completed += 1;
            statistics.last_completed = Some(completed(id, millis));
            statistics.history.push_back(completed(id, millis));
        }
        statistics
    }

    fn at(log: &mut JobLog, seconds: u32, records: u64, checkpoints: &CheckpointStatistics) -> Vec<Line> {
        let metrics = JobMetrics { records_in: records, records_out: records / 2, ..JobMetrics::default() };
        log.lines(&Now { now: SECOND * seconds, running: true, metrics: &metrics, checkpoints, restarts: 2 })
    }

    #[test]
    fn a_running_job_sums_itself_up_once_a_minute() {
        let mut log = JobLog::new(Duration::ZERO);
        let none = CheckpointStatistics::default();
        assert_eq!(at(&mut log, 59, 100, &none), []);
        let first = at(&mut log, 60, 6000, &none);
        let text = "running for 60.0 s: 6000 records in (100/s), 3000 out (50/s); 2 restarts";
        assert_eq!(first, [(Level::Info, text.to_string())]);
        assert_eq!(at(&mut log, 61, 6000, &none), []);
        let (level, text) = at(&mut log, 180, 30_000, &statistics(1..=3, 120)).pop().unwrap();
        assert_eq!(level, Level::Info);
        let parts = [
            "running for 3 min 0 s",
            "30000 records in (200/s)",
            "3 checkpoints in the last minute, the last one, 3, took 120 ms for 3.4 MB",
        ];
        parts.iter().for_each(|part| assert!(text.contains(part), "{text}"));
    }

    #[test]
    fn each_completed_checkpoint_is_a_line_for_those_who_look_closely() {
        let mut log = JobLog::new(Duration::ZERO);
        let lines = at(&mut log, 1, 0, &statistics(1..=2, 300));
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1], (Level::Debug, "checkpoint 2 completed after 0.3 s; 3.4 MB".to_string()));
        assert_eq!(at(&mut log, 2, 0, &statistics(1..=2, 300)), []);
        assert_eq!(at(&mut log, 2, 0, &statistics(1..=3, 300)).len(), 1);
    }

    fn under_way(missing_count: usize) -> UnderWay {
        let missing = ["`map` subtask 1".to_string()].into_iter().take(missing_count).collect();
        UnderWay { id: CheckpointId(7), since: SECOND * 100, subtasks: 4, missing, missing_count }
    }

    #[test]
    fn a_late_checkpoint_says_who_holds_it_and_again_when_its_time_has_doubled() {
        let mut log = JobLog::new(Duration::ZERO);
        let timeout = SECOND * 600;
        assert_eq!(log.late(&under_way(2), SECOND * 109, timeout), None);
        let (level, text) = log.late(&under_way(2), SECOND * 110, timeout).unwrap();
        assert_eq!(level, Level::Warn);
        let right = "checkpoint 7 is late, after 10.0 s: it waits for 2 of 4 subtasks: `map` subtask 1 and 1 more. It is given up \
                     after 10 min 0 s (execution.checkpointing.timeout)";
        assert_eq!(text, right);
        assert_eq!(log.late(&under_way(2), SECOND * 119, timeout), None);
        assert!(log.late(&under_way(0), SECOND * 120, timeout).unwrap().1.contains("metadata"));
    }

    #[test]
    fn what_is_late_follows_the_checkpoints_before_and_the_timeout() {
        let mut log = JobLog::new(Duration::ZERO);
        at(&mut log, 1, 0, &statistics(1..=1, 20_000));
        assert_eq!(log.late_after(SECOND * 600), SECOND * 60);
        assert_eq!(log.late_after(SECOND * 30), SECOND * 15);
    }

    #[test]
    fn a_flood_of_lines_of_one_kind_becomes_a_few_and_a_count() {
        let mut log = JobLog::new(Duration::ZERO);
        let mut said = Vec::new();
        // a job that fails every 3 ms for a minute
        for n in 0..20_000u32 {
            let text = format!("attempt {n} failed after {n}.5 ms");
            said.extend(log.warning(&text, Duration::from_millis(3) * n));
        }
        assert_eq!(said.len(), 5 + 5);
        assert_eq!(said[4], "attempt 4 failed after 4.5 ms");
        assert!(
            said[5].starts_with("attempt 3334 ")
                && said[5].ends_with("(3329 more like this were not logged)")
        );
        assert!(log.warning("something else", SECOND * 60).is_some());
    }

    #[test]
    fn kinds_of_lines_do_not_grow_without_an_end() {
        let mut log = JobLog::new(Duration::ZERO);
        for n in 0..1000u32 {
            let letters: String = (0..n).map(|_| 'x').collect();
            log.limited(&letters, "text", Duration::ZERO);
            assert!(log.kinds.len() <= KINDS);
        }
    }

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!([5, 20_000, 3_400_000, 7_120_000_000].map(bytes), ["5 B", "20 kB", "3.4 MB", "7.12 GB"]);
        let times = [0, 61, 3599, 90_000, 400_000].map(|s| time(SECOND * s));
        assert_eq!(times, ["0 ms", "61.0 s", "59 min 59 s", "25 h 0 min", "4 d 15 h"]);
    }
}
