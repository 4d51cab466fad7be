//! What the JobManager is told of event time on a subtask's channels, and how often.

use std::time::Duration;

use timely::scheduling::Activator;

use crate::clock::Clock;
use crate::control::{ChannelTime, TaskTime};
use crate::operator::event_time::Combined;

/// The JobManager is told at most this often.
const EVERY: Duration = Duration::from_millis(500);

/// What the JobManager has been told, and when it may be told more.
pub(crate) struct TimeReports {
    told: Vec<ChannelTime>,
    has_news: bool,
    scheduled: bool,
    next: Duration,
}

impl Default for TimeReports {
    fn default() -> Self {
        // at first that there is nothing yet: a channel that never says anything is to be seen too
        Self { told: Vec::new(), has_news: true, scheduled: false, next: Duration::ZERO }
    }
}

impl TimeReports {
    /// A mark has come.
    #[inline]
    pub fn note(&mut self, has_news: bool) {
        self.has_news |= has_news;
    }

    /// What there is to tell now, if there is something. If it is too early, `activator` runs the task again
    /// in time.
    pub fn due(&mut self, time: &Combined, clock: &dyn Clock, activator: &Activator) -> Option<TaskTime> {
        if !self.has_news {
            return None;
        }
        let now = clock.elapsed();
        if let Some(wait) = self.next.checked_sub(now).filter(|wait| !wait.is_zero()) {
            if !std::mem::replace(&mut self.scheduled, true) {
                activator.activate_after(wait);
            }
            return None;
        }
        let now_ms = clock.now_ms();
        for channel in 0..time.len() {
            let time = time.channel(channel);
            match self.told.get_mut(channel) {
                Some(known) if known.time.watermark == time.watermark => known.time = time,
                Some(known) => *known = ChannelTime { time, moved_at_ms: now_ms },
                None => self.told.push(ChannelTime { time, moved_at_ms: now_ms }),
            }
        }
        (self.has_news, self.scheduled, self.next) = (false, false, now + EVERY);
        Some(TaskTime { combined: time.time(), channels: self.told.clone() })
    }
}
