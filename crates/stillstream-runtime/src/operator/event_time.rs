//! Event time on channels: marks between records, and what a receiver makes of the marks of all its channels.
//!
//! A *channel* is one edge from one sending subtask to one receiving subtask. Timely keeps the order of what
//! one sender gives to one receiver, within a process and over TCP, and so a mark stays where its sender put
//! it: behind every record that was emitted before it, and before every later one. Everything in this module
//! relies on that order and on nothing else; `tests/event_time/order.rs` of `stillstream` would notice if it
//! were broken.

pub use stillstream_types::EventTime;

/// What a batch says of event time: from record `at` on, the channel's event time is `time`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// How many records of the batch come before it.
    pub at: u32,
    /// What holds from there on.
    pub time: EventTime,
}

/// One channel, or one split of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Channel {
    time: EventTime,
    /// The last watermark before the end of the input, which is not a moment in time.
    reached: i64,
}

/// Combines the event time of several channels, as Flink's `StatusWatermarkValve` does.
///
/// The watermark is the least one over the active channels. A channel that comes back from being idle and is
/// behind takes part once it has caught up. When all are idle the largest watermark counts. A channel that
/// has ended holds nobody back, and is no reason to end: the combination ends when all have ended.
///
/// ```
/// use stillstream_runtime::event_time::{Combined, EventTime};
/// let at = |watermark| EventTime { watermark, idle: false };
/// let idle = |watermark| EventTime { watermark, idle: true };
///
/// let mut combined = Combined::new(2);
/// assert_eq!(combined.update(0, at(5)), None, "the other one has said nothing");
/// assert_eq!(combined.update(1, at(9)), Some(at(5)));
/// assert_eq!(combined.update(0, idle(5)), Some(at(9)));
/// assert_eq!(combined.update(0, at(7)), None, "active again, and behind");
/// assert_eq!(combined.update(1, at(20)), Some(at(20)), "who is behind does not count");
/// assert_eq!(combined.update(0, at(20)), None, "it has caught up");
/// assert_eq!(combined.update(1, at(30)), None, "and now it holds the other one back");
/// ```
#[derive(Clone, Debug)]
pub struct Combined {
    channels: Vec<Channel>,
    time: EventTime,
    /// One that is active and behind the combination holds it where it is.
    behind_holds: bool,
}

impl Combined {
    /// So many channels, each at the beginning of time.
    pub fn new(channels: usize) -> Self {
        let start = Channel { time: EventTime::START, reached: i64::MIN };
        Self { channels: vec![start; channels], time: EventTime::START, behind_holds: false }
    }

    /// Splits of a source instead of channels, as in Flink's `WatermarkOutputMultiplexer`: one that is new or
    /// comes back holds event time where it is until it has caught up. No split has been opened yet.
    pub fn of_splits() -> Self {
        Self { behind_holds: true, ..Self::new(0) }
    }

    /// What holds now.
    pub fn time(&self) -> EventTime {
        self.time
    }

    /// What channel `channel` has said last.
    pub fn channel(&self, channel: usize) -> EventTime {
        self.channels.get(channel).map_or(EventTime::START, |channel| channel.time)
    }

    /// How many channels there are.
    pub fn len(&self) -> usize {
        self.channels.len()
    }

    /// Whether there is no channel.
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Makes room for channels up to and including `channel`.
    pub fn reserve(&mut self, channel: usize) {
        let start = Channel { time: EventTime::START, reached: i64::MIN };
        if channel >= self.channels.len() {
            self.channels.resize(channel + 1, start);
        }
    }

    /// Starts a split again from the beginning of time: what it holds back, it holds where event time is now.
    pub fn reopen(&mut self, channel: usize) {
        if let Some(slot) = self.channels.get_mut(channel) {
            slot.time = EventTime::START;
            self.time.idle = false;
            if self.time.is_end() {
                // all others have been read through
                self.time.watermark =
                    self.channels.iter().map(|channel| channel.reached).max().unwrap_or(i64::MIN);
            }
        }
    }

    /// Takes what `channel` says, and returns what holds from now on if that has changed.
    #[inline]
    pub fn update(&mut self, channel: usize, time: EventTime) -> Option<EventTime> {
        let slot = self.channels.get_mut(channel)?;
        let before = slot.time;
        slot.time = EventTime { watermark: before.watermark.max(time.watermark), idle: time.idle };
        if slot.time == before {
            return None;
        }
        if !slot.time.is_end() {
            slot.reached = slot.time.watermark;
            if !self.time.idle && !before.idle && !time.idle && before.watermark > self.time.watermark {
                // another channel holds the least watermark
                return None;
            }
        }
        self.combine(!before.idle && before.watermark >= self.time.watermark)
    }

