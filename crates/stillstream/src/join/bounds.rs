//! [`TimeOffset`]: how much earlier or later, for the bounds of an interval join.

use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use crate::watermark::millis_of;

/// How much later than another moment, or earlier: a duration with a sign. A [`Duration`] is one that is not
/// negative.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::join::TimeOffset;
/// assert!(before(minutes(5)) < TimeOffset::from(Duration::ZERO));
/// assert_eq!(after(hours(1)), TimeOffset::from(hours(1)));
/// assert_eq!(before(seconds(1)).as_millis(), -1_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimeOffset {
    millis: i64,
}

impl TimeOffset {
    /// Milliseconds; negative for what is earlier.
    pub const fn as_millis(self) -> i64 {
        self.millis
    }
}

impl From<Duration> for TimeOffset {
    fn from(later: Duration) -> Self {
        Self { millis: millis_of(later) }
    }
}

/// So much earlier.
pub fn before(earlier: Duration) -> TimeOffset {
    TimeOffset { millis: -millis_of(earlier) }
}

/// So much later.
pub fn after(later: Duration) -> TimeOffset {
    later.into()
}

/// How far the second record's event time may be from the first one's: both bounds belong to it, in
/// milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interval {
    pub lower: i64,
    pub upper: i64,
}

impl Interval {
    /// The interval that a range means, or what is wrong with it.
    pub fn of<B: Into<TimeOffset> + Copy>(range: &impl RangeBounds<B>) -> Result<Self, String> {
        let unbounded = |which: &str| {
            Err(format!(
                "an interval join has no {which} bound, so it would keep every record for ever: give it a range with both, \
                 such as `Duration::ZERO..=hours(4)` or `before(minutes(5))..=after(hours(4))`"
            ))
        };
        let millis = |offset: B| -> TimeOffset { offset.into() };
        let lower = match range.start_bound() {
            Bound::Included(at) => millis(*at).millis,
            Bound::Excluded(at) => millis(*at).millis + 1,
            Bound::Unbounded => return unbounded("lower"),
        };
        let upper = match range.end_bound() {
            Bound::Included(at) => millis(*at).millis,
            Bound::Excluded(at) => millis(*at).millis - 1,
            Bound::Unbounded => return unbounded("upper"),
        };
        match lower <= upper {
            true => Ok(Self { lower, upper }),
            false => Err(format!(
                "the interval of a join is empty: its lower bound is {lower} ms and its upper one {upper} ms, both included; \
                 write the smaller bound first"
            )),
        }
    }

    /// The last moment at which a first record of that time can still find a partner that is not late.
    pub fn first_is_needed_until(&self, at: i64) -> i64 {
        at.saturating_add(self.upper.max(0))
    }

    /// The same for a second record.
    pub fn second_is_needed_until(&self, at: i64) -> i64 {
        at.saturating_sub(self.lower.min(0))
    }

    /// The time of the first records that are needed until then.
    pub fn first_of(&self, needed_until: i64) -> i64 {
        needed_until.saturating_sub(self.upper.max(0))
    }

    /// The time of the second records that are needed until then.
    pub fn second_of(&self, needed_until: i64) -> i64 {
        needed_until.saturating_add(self.lower.min(0))
    }

    /// Whether a first and a second record of these times are a pair.
    pub fn pairs(&self, first: i64, second: i64) -> bool {
        (first.saturating_add(self.lower)..=first.saturating_add(self.upper)).contains(&second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn bounds_are_inclusive_or_not_and_may_be_negative() {
        let of = |lower, upper| Ok(Interval { lower, upper });
        assert_eq!(Interval::of(&(Duration::ZERO..=seconds(4))), of(0, 4_000));
        assert_eq!(Interval::of(&(Duration::ZERO..seconds(4))), of(0, 3_999));
        assert_eq!(Interval::of(&(before(seconds(5))..=before(seconds(1)))), of(-5_000, -1_000));
        let excluded = (Bound::Excluded(before(seconds(5))), Bound::Excluded(after(seconds(1))));
        assert_eq!(Interval::of(&excluded), of(-4_999, 999));
    }

    #[test]
    fn an_interval_without_an_end_or_without_a_moment_is_refused() {
        let text = Interval::of(&(Duration::ZERO..)).unwrap_err();
        assert!(text.contains("no upper bound"), "{text}");
        let text = Interval::of(&(..seconds(1))).unwrap_err();
        assert!(text.contains("no lower bound"), "{text}");
        let text = Interval::of(&(seconds(1)..seconds(1))).unwrap_err();
        assert!(text.contains("1000 ms") && text.contains("999 ms"), "{text}");
    }
}
