//! [`Pacer`]: how much may be emitted by now.

use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::SourceStatus;
use stillstream_runtime::clock::Clock;

use crate::ConnectorError;

/// A source that was held up makes up for at most this much of what it missed.
const LARGEST_BURST: Duration = Duration::from_secs(1);

/// How fast a source may go.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) enum Rate {
    #[default]
    Unlimited,
    /// Over all subtasks.
    RecordsPerSecond(f64),
    /// All input in this time.
    SpreadOver(Duration),
}

impl Rate {
    pub fn check(self) -> Result<(), ConnectorError> {
        match self {
            Self::RecordsPerSecond(rate) if !(rate.is_finite() && rate > 0.0) => {
                Err(ConnectorError::Setting {
                    setting: "records_per_second",
                    found: rate.to_string(),
                    expected: "a number above 0",
                })
            }
            _ => Ok(()),
        }
    }
}

impl Rate {
    /// Input that goes on growing cannot be spread over a time.
    pub fn check_watched(self, watched: bool) -> Result<(), ConnectorError> {
        match self {
            Self::SpreadOver(_) if watched => Err(ConnectorError::Setting {
                setting: "spread_over",
                found: "set together with watch".into(),
                expected: "records_per_second, since nobody knows how much input there will be",
            }),
            _ => Ok(()),
        }
    }
}

/// Gives out units (records, bytes) at a rate: whoever takes more than was due waits until that is made up.
#[derive(Debug)]
pub(crate) struct Pacer {
    clock: Arc<dyn Clock>,
    per_second: f64,
    last: Duration,
    /// What is due and not taken; negative after more was taken.
    balance: f64,
}

impl Pacer {
    pub fn new(clock: Arc<dyn Clock>, per_second: f64) -> Self {
        let last = clock.elapsed();
        Self { clock, per_second, last, balance: 0.0 }
    }

    /// How many units are due, at least one; or when to ask again.
    pub fn due(&mut self) -> Result<f64, SourceStatus> {
        let now = self.clock.elapsed();
        let passed = now.saturating_sub(self.last);
        self.last = now;
        self.balance += passed.as_secs_f64() * self.per_second;
        self.balance = self.balance.min(LARGEST_BURST.as_secs_f64() * self.per_second);
        if self.balance >= -1e-6 {
            return Ok(self.balance.max(1.0));
        }
        let wait_ms = (-self.balance / self.per_second * 1000.0).ceil() as i64;
        Err(SourceStatus::Idle { until_ms: Some(self.clock.now_ms().saturating_add(wait_ms.max(1))) })
    }

    pub fn take(&mut self, units: u64) {
        self.balance -= units as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillstream_runtime::clock::ManualClock;

    #[test]
    fn what_is_given_out_follows_the_clock() {
        let clock = Arc::new(ManualClock::default());
        let mut pacer = Pacer::new(clock.clone(), 100.0);
        let mut taken = 0;
        for ms in 0..1000 {
            clock.set_ms(ms);
            while let Ok(due) = pacer.due() {
                pacer.take(due as u64);
                taken += due as u64;
            }
        }
        assert!((99..=101).contains(&taken), "{taken}");
    }

    #[test]
    fn a_source_that_must_wait_is_told_until_when() {
        let clock = Arc::new(ManualClock::default());
        let mut pacer = Pacer::new(clock.clone(), 100.0);
        pacer.take(5);
        assert_eq!(pacer.due(), Err(SourceStatus::Idle { until_ms: Some(50) }));
        clock.set_ms(50);
        assert!(pacer.due().is_ok());
    }

    #[test]
    fn a_source_that_was_held_up_makes_up_for_one_second() {
        let clock = Arc::new(ManualClock::default());
        let mut pacer = Pacer::new(clock.clone(), 100.0);
        clock.set_ms(3_600_000);
        assert_eq!(pacer.due(), Ok(100.0));
    }

    #[test]
    fn a_rate_that_is_not_above_zero_is_refused() {
        for rate in [0.0, -1.0, f64::NAN] {
            assert!(
                Rate::RecordsPerSecond(rate).check().unwrap_err().to_string().contains("records_per_second")
            );
        }
    }
}
