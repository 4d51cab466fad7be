//! Restart strategies: whether a failed job runs again, and after which pause. Names and defaults are
//! Flink's.

use std::collections::VecDeque;
use std::time::Duration;

use stillstream_types::{CheckpointId, RestartStrategy};

/// The answer to a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestartDecision {
    /// Run again after this pause.
    RestartAfter(Duration),
    /// Give up; the sentence says why and which key changes it.
    Fail(String),
}

/// Counts failures that are the same and happen at the same place, which a restart alone hardly mends.
#[derive(Clone, Debug, Default)]
pub struct Repetition {
    last: Option<(Option<CheckpointId>, String)>,
    times: u64,
}

impl Repetition {
    /// An attempt failed with this error when `newest` was the newest completed checkpoint. How often in a
    /// row that has happened, this time included.
    pub fn on_failure(&mut self, newest: Option<CheckpointId>, error: &str) -> u64 {
        let same = matches!(&self.last, Some((at, text)) if *at == newest && text == error);
        if same {
            self.times += 1;
        } else {
            self.times = 1;
            self.last = Some((newest, error.to_owned()));
        }
        self.times
    }
}

/// A strategy at work.
#[derive(Clone, Debug)]
pub struct RestartTracker {
    config: RestartStrategy,
    attempts: u32,
    failures: VecDeque<Duration>,
    // exponential-delay: when the last restart began
    restarted_at: Duration,
}

impl RestartTracker {
    /// A strategy that has seen no failure.
    pub fn new(config: RestartStrategy) -> Self {
        Self { config, attempts: 0, failures: VecDeque::new(), restarted_at: Duration::ZERO }
    }

