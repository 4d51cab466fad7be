//! Which windows a record belongs to: [`Tumbling`], [`Sliding`], [`Session`], and
//! [`GlobalWindows`](super::GlobalWindows).

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use stillstream_state::{Data, TimeDomain};
use stillstream_types::Timestamp;

use crate::watermark::millis_of;

/// A span of time: of event time, or of processing time where the windows follow the clock.
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
    /// The one window of [`GlobalWindows`](super::GlobalWindows): all of time.
    pub const GLOBAL: Self = Self { start: Timestamp::MIN, end: Timestamp::MAX };

    /// Whether it is the window of [`GlobalWindows`](super::GlobalWindows), which never ends.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// assert!(TimeWindow::GLOBAL.is_global());
    /// assert_eq!(TimeWindow::GLOBAL.last(), Timestamp::MAX);
    /// ```
    pub fn is_global(self) -> bool {
        self == Self::GLOBAL
    }

    pub(crate) fn of(start: i64, end: i64) -> Self {
        Self { start: Timestamp::from_millis(start), end: Timestamp::from_millis(end) }
    }

    /// The last moment that belongs to it: `end` less 1 ms, or [`Timestamp::MAX`] for the global window. The
    /// results of a window that ends have this event time. Flink's `maxTimestamp`.
    pub fn last(self) -> Timestamp {
        match self.is_global() {
            true => Timestamp::MAX,
            false => self.end - Duration::from_millis(1),
        }
    }

    /// Whether a moment belongs to both, or one begins where the other ends: sessions merge then.
    pub(crate) fn touches(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// The least window that holds both.
    pub(crate) fn cover(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
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

/// Windows whose place does not depend on the record, its time aside.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Aligned(Aligned),
    Session { gap: i64 },
}

/// The gap after a record of a session.
pub type Gap<T> = Arc<dyn Fn(&T) -> Duration + Send + Sync>;

/// What an assigner comes down to.
pub enum Windows<T> {
    Fixed(Kind, TimeDomain),
    DynamicSession(Gap<T>, TimeDomain),
    Global { fire_at_end: bool },
}

impl<T> Clone for Windows<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Fixed(kind, domain) => Self::Fixed(*kind, *domain),
            Self::DynamicSession(gap, domain) => Self::DynamicSession(gap.clone(), *domain),
            Self::Global { fire_at_end } => Self::Global { fire_at_end: *fire_at_end },
        }
    }
}

impl<T> fmt::Debug for Windows<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(kind, domain) => write!(f, "{kind:?} of {domain:?}"),
            Self::DynamicSession(_, domain) => {
                write!(f, "sessions with a gap for each record, of {domain:?}")
            }
            Self::Global { .. } => f.write_str("the global window"),
        }
    }
}

impl<T> Windows<T> {
    /// Whether windows of a key merge.
    pub fn merge(&self) -> bool {
        matches!(self, Self::Fixed(Kind::Session { .. }, _) | Self::DynamicSession(..))
    }

    /// The time by which they end; `None` if they never do.
    pub fn domain(&self) -> Option<TimeDomain> {
        match self {
            Self::Fixed(_, domain) | Self::DynamicSession(_, domain) => Some(*domain),
            Self::Global { .. } => None,
        }
    }
}

mod sealed {
    use super::Windows;

    pub trait Assigner<T> {
        /// What it is, or what is wrong with it.
        fn windows(self) -> Result<Windows<T>, String>;
    }
}

pub(crate) use sealed::Assigner;

/// Says which windows a record of type `T` belongs to: [`Tumbling`], [`Sliding`], [`Session`],
/// [`DynamicSession`] or [`GlobalWindows`](super::GlobalWindows).
pub trait WindowAssigner<T>: sealed::Assigner<T> {}

impl<T, A: sealed::Assigner<T>> WindowAssigner<T> for A {}

fn at_least_1_ms(what: &str, duration: Duration) -> Result<i64, String> {
    match millis_of(duration) {
        0 => Err(format!("{what} is {duration:?}: windows have whole milliseconds, at least 1")),
        millis => Ok(millis),
    }
}

/// How far windows are moved, in milliseconds: between `-slide` and `slide`, as a whole slide changes
/// nothing.
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
    domain: TimeDomain,
    back: Duration,
}

impl Tumbling {
    /// Windows of this size; whole milliseconds, at least 1.
    pub const fn of(size: Duration) -> Self {
        Self { size, offset: Duration::ZERO, back: Duration::ZERO, domain: TimeDomain::EventTime }
    }

