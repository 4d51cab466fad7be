//! Which windows a record belongs to: [`Tumbling`], [`Sliding`], [`Session`].

use std::time::Duration;

use stillstream_state::Data;
use stillstream_types::Timestamp;

use crate::watermark::millis_of;

/// A span of event time.
///
/// ```
/// use stillstream::prelude::*;
/// let window = TimeWindow { start: Timestamp::from_millis(0), end: Timestamp::from_millis(1000) };
/// assert_eq!(window.last(), Timestamp::from_millis(999));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct TimeWindow {
    /// The first moment that belongs to it.
    pub start: Timestamp,
    /// The first moment after it.
    pub end: Timestamp,
}

impl TimeWindow {
    pub(crate) fn of(start: i64, end: i64) -> Self {
        Self { start: Timestamp::from_millis(start), end: Timestamp::from_millis(end) }
    }

    /// The last moment that belongs to it: `end` less 1 ms. Its result has this event time.
    pub fn last(self) -> Timestamp {
        self.end - Duration::from_millis(1)
    }
}

/// Windows of one size at fixed places, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Aligned {
    pub size: i64,
    pub slide: i64,
    pub offset: i64,
}

impl Aligned {
    /// The start of the latest window that begins at `time` or before.
    #[inline(always)]
    pub fn latest(&self, time: i64) -> i64 {
        time.saturating_sub(time.saturating_sub(self.offset).rem_euclid(self.slide))
    }

    /// The last moment of the window that starts there.
    #[inline(always)]
    pub fn last(&self, start: i64) -> i64 {
        start.saturating_add(self.size - 1)
    }

    pub fn window(&self, start: i64) -> TimeWindow {
        TimeWindow::of(start, start.saturating_add(self.size))
    }
}

/// What an assigner comes down to.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Aligned(Aligned),
    Session { gap: i64 },
}

mod sealed {
    use super::Kind;

    pub trait Assigner {
        /// What it is, or what is wrong with it.
        fn kind(&self) -> Result<Kind, String>;
    }
}

pub(crate) use sealed::Assigner;

/// Says which windows a record belongs to: [`Tumbling`], [`Sliding`] or [`Session`].
pub trait WindowAssigner: sealed::Assigner {}

impl<A: sealed::Assigner> WindowAssigner for A {}

fn at_least_1_ms(what: &str, duration: Duration) -> Result<i64, String> {
    match millis_of(duration) {
        0 => Err(format!("{what} is {duration:?}: windows have whole milliseconds, at least 1")),
        millis => Ok(millis),
    }
}

/// How far windows are moved, in milliseconds: between `-slide` and `slide`, as a whole slide changes nothing.
fn moved(offset: Duration, back: Duration, slide: i64) -> i64 {
    millis_of(offset) % slide - millis_of(back) % slide
}

/// Windows of one size, one after another, each record in exactly one. They start at 1970-01-01T00:00:00Z.
///
/// ```
/// use stillstream::prelude::*;
///
/// fn per_day(clicks: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
///     clicks.key_by_ref(|click| &click.0).window(Tumbling::of(days(1))).count()
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tumbling {
    size: Duration,
    offset: Duration,
    back: Duration,
}

impl Tumbling {
    /// Windows of this size; whole milliseconds, at least 1.
    pub const fn of(size: Duration) -> Self {
        Self { size, offset: Duration::ZERO, back: Duration::ZERO }
    }

    /// Moves all windows by this much: days that start at 06:00 are `Tumbling::of(days(1)).offset(hours(6))`.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let shifts = Tumbling::of(hours(8)).offset(hours(6));
    /// # let _ = shifts;
    /// ```
    pub const fn offset(self, offset: Duration) -> Self {
        Self { offset, ..self }
    }

    /// Moves all windows back by this much, as a negative offset does in Flink: the days of a place 8 hours before UTC
    /// (UTC+8), which begin there at 16:00 UTC of the day before, are `Tumbling::of(days(1)).negative_offset(hours(8))`.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let days_in_singapore = Tumbling::of(days(1)).negative_offset(hours(8));
    /// # let _ = days_in_singapore;
    /// ```
    pub const fn negative_offset(self, back: Duration) -> Self {
        Self { back, ..self }
    }
}