    /// The job failed at `now` (any monotonic zero). `random` is a fresh number from 0 to 1, used for jitter
    /// only.
    pub fn on_failure(&mut self, now: Duration, random: f64) -> RestartDecision {
        match self.config {
            RestartStrategy::None => RestartDecision::Fail(
                "the restart strategy is `none`; `restart-strategy.type` or enabling checkpoints changes that"
                    .to_owned(),
            ),
            RestartStrategy::FixedDelay { attempts, delay } => {
                if self.attempts >= attempts {
                    return RestartDecision::Fail(format!(
                        "all {attempts} restarts of `restart-strategy.fixed-delay.attempts` are used up"
                    ));
                }
                self.attempts += 1;
                RestartDecision::RestartAfter(delay)
            }
            RestartStrategy::FailureRate { max_failures_per_interval, interval, delay } => {
                while self.failures.front().is_some_and(|at| now.saturating_sub(*at) > interval) {
                    self.failures.pop_front();
                }
                self.failures.push_back(now);
                if self.failures.len() > max_failures_per_interval as usize {
                    return RestartDecision::Fail(format!(
                        "{} failures within {interval:?}: at most {max_failures_per_interval} are allowed by \
                         `restart-strategy.failure-rate.max-failures-per-interval`",
                        self.failures.len()
                    ));
                }
                RestartDecision::RestartAfter(delay)
            }
            RestartStrategy::ExponentialDelay {
                initial_backoff,
                max_backoff,
                backoff_multiplier,
                reset_backoff_threshold,
                jitter_factor,
                attempts_before_reset_backoff,
            } => {
                if self.attempts > 0 && now.saturating_sub(self.restarted_at) >= reset_backoff_threshold {
                    self.attempts = 0;
                }
                if self.attempts >= attempts_before_reset_backoff {
                    return RestartDecision::Fail(format!(
                        "all {attempts_before_reset_backoff} restarts of \
                         `restart-strategy.exponential-delay.attempts-before-reset-backoff` are used up"
                    ));
                }
                let (initial, max) = (initial_backoff.as_secs_f64(), max_backoff.as_secs_f64());
                let grown = initial * backoff_multiplier.max(1.0).powf(f64::from(self.attempts));
                let pause = grown.min(max);
                let spread = pause * jitter_factor.clamp(0.0, 1.0) * (random.clamp(0.0, 1.0) * 2.0 - 1.0);
                let pause = (pause + spread).min(max).max(initial.min(max)).max(0.0);
                let pause = Duration::try_from_secs_f64(pause).unwrap_or(max_backoff);
                self.attempts += 1;
                self.restarted_at = now + pause;
                RestartDecision::RestartAfter(pause)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_at_the_same_checkpoint_is_counted_until_the_job_gets_further() {
        let (mut repetition, at) = (Repetition::default(), Some(CheckpointId(7)));
        assert_eq!(repetition.on_failure(at, "a bad record"), 1);
        assert_eq!(repetition.on_failure(at, "a bad record"), 2);
        assert_eq!(repetition.on_failure(Some(CheckpointId(8)), "a bad record"), 1, "the job got further");
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn pause(decision: RestartDecision) -> f64 {
        match decision {
            RestartDecision::RestartAfter(pause) => pause.as_secs_f64(),
            RestartDecision::Fail(reason) => panic!("gave up: {reason}"),
        }
    }

    #[test]
    fn without_checkpoints_the_first_failure_is_the_last() {
        let mut strategy = RestartTracker::new(RestartStrategy::default_for(false));
        let RestartDecision::Fail(reason) = strategy.on_failure(secs(1), 0.0) else { panic!("restarted") };
        assert!(reason.contains("restart-strategy.type"));
    }

    #[test]
    fn with_checkpoints_the_default_restarts_without_a_limit_and_ever_more_slowly() {
        let mut strategy = RestartTracker::new(RestartStrategy::default_for(true));
        let pauses: Vec<f64> = (0..1000).map(|n| pause(strategy.on_failure(secs(n), 0.5))).collect();
        assert_eq!((pauses[0], pauses[999]), (1.0, 60.0));
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn another_error_or_another_place_begins_the_count_of_equal_failures_anew() {
        let mut repetition = Repetition::default();
        let (first, second) = (Some(CheckpointId(1)), Some(CheckpointId(2)));
        let seen = [
            (None, "a"),
            (None, "a"),
            (first, "a"),
            (first, "a"),
            (first, "b"),
            (second, "b"),
            (second, "b"),
        ];
        let times: Vec<u64> = seen.iter().map(|(at, error)| repetition.on_failure(*at, error)).collect();
        assert_eq!(times, [1, 2, 1, 2, 1, 1, 2]);
    }

    #[test]
    fn failure_rate_gives_up_at_one_failure_more_than_allowed_within_the_sliding_interval() {
        let config =
            RestartStrategy::FailureRate { max_failures_per_interval: 2, interval: secs(60), delay: secs(1) };
        let mut strategy = RestartTracker::new(config);
        for at in [0, 30, 61, 91] {
            assert_eq!(pause(strategy.on_failure(secs(at), 0.0)), 1.0, "{at}");
        }
        assert!(matches!(strategy.on_failure(secs(100), 0.0), RestartDecision::Fail(_)));
    }

    #[test]
    fn exponential_delay_grows_to_its_maximum_and_starts_again_after_healthy_time() {
        let mut strategy = RestartTracker::new(RestartStrategy::default_for(true));
        let mut now = secs(0);
        let pauses: Vec<f64> = (0..13)
            .map(|_| {
                let pause = pause(strategy.on_failure(now, 0.5));
                now += Duration::from_secs_f64(pause) + secs(10);
                pause
            })
            .collect();
        assert_eq!(pauses[..4], [1.0, 1.5, 2.25, 3.375]);
        assert_eq!(pauses[11..], [60.0, 60.0]);
        assert_eq!(pause(strategy.on_failure(now + secs(3600), 0.5)), 1.0);
    }

    #[test]
    fn jitter_spreads_the_pause_but_never_below_the_first_or_above_the_longest() {
        let second_pause = |random| {
            let mut strategy = RestartTracker::new(RestartStrategy::default_for(true));
            assert!(pause(strategy.on_failure(secs(0), 0.0)) >= 1.0);
            pause(strategy.on_failure(secs(2), random))
        };
        assert!((second_pause(0.0) - 1.35).abs() < 1e-9);
        assert!((second_pause(1.0) - 1.65).abs() < 1e-9);
    }

    #[test]
    fn exponential_delay_can_have_a_limit_of_attempts() {
        let mut config = RestartStrategy::default_for(true);
        if let RestartStrategy::ExponentialDelay { attempts_before_reset_backoff, .. } = &mut config {
            *attempts_before_reset_backoff = 2;
        }
        let mut strategy = RestartTracker::new(config);
        assert_eq!(pause(strategy.on_failure(secs(0), 0.5)), 1.0);
        assert_eq!(pause(strategy.on_failure(secs(5), 0.5)), 1.5);
        assert!(matches!(strategy.on_failure(secs(10), 0.5), RestartDecision::Fail(_)));
    }
}