    /// `took_part`: whether the channel that has changed was one of those that count.
    fn combine(&mut self, took_part: bool) -> Option<EventTime> {
        let now = self.time.watermark;
        let (mut active, mut ended, mut least, mut largest) = (false, true, None::<i64>, now);
        for Channel { time, reached } in &self.channels {
            largest = largest.max(*reached);
            if time.is_end() {
                continue;
            }
            ended = false;
            if !time.idle {
                active = true;
                if time.watermark >= now || self.behind_holds {
                    let watermark = time.watermark.max(now);
                    least = Some(least.map_or(watermark, |least| least.min(watermark)));
                }
            }
        }
        let combined = match (ended, active) {
            (true, _) => EventTime::END,
            (false, true) => EventTime { watermark: least.unwrap_or(now), idle: false },
            (false, false) => EventTime { watermark: if took_part { largest } else { now }, idle: true },
        };
        (std::mem::replace(&mut self.time, combined) != combined).then_some(combined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(watermark: i64) -> EventTime {
        EventTime { watermark, idle: false }
    }

    fn idle(watermark: i64) -> EventTime {
        EventTime { watermark, idle: true }
    }

    #[test]
    fn the_least_watermark_of_the_active_channels_counts() {
        let mut combined = Combined::new(3);
        assert_eq!(combined.update(0, at(10)), None);
        assert_eq!(combined.update(1, at(20)), None);
        assert_eq!(combined.update(2, at(5)), Some(at(5)));
        assert_eq!(combined.update(2, at(15)), Some(at(10)));
        assert_eq!(combined.update(1, at(30)), None, "it did not hold the others back");
        assert_eq!(combined.update(0, at(4)), None, "a watermark never goes back");
        assert_eq!(combined.update(0, idle(10)), Some(at(15)));
    }

    #[test]
    fn when_all_are_idle_the_largest_watermark_counts() {
        let mut combined = Combined::new(3);
        combined.update(0, at(10));
        combined.update(1, at(20));
        combined.update(2, at(5));
        assert_eq!(combined.update(1, idle(20)), None);
        assert_eq!(combined.update(2, idle(5)), Some(at(10)));
        assert_eq!(combined.update(0, idle(10)), Some(idle(20)));
        assert_eq!(combined.update(0, at(10)), Some(at(20)), "active again");
        assert_eq!(combined.update(0, idle(10)), Some(idle(20)));
    }

    #[test]
    fn a_channel_that_is_behind_takes_part_when_it_has_caught_up() {
        let mut combined = Combined::new(2);
        combined.update(0, idle(i64::MIN));
        assert_eq!(combined.update(1, at(100)), Some(at(100)));
        assert_eq!(combined.update(0, at(50)), None);
        assert_eq!(combined.update(1, at(200)), Some(at(200)));
        assert_eq!(combined.update(0, at(199)), None);
        assert_eq!(combined.update(0, at(200)), None);
        assert_eq!(combined.update(1, at(300)), None, "now it holds the other one back");
        // behind and idle: that says nothing about the others
        let mut combined = Combined::new(3);
        combined.update(0, idle(i64::MIN));
        combined.update(1, idle(500));
        combined.update(2, at(100));
        combined.update(0, at(30));
        assert_eq!(combined.update(2, idle(100)), None, "the first one is active, and behind");
        assert_eq!(combined.update(0, idle(30)), Some(idle(100)), "it did not count, so nothing moves");
    }

    #[test]
    fn one_that_has_ended_neither_holds_the_others_back_nor_ends_them() {
        let mut combined = Combined::new(3);
        combined.update(0, at(10));
        combined.update(1, at(20));
        combined.update(2, at(30));
        assert_eq!(combined.update(0, EventTime::END), Some(at(20)));
        assert_eq!(combined.update(1, idle(20)), Some(at(30)));
        assert_eq!(combined.update(2, idle(30)), Some(idle(30)), "nobody is active, and the input goes on");
        assert_eq!(combined.update(2, at(40)), Some(at(40)));
        assert_eq!(combined.update(1, EventTime::END), None);
        assert_eq!(combined.update(2, EventTime::END), Some(EventTime::END));
    }
}
