//! A task's turn: how much it does before it sends what it has emitted and lets others run.
//!
//! What a task emits in one turn waits in its outputs until the turn's end, so that records for one worker
//! travel together. A turn ends after so many records, or after a share of `execution.buffer-timeout`,
//! whichever comes first. An operator is given at once no more than it does in that time: so a slow function
//! does not hold back the records before it in its batch.

use std::time::Duration;

use crate::clock::Clock;

/// A turn takes an eighth of the time that a record may wait: the tasks of a worker take turns.
const SHARE: u32 = 8;

/// When a turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnLimits {
    /// Records, over all operators of the task.
    records: usize,
    /// Time; `None`: it does not matter.
    time: Option<Duration>,
    /// As soon as there is something to send, and records are taken one by one.
    each_record: bool,
}

impl TurnLimits {
    /// After `records`, and before a record has waited for `buffer_timeout`: zero sends each record by
    /// itself, `None` looks at no clock.
    pub fn new(records: usize, buffer_timeout: Option<Duration>) -> Self {
        let each_record = buffer_timeout == Some(Duration::ZERO);
        let time = buffer_timeout.filter(|_| !each_record).map(|timeout| timeout / SHARE);
        Self { records: records.max(1), time, each_record }
    }

    /// The same with another time that a record may wait.
    pub fn with_timeout(self, buffer_timeout: Option<Duration>) -> Self {
        Self::new(self.records, buffer_timeout)
    }
}

/// One turn of one task.
pub(crate) struct Turn<'a> {
    limits: TurnLimits,
    clock: &'a dyn Clock,
    /// Records that it may still do.
    left: usize,
    begun: Duration,
    /// By the last look at the clock.
    now: Duration,
    /// When the work that [`Turn::settle`] will end was begun.
    settled: Duration,
    /// Work has been done since the last look at the clock.
    unread: bool,
    /// Every operator is timed, not only those that may be slow: something took long, and it is not known
    /// what.
    pub watchful: bool,
}

/// An operator that could do so many times the records in a turn is fast: its time is taken together with
/// that of others.
const FAST: usize = 16;

impl<'a> Turn<'a> {
    pub fn begin(limits: TurnLimits, clock: &'a dyn Clock) -> Self {
        let timed = limits.time.is_some() || limits.each_record;
        let now = if timed { clock.elapsed() } else { Duration::ZERO };
        let (left, unread, watchful) = (limits.records, false, true);
        Self { limits, clock, left, begun: now, now, settled: now, unread, watchful }
    }

    /// Whether time matters, so that the clock is read at all.
    pub fn is_timed(&self) -> bool {
        self.limits.time.is_some() || self.limits.each_record
    }

    /// When the turn began, if time matters.
    pub fn begun(&self) -> Duration {
        self.begun
    }

    /// Looks at the clock.
    pub fn read_now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Processing time.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Whether the task should send what it has. Never before it has done something.
    pub fn is_over(&self) -> bool {
        self.left == 0 || self.limits.time.is_some_and(|time| self.now - self.begun >= time)
    }

    /// How many records an operator with this pace is given at once.
    pub fn room(&self, pace: Pace) -> usize {
        match self.limits {
            TurnLimits { each_record: true, .. } => 1,
            TurnLimits { time: None, .. } => usize::MAX,
            // the first record tells how long they take
            TurnLimits { time: Some(_), .. } => pace.0.unwrap_or(1),
        }
    }

    /// Something lies in the task's outputs.
    pub fn emitted(&mut self) {
        if self.limits.each_record {
            self.left = 0;
        }
    }

    /// The operator with this pace has just done `records`.
    pub fn used(&mut self, records: usize, pace: &mut Pace) {
        self.left = self.left.saturating_sub(records + 1);
        let Some(time) = self.limits.time else { return };
        let fast = pace.0.is_some_and(|fit| fit / FAST >= records);
        if fast && !self.watchful {
            self.unread = true;
            return;
        }
        let before = self.now;
        self.read();
        if records > 0 {
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let took = nanos(self.now.saturating_sub(before)).max(1);
            let fit = (records as u64).saturating_mul(nanos(time)) / took;
            pace.0 = Some(usize::try_from(fit).unwrap_or(usize::MAX).max(1));
        }
    }

