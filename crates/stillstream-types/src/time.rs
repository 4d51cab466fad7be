//! Event time in milliseconds since 1970-01-01T00:00:00Z, and short names for durations.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use crate::Error;

/// A point in event time or processing time: milliseconds since 1970-01-01T00:00:00Z.
///
/// Reads and writes RFC 3339 in UTC. Years outside of 0000 to 9999, which RFC 3339 does not have, carry a sign and may have
/// more digits (`+292278994-08-17T07:12:55.806Z`), as in ISO 8601; the two ends of time are `-infinity` and `infinity`.
/// Each timestamp that is written can be read. Also read are a space in place of `T`, a time without seconds, a date alone
/// (its midnight), and all of them without an offset, which are in UTC.
///
/// ```
/// use stillstream_types::{Timestamp, time::hours};
/// for text in ["2013-01-01", "2013-01-01 00:00", "2013-01-01T00:00:00.000", "2013-01-01T02:00:00+02:00"] {
///     assert_eq!(text.parse::<Timestamp>()?, Timestamp::from_seconds(1_356_998_400), "{text}");
/// }
/// let at: Timestamp = "2013-01-01T10:15:00Z".parse().unwrap();
/// assert_eq!((at + hours(2)).to_string(), "2013-01-01T12:15:00Z");
/// assert_eq!(at.truncate(hours(1)).to_string(), "2013-01-01T10:00:00Z");
/// # Ok::<(), stillstream_types::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Before every record.
    pub const MIN: Self = Self(i64::MIN);
    /// After every record: the watermark at the end of the input.
    pub const MAX: Self = Self(i64::MAX);

    /// From milliseconds since 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// From seconds since 1970.
    ///
    /// ```
    /// use stillstream_types::Timestamp;
    /// assert_eq!(Timestamp::from_seconds(1_700_000_000).to_string(), "2023-11-14T22:13:20Z");
    /// ```
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Milliseconds from `earlier` to `self`; negative if `earlier` is later. Subtraction gives a [`Duration`], which cannot be
    /// negative and is zero then.
    ///
    /// ```
    /// use stillstream_types::{Timestamp, time::seconds};
    /// let (early, late) = (Timestamp::from_seconds(10), Timestamp::from_seconds(12));
    /// assert_eq!((late.millis_since(early), early.millis_since(late)), (2_000, -2_000));
    /// assert_eq!((late - early, early - late), (seconds(2), seconds(0)));
    /// ```
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The start of the tumbling window of this size that holds the timestamp (windows start at 1970).
    ///
    /// A window that begins before time does starts at [`MIN`](Self::MIN).
    pub fn truncate(self, size: Duration) -> Self {
        let size = whole_millis(size).max(1);
        Self(self.0.saturating_sub(self.0.rem_euclid(size)))
    }
}

/// The milliseconds of a duration; one that is longer than time counts as all of it.
fn whole_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(whole_millis(by)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(whole_millis(by)))
    }
}

impl Sub for Timestamp {
    type Output = Duration;
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        // the whole of time is more than `i64` holds
        Duration::from_millis(if earlier < self { self.0.abs_diff(earlier.0) } else { 0 })
    }
}

/// A duration of `n` milliseconds.
pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}
/// A duration of `n` seconds.
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
/// A duration of `n` minutes.
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}
/// A duration of `n` hours.
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(n * 3600)
}
/// A duration of `n` days of 24 hours.
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(n * 86400)
}

// Proleptic Gregorian calendar, Howard Hinnant's `days_from_civil` and its inverse.
fn days_from_civil(y: i64, m: i64, d: i64) -> i64 {
    let y = if m <= 2 { y - 1 } else { y };
    let era = y.div_euclid(400);
    let yoe = y - era * 400;
    let doy = (153 * (if m > 2 { m - 3 } else { m + 9 }) + 2) / 5 + d - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    era * 146_097 + doe - 719_468
}