impl sealed::Assigner for Tumbling {
    fn kind(&self) -> Result<Kind, String> {
        let size = at_least_1_ms("the size of Tumbling", self.size)?;
        let offset = moved(self.offset, self.back, size);
        Ok(Kind::Aligned(Aligned { size, slide: size, offset }))
    }
}

/// Windows of one size that start every `slide`: each record is in `size / slide` of them.
///
/// ```
/// use stillstream::prelude::*;
///
/// fn last_hour(clicks: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
///     clicks.key_by_ref(|click| &click.0).window(Sliding::of(hours(1), minutes(5))).count()
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sliding {
    size: Duration,
    slide: Duration,
    offset: Duration,
    back: Duration,
}

impl Sliding {
    /// Windows of this size, one every `slide`; both whole milliseconds, at least 1. With a slide larger than the size
    /// some records are in no window; they are dropped and not counted as late.
    pub const fn of(size: Duration, slide: Duration) -> Self {
        Self { size, slide, offset: Duration::ZERO, back: Duration::ZERO }
    }

    /// Moves all windows by this much.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let half_past = Sliding::of(hours(2), hours(1)).offset(minutes(30));
    /// # let _ = half_past;
    /// ```
    pub const fn offset(self, offset: Duration) -> Self {
        Self { offset, ..self }
    }

    /// Moves all windows back by this much, as a negative offset does in Flink: see [`Tumbling::negative_offset`].
    pub const fn negative_offset(self, back: Duration) -> Self {
        Self { back, ..self }
    }
}

impl sealed::Assigner for Sliding {
    fn kind(&self) -> Result<Kind, String> {
        let size = at_least_1_ms("the size of Sliding", self.size)?;
        let slide = at_least_1_ms("the slide of Sliding", self.slide)?;
        Ok(Kind::Aligned(Aligned { size, slide, offset: moved(self.offset, self.back, slide) }))
    }
}

/// One window per key and burst of records: it ends when no record came for more than the gap.
///
/// As in Flink, a record exactly `gap` after the last one still belongs to the session. A window starts at its first
/// record and ends `gap` after its last one.
///
/// ```
/// use stillstream::prelude::*;
///
/// fn visits(clicks: &DataStream<(u64, String)>) -> DataStream<(u64, u64)> {
///     clicks.key_by(|click| click.0).window(Session::with_gap(minutes(30))).count()
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Session {
    gap: Duration,
}

impl Session {
    /// Sessions with this gap; whole milliseconds, at least 1.
    pub const fn with_gap(gap: Duration) -> Self {
        Self { gap }
    }
}

impl sealed::Assigner for Session {
    fn kind(&self) -> Result<Kind, String> {
        Ok(Kind::Session { gap: at_least_1_ms("the gap of Session", self.gap)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillstream_types::time::{days, hours, minutes};

    fn start(assigner: impl Assigner, time: &str) -> String {
        let Ok(Kind::Aligned(aligned)) = assigner.kind() else { unreachable!("both are aligned") };
        let time: Timestamp = time.parse().unwrap();
        aligned.window(aligned.latest(time.as_millis())).start.to_string()
    }

    #[test]
    fn a_day_east_of_greenwich_begins_on_the_day_before() {
        let day = Tumbling::of(days(1)).negative_offset(hours(8));
        assert_eq!(start(day, "2013-01-02T15:59:59.999Z"), "2013-01-01T16:00:00Z");
        assert_eq!(start(day, "2013-01-02T16:00:00Z"), "2013-01-02T16:00:00Z");
        let same = Tumbling::of(days(1)).offset(hours(16));
        for time in ["1969-12-31T15:59:00Z", "1970-01-01T00:00:00Z", "2013-01-02T16:00:00Z"] {
            assert_eq!(start(day, time), start(same, time), "{time}");
        }
    }

    #[test]
    fn an_offset_back_and_one_forward_add_up_and_may_be_longer_than_the_window() {
        let sliding = Sliding::of(hours(2), hours(1)).negative_offset(hours(3) + minutes(30));
        assert_eq!(start(sliding, "2013-01-01T10:31:00Z"), "2013-01-01T10:30:00Z");
        assert_eq!(start(sliding.offset(minutes(20)), "2013-01-01T10:31:00Z"), "2013-01-01T09:50:00Z");
    }
}