    fn read(&mut self) {
        self.now = self.clock.elapsed();
        self.unread = false;
    }

    /// All operators have done what there was to do. If that took long, they are timed one by one from now
    /// on.
    pub fn settle(&mut self) {
        let Some(time) = self.limits.time else { return };
        if self.unread {
            self.read();
        }
        let took = self.now.saturating_sub(std::mem::replace(&mut self.settled, self.now));
        self.watchful = took >= time / 4;
    }
}

/// How many records an operator does in the time of a turn, as it did the last ones; at least one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace(Option<usize>);

impl Pace {
    /// The slower one of both; one that has not been measured says nothing.
    pub fn slower(self, other: Self) -> Self {
        Self(self.0.into_iter().chain(other.0).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_turn_ends_after_its_records_or_its_time() {
        let (clock, limits) = (ManualClock::default(), TurnLimits::new(100, Some(80 * MS)));
        let mut turn = Turn::begin(limits, &clock);
        turn.used(98, &mut Pace::default());
        assert!(!turn.is_over());
        turn.used(1, &mut Pace::default());
        assert!(turn.is_over(), "a hundred, one for each batch included");
        let mut turn = Turn::begin(limits, &clock);
        clock.advance(9 * MS);
        turn.used(1, &mut Pace::default());
        assert!(!turn.is_over());
        clock.advance(MS);
        turn.used(1, &mut Pace::default());
        assert!(turn.is_over(), "an eighth of the timeout");
    }

    #[test]
    fn a_slow_operator_is_given_what_it_does_in_a_turn() {
        let clock = ManualClock::default();
        let (mut turn, mut pace) =
            (Turn::begin(TurnLimits::new(100, Some(80 * MS)), &clock), Pace::default());
        assert_eq!(turn.room(pace), 1, "nothing is known of it");
        clock.advance(2 * MS);
        turn.used(1, &mut pace);
        assert_eq!(turn.room(pace), 5);
        clock.advance(500 * MS);
        turn.used(5, &mut pace);
        assert_eq!(turn.room(pace), 1, "also one that takes longer than a turn for each record");
        assert_eq!(pace.slower(Pace::default()), pace);
        turn.used(7, &mut pace);
        assert!(turn.room(pace) > 1_000_000, "a fast one is not limited");
    }

    #[test]
    fn a_fast_operator_that_becomes_slow_is_noticed_when_all_have_worked() {
        let (clock, limits) = (ManualClock::default(), TurnLimits::new(10_000, Some(80 * MS)));
        let (mut turn, mut pace) = (Turn::begin(limits, &clock), Pace::default());
        clock.advance(MS);
        turn.used(1_000, &mut pace);
        turn.settle();
        assert_eq!((turn.room(pace), turn.watchful), (10_000, false));
        clock.advance(30 * MS);
        turn.used(10, &mut pace);
        assert_eq!((turn.room(pace), turn.is_over()), (10_000, false), "nobody has looked at the clock");
        turn.settle();
        assert!(turn.is_over() && turn.watchful);
        clock.advance(30 * MS);
        turn.used(10, &mut pace);
        assert_eq!(turn.room(pace), 3);
        turn.settle();
        assert!(turn.watchful, "a turn's share was used");
    }

    #[test]
    fn without_a_timeout_no_clock_matters_and_at_zero_each_record_is_a_turn() {
        let (clock, mut pace) = (ManualClock::default(), Pace::default());
        let mut turn = Turn::begin(TurnLimits::new(100, None), &clock);
        clock.advance(10_000 * MS);
        turn.used(1, &mut pace);
        assert_eq!((turn.is_over(), turn.room(pace)), (false, usize::MAX));
        let mut turn = Turn::begin(TurnLimits::new(100, Some(Duration::ZERO)), &clock);
        assert_eq!((turn.is_over(), turn.room(pace)), (false, 1));
        turn.used(1, &mut pace);
        assert!(!turn.is_over(), "there is nothing to send");
        turn.emitted();
        assert!(turn.is_over());
    }
}
