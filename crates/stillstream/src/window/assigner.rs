//! Which windows a record belongs to. The formulas are Flink's.

use std::fmt;
use std::time::Duration;

use stillstream_types::Timestamp;

/// A window: from `start` up to, but without, `end`.
///
/// ```
/// use stillstream::prelude::*;
/// let window = TimeWindow { start: Timestamp::from_millis(0), end: Timestamp::from_millis(1000) };
/// assert_eq!(window.max_timestamp(), Timestamp::from_millis(999));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimeWindow {
    /// The first moment.
    pub start: Timestamp,
    /// The first moment after the window.
    pub end: Timestamp,
}

impl TimeWindow {
    pub(crate) fn from_millis(start: i64, end: i64) -> Self {
        Self { start: Timestamp::from_millis(start), end: Timestamp::from_millis(end) }
    }

    /// The last millisecond of the window: the event time of its results.
    pub fn max_timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.end.as_millis().saturating_sub(1))
    }

    /// How long it is.
    pub fn len(&self) -> Duration {
        self.end - self.start
    }

    /// Whether it holds no moment.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

impl fmt::Display for TimeWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

fn as_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Windows of fixed size at fixed places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fixed {
    pub size: i64,
    pub slide: i64,
    pub offset: i64,
}

impl Fixed {
    /// The start of the last window that holds `time`.
    #[inline(always)]
    pub fn last_start(&self, time: i64) -> i64 {
        time.saturating_sub(time.saturating_sub(self.offset).rem_euclid(self.slide))
    }

    /// The starts of all windows that hold `time`, the last one first.
    #[inline(always)]
    pub fn starts(&self, time: i64) -> impl Iterator<Item = i64> + use<> {
        let (size, slide, mut start) = (self.size, self.slide, Some(self.last_start(time)));
        std::iter::from_fn(move || {
            let this = start.filter(|start| *start > time.saturating_sub(size))?;
            start = this.checked_sub(slide);
            Some(this)
        })
    }

    /// The last millisecond of the window that starts at `start`.
    #[inline(always)]
    pub fn max_timestamp(&self, start: i64) -> i64 {
        start.saturating_add(self.size - 1)
    }

    pub fn window(&self, start: i64) -> TimeWindow {
        TimeWindow::from_millis(start, start.saturating_add(self.size))
    }
}

/// What an assigner comes down to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    #[doc(hidden)]
    Fixed { size: i64, slide: i64, offset: i64 },
    #[doc(hidden)]
    Session { gap: i64 },
}

/// Windows that a keyed stream can be cut into: [`Tumbling`], [`Sliding`], [`Session`].
pub trait WindowAssigner {
    /// The windows, or what is wrong with them.
    #[doc(hidden)]
    fn shape(&self) -> Result<Shape, String>;
}

/// Windows side by side: each record belongs to one.
///
/// ```
/// use stillstream::prelude::*;
/// let day_in_utc_plus_8 = Tumbling::of(days(1)).offset_back(hours(8));
/// # let _ = day_in_utc_plus_8;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tumbling {
    size: i64,
    offset: i64,
}

impl Tumbling {
    /// Windows of this size; they start at 1970-01-01T00:00:00Z and every `size` from there.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let hourly = Tumbling::of(hours(1));
    /// # let _ = hourly;
    /// ```
    pub fn of(size: Duration) -> Self {
        Self { size: as_millis(size), offset: 0 }
    }

    /// Moves the windows: with an offset of 15 minutes, hourly windows start at a quarter past.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let at_a_quarter_past = Tumbling::of(hours(1)).offset(minutes(15));
    /// # let _ = at_a_quarter_past;
    /// ```
    pub fn offset(self, offset: Duration) -> Self {
        Self { offset: as_millis(offset), ..self }
    }

    /// Moves the windows the other way: days of a zone 8 hours ahead of UTC start 8 hours before UTC's.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let days_in_singapore = Tumbling::of(days(1)).offset_back(hours(8));
    /// # let _ = days_in_singapore;
    /// ```
    pub fn offset_back(self, offset: Duration) -> Self {
        Self { offset: -as_millis(offset), ..self }
    }
}

impl WindowAssigner for Tumbling {
    fn shape(&self) -> Result<Shape, String> {
        if self.size <= 0 {
            return Err("Tumbling::of takes a size of at least one millisecond".into());
        }
        check_offset("Tumbling", self.offset, self.size)?;
        Ok(Shape::Fixed { size: self.size, slide: self.size, offset: self.offset })
    }
}

fn check_offset(name: &str, offset: i64, slide: i64) -> Result<(), String> {
    match offset.unsigned_abs() < slide.unsigned_abs() {
        true => Ok(()),
        false => Err(format!(
            "{name} windows that start every {slide} ms cannot be moved by {offset} ms: give an offset below that"
        )),
    }
}