fn civil_from_days(z: i64) -> (i64, i64, i64) {
    let z = z + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z - era * 146_097;
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let m = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(m <= 2), m, doy - (153 * mp + 2) / 5 + 1)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MIN => return f.write_str("-infinity"),
            Self::MAX => return f.write_str("infinity"),
            _ => {}
        }
        let (days, of_day) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let (y, m, d) = civil_from_days(days);
        let (s, ms) = (of_day / 1000, of_day % 1000);
        let sign = match y {
            0..=9999 => "",
            10_000.. => "+",
            _ => "-",
        };
        let y = y.abs();
        write!(f, "{sign}{y:04}-{m:02}-{d:02}T{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)?;
        if ms != 0 {
            write!(f, ".{ms:03}")?;
        }
        f.write_str("Z")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    /// Reads `2013-01-01T10:15:00Z`, with an optional fraction of a second and an optional offset (`+02:00`),
    /// and the other forms that a timestamp is written in.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "-infinity" => Ok(Self::MIN),
            "infinity" => Ok(Self::MAX),
            _ => parse(text).map(Self).ok_or_else(|| {
                Error::msg(format!(
                    "`{text}` is not a timestamp: RFC 3339 is expected, as in 2013-01-01T10:15:00Z"
                ))
            }),
        }
    }
}

/// A number of digits only: `+1` is none.
fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0i64, |n, byte| byte.is_ascii_digit().then(|| n * 10 + i64::from(byte - b'0')))
}

fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    // a year without a sign has four digits, one with a sign four to nine
    let (sign, rest) = match bytes.split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => (1, bytes),
    };
    let width = rest.iter().position(|byte| *byte == b'-')?;
    let signed = rest.len() < bytes.len();
    if !(4..=9).contains(&width) || (!signed && width != 4) {
        return None;
    }
    let (year, rest) = rest.split_at(width);
    let y = sign * digits(year)?;
    // -MM-ddThh:mm:ss, a fraction, an offset; without what a person may leave out
    let mut full = [0; 15];
    let (clock, mut rest) = match (rest.len(), rest.get(12)) {
        (6, _) => {
            full[..6].copy_from_slice(rest);
            full[6..].copy_from_slice(b"T00:00:00");
            (&full[..], &[][..])
        }
        (12.., None | Some(b'Z' | b'z' | b'+' | b'-')) => {
            full[..12].copy_from_slice(&rest[..12]);
            full[12..].copy_from_slice(b":00");
            (&full[..], &rest[12..])
        }
        _ => rest.split_at_checked(15)?,
    };
    let places: [(usize, &[u8]); 5] = [(0, b"-"), (3, b"-"), (6, b"Tt "), (9, b":"), (12, b":")];
    if !places.iter().all(|(at, any)| any.contains(&clock[*at])) {
        return None;
    }
    let number = |at: usize| digits(&clock[at..at + 2]);
    let (mo, d, h, mi, s) = (number(1)?, number(4)?, number(7)?, number(10)?, number(13)?);
    let day = days_from_civil(y, mo, d);
    if !(1..=12).contains(&mo) || civil_from_days(day) != (y, mo, d) || h > 23 || mi > 59 || s > 60 {
        return None;
    }
    let mut ms = 0;
    if let Some(fraction) = rest.strip_prefix(b".") {
        let end = fraction.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(fraction.len());
        if end == 0 {
            return None;
        }
        for place in 0..3 {
            ms = ms * 10 + fraction[..end].get(place).map_or(0, |byte| i64::from(byte - b'0'));
        }
        rest = &fraction[end..];
    }
    let offset = match rest {
        b"Z" | b"z" | b"" => 0,
        [sign @ (b'+' | b'-'), hours @ .., b':', a, b] if hours.len() == 2 => {
            let minutes = digits(hours)? * 60 + digits(&[*a, *b])?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    // years have at most nine digits, which 128 bits hold in milliseconds; time itself may end before
    let minutes = i128::from((day * 24 + h) * 60 + mi - offset);
    i64::try_from((minutes * 60 + i128::from(s)) * 1000 + i128::from(ms)).ok()
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Timestamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a timestamp as in 2013-01-01T10:15:00Z")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// How far event time is on a channel, or for an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventTime {
    /// No earlier record will come, late ones aside. Milliseconds since 1970; `i64::MAX` is the end of the
    /// input.
    pub watermark: i64,
    /// Nothing is expected for now: whoever combines several channels does not wait for this one.
    pub idle: bool,
}

impl EventTime {
    /// Where everything begins.
    pub const START: Self = Self { watermark: i64::MIN, idle: false };
    /// The end of the input.
    pub const END: Self = Self { watermark: i64::MAX, idle: false };

    /// Whether nothing will come any more.
    pub fn is_end(&self) -> bool {
        self.watermark == i64::MAX
    }

    /// The watermark as a moment.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.watermark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_read_and_write_rfc_3339() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2013-01-01T10:15:00Z", 1_357_035_300_000),
            ("2000-02-29T23:59:59.250Z", 951_868_799_250),
            ("1969-12-31T23:59:59Z", -1000),
        ] {
            let at: Timestamp = text.parse().unwrap();
            assert_eq!(at.as_millis(), millis);
            assert_eq!(at.to_string(), text);
        }
        assert_eq!("2013-01-01T12:15:00+02:00".parse::<Timestamp>().unwrap().as_millis(), 1_357_035_300_000);
    }

    #[test]
    fn a_malformed_timestamp_is_refused_with_its_text() {
        for text in [
            "",
            "2013-01",
            "2013-02-30",
            "2013-01-01T10",
            "2013-02-30T00:00:00Z",
            "2013-01-01T25:00:00Z",
            "2013-01-01T10:15:",
            "2013-01-01T10:15:00.",
            "NA",
            "2013-01-01T10:15:00.Zx",
            "2013-01-01T10:15:00+0200",
            "2013-01-01T10:15:00\u{e9}",
            "12013-01-01T10:15:00Z",
            "+213-01-01T10:15:00Z",
            "2013-01-01T10:15:00++2:00",
            "Infinity",
        ] {
            let error = text.parse::<Timestamp>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn every_timestamp_that_is_written_can_be_read_also_at_the_ends_of_time() {
        let year = |y: i64| days_from_civil(y, 1, 1) * 86_400_000;
        let ends = [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX, 0, -1];
        let years = [-10_000, -9999, -1, 0, 1, 9999, 10_000, 123_456].map(year);
        for millis in ends.into_iter().chain(years).flat_map(|at| [at, at.saturating_sub(1)]) {
            let at = Timestamp::from_millis(millis);
            assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at, "{millis}");
        }
        assert_eq!(Timestamp::from_millis(i64::MAX - 1).to_string(), "+292278994-08-17T07:12:55.806Z");
        assert_eq!(Timestamp::from_millis(year(-1)).to_string(), "-0001-01-01T00:00:00Z");
        assert_eq!("infinity".parse::<Timestamp>().unwrap(), Timestamp::MAX);
    }

    #[test]
    fn a_time_beyond_the_ends_of_time_is_refused() {
        for text in
            ["+292278994-08-17T07:12:55.808Z", "-292275055-05-16T16:47:04.191Z", "+999999999-01-01T00:00:00Z"]
        {
            assert!(text.parse::<Timestamp>().unwrap_err().to_string().contains(text));
        }
    }

    #[test]
    fn every_time_has_the_start_of_its_window_also_at_the_ends_of_time() {
        assert_eq!(Timestamp::MIN.truncate(hours(1)), Timestamp::MIN);
        assert!(Timestamp::MAX.truncate(hours(1)) > Timestamp::MAX - hours(1));
        assert_eq!(Timestamp::from_millis(5).truncate(Duration::MAX), Timestamp::from_millis(0));
        assert_eq!(Timestamp::from_millis(5).truncate(Duration::ZERO), Timestamp::from_millis(5));
        assert_eq!((Timestamp::MAX - Timestamp::MIN).as_millis(), u64::MAX.into());
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::MAX + hours(1), Timestamp::MAX);
        assert_eq!(Timestamp::MIN - hours(1), Timestamp::MIN);
        assert_eq!(Timestamp::from_millis(-1).truncate(seconds(1)).as_millis(), -1000);
        assert_eq!(Timestamp::from_millis(5) - Timestamp::from_millis(9), Duration::ZERO);
    }
}