    /// Windows of processing time: a record belongs to the window in which it comes, and a window ends by the
    /// clock.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn load(requests: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     let seconds = Tumbling::of(seconds(1)).processing_time();
    ///     requests.key_by_ref(|request| &request.0).window(seconds).count()
    /// }
    /// ```
    pub const fn processing_time(self) -> Self {
        Self { domain: TimeDomain::ProcessingTime, ..self }
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

    /// Moves all windows back by this much, as a negative offset does in Flink: the days of a place 8 hours
    /// before UTC (UTC+8), which begin there at 16:00 UTC of the day before, are
    /// `Tumbling::of(days(1)).negative_offset(hours(8))`.
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

impl<T> sealed::Assigner<T> for Tumbling {
    fn windows(self) -> Result<Windows<T>, String> {
        let size = at_least_1_ms("the size of Tumbling", self.size)?;
        let offset = moved(self.offset, self.back, size);
        Ok(Windows::Fixed(Kind::Aligned(Aligned { size, slide: size, offset }), self.domain))
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
    domain: TimeDomain,
    back: Duration,
}

impl Sliding {
    /// Windows of this size, one every `slide`; both whole milliseconds, at least 1. With a slide larger than
    /// the size some records are in no window; they are dropped, and counted as
    /// `<operator name>.in_no_window`.
    pub const fn of(size: Duration, slide: Duration) -> Self {
        Self { size, slide, offset: Duration::ZERO, back: Duration::ZERO, domain: TimeDomain::EventTime }
    }

    /// Windows of processing time; see [`Tumbling::processing_time`].
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let last_minute = Sliding::of(minutes(1), seconds(1)).processing_time();
    /// # let _ = last_minute;
    /// ```
    pub const fn processing_time(self) -> Self {
        Self { domain: TimeDomain::ProcessingTime, ..self }
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

    /// Moves all windows back by this much, as a negative offset does in Flink: see
    /// [`Tumbling::negative_offset`].
    pub const fn negative_offset(self, back: Duration) -> Self {
        Self { back, ..self }
    }
}

impl<T> sealed::Assigner<T> for Sliding {
    fn windows(self) -> Result<Windows<T>, String> {
        let size = at_least_1_ms("the size of Sliding", self.size)?;
        let slide = at_least_1_ms("the slide of Sliding", self.slide)?;
        let aligned = Aligned { size, slide, offset: moved(self.offset, self.back, slide) };
        Ok(Windows::Fixed(Kind::Aligned(aligned), self.domain))
    }
}

/// One window per key and burst of records: it ends when no record came for more than the gap.
///
/// As in Flink, a record exactly `gap` after the last one still belongs to the session. A window starts at
/// its first record and ends `gap` after its last one.
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
    domain: TimeDomain,
}

impl Session {
    /// Sessions with this gap; whole milliseconds, at least 1.
    pub const fn with_gap(gap: Duration) -> Self {
        Self { gap, domain: TimeDomain::EventTime }
    }

    /// Sessions with a gap that each record says for itself: at least 1 ms, or the job fails with the reason.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// #[derive(Clone, Data)]
    /// struct Click { user: u64, on_phone: bool }
    ///
    /// fn visits(clicks: &DataStream<Click>) -> DataStream<(u64, u64)> {
    ///     let gap = |click: &Click| if click.on_phone { minutes(5) } else { minutes(30) };
    ///     clicks.key_by(|click| click.user).window(Session::with_dynamic_gap(gap)).count()
    /// }
    /// ```
    pub fn with_dynamic_gap<T, F>(gap: F) -> DynamicSession<T, F>
    where
        F: Fn(&T) -> Duration + Send + Sync + 'static,
    {
        DynamicSession { gap, domain: TimeDomain::EventTime, records: PhantomData }
    }

    /// Sessions of processing time: one ends when no record has come for the gap, by the clock.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let bursts = Session::with_gap(seconds(1)).processing_time();
    /// # let _ = bursts;
    /// ```
    pub const fn processing_time(self) -> Self {
        Self { domain: TimeDomain::ProcessingTime, ..self }
    }
}

impl<T> sealed::Assigner<T> for Session {
    fn windows(self) -> Result<Windows<T>, String> {
        let gap = at_least_1_ms("the gap of Session", self.gap)?;
        Ok(Windows::Fixed(Kind::Session { gap }, self.domain))
    }
}

/// Sessions whose gap depends on the record; see [`Session::with_dynamic_gap`].
#[derive(Clone, Copy)]
pub struct DynamicSession<T, F> {
    gap: F,
    domain: TimeDomain,
    records: PhantomData<fn(&T)>,
}

impl<T, F> fmt::Debug for DynamicSession<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicSession").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl<T, F> DynamicSession<T, F> {
    /// Sessions of processing time; see [`Session::processing_time`].
    pub fn processing_time(self) -> Self {
        Self { domain: TimeDomain::ProcessingTime, ..self }
    }
}

impl<T, F: Fn(&T) -> Duration + Send + Sync + 'static> sealed::Assigner<T> for DynamicSession<T, F> {
    fn windows(self) -> Result<Windows<T>, String> {
        Ok(Windows::DynamicSession(Arc::new(self.gap), self.domain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillstream_types::time::{days, hours, minutes};

    fn start(assigner: impl Assigner<u64>, time: &str) -> String {
        let Ok(Windows::Fixed(Kind::Aligned(aligned), _)) = assigner.windows() else {
            unreachable!("both are aligned")
        };
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