/// Windows that overlap: each record belongs to `size / slide` of them.
///
/// ```
/// use stillstream::prelude::*;
/// let last_hour_every_5_minutes = Sliding::of(hours(1), minutes(5));
/// # let _ = last_hour_every_5_minutes;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sliding {
    size: i64,
    slide: i64,
    offset: i64,
}

impl Sliding {
    /// Windows of size `size`, one every `slide`.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let last_day_every_hour = Sliding::of(days(1), hours(1));
    /// # let _ = last_day_every_hour;
    /// ```
    pub fn of(size: Duration, slide: Duration) -> Self {
        Self { size: as_millis(size), slide: as_millis(slide), offset: 0 }
    }

    /// Moves the windows.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let at_ten_past = Sliding::of(days(1), hours(1)).offset(minutes(10));
    /// # let _ = at_ten_past;
    /// ```
    pub fn offset(self, offset: Duration) -> Self {
        Self { offset: as_millis(offset), ..self }
    }
}

impl WindowAssigner for Sliding {
    fn shape(&self) -> Result<Shape, String> {
        if self.size <= 0 || self.slide <= 0 {
            return Err("Sliding::of takes a size and a slide of at least one millisecond".into());
        }
        check_offset("Sliding", self.offset, self.slide)?;
        Ok(Shape::Fixed { size: self.size, slide: self.slide, offset: self.offset })
    }
}

/// Windows that last as long as a key is active: a session ends when nothing has come for `gap` of event time.
///
/// ```
/// use stillstream::prelude::*;
/// let visits = Session::with_gap(minutes(30));
/// # let _ = visits;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Session {
    gap: i64,
}

impl Session {
    /// Sessions that end after this gap. Records exactly `gap` apart are in one session, as in Flink.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let visits = Session::with_gap(minutes(30));
    /// # let _ = visits;
    /// ```
    pub fn with_gap(gap: Duration) -> Self {
        Self { gap: as_millis(gap) }
    }
}

impl WindowAssigner for Session {
    fn shape(&self) -> Result<Shape, String> {
        match self.gap > 0 {
            true => Ok(Shape::Session { gap: self.gap }),
            false => Err("Session::with_gap takes a gap of at least one millisecond".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillstream_types::time::{hours, millis};

    fn fixed(assigner: impl WindowAssigner) -> Fixed {
        match assigner.shape().unwrap() {
            Shape::Fixed { size, slide, offset } => Fixed { size, slide, offset },
            Shape::Session { .. } => panic!("not fixed"),
        }
    }

    #[test]
    fn times_before_1970_have_windows_too() {
        let windows = fixed(Tumbling::of(millis(10)));
        assert_eq!([-11, -10, -1, 0, 9, 10].map(|time| windows.last_start(time)), [-20, -10, -10, 0, 0, 10]);
    }

    #[test]
    fn an_offset_moves_the_windows() {
        let windows = fixed(Tumbling::of(hours(1)).offset(millis(5)));
        assert_eq!((windows.last_start(4), windows.last_start(5)), (5 - 3_600_000, 5));
        let back = fixed(Tumbling::of(hours(24)).offset_back(hours(8)));
        assert_eq!(back.last_start(0), -8 * 3_600_000);
    }

    #[test]
    fn a_record_is_in_every_sliding_window_that_holds_its_time() {
        let windows = fixed(Sliding::of(millis(10), millis(4)));
        for time in -30..30 {
            let starts: Vec<i64> = windows.starts(time).collect();
            let expected =
                (-60..60).rev().filter(|start| start % 4 == 0 && *start <= time && time < start + 10);
            assert_eq!(starts, expected.collect::<Vec<_>>(), "time {time}");
        }
    }

    #[test]
    fn a_slide_above_the_size_leaves_records_out() {
        let windows = fixed(Sliding::of(millis(2), millis(10)));
        assert_eq!([0, 1, 2, 9].map(|time| windows.starts(time).count()), [1, 1, 0, 0]);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let windows = fixed(Tumbling::of(hours(1)));
        for time in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
            let start = windows.last_start(time);
            assert!(start <= time && windows.max_timestamp(start) >= start);
        }
    }

    #[test]
    fn windows_that_cannot_be_are_refused_with_the_call() {
        assert!(Tumbling::of(Duration::ZERO).shape().unwrap_err().contains("Tumbling::of"));
        assert!(Sliding::of(hours(1), Duration::ZERO).shape().unwrap_err().contains("Sliding::of"));
        assert!(Session::with_gap(Duration::ZERO).shape().unwrap_err().contains("Session::with_gap"));
        assert!(Tumbling::of(hours(1)).offset(hours(1)).shape().unwrap_err().contains("offset below"));
    }
}
