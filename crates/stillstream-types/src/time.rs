//! Event time in milliseconds since 1970-01-01T00:00:00Z, and short names for durations.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

/// A point in event time or processing time: milliseconds since 1970-01-01T00:00:00Z.
///
/// Reads and writes RFC 3339 in UTC:
///
/// ```
/// use stillstream_types::{Timestamp, time::hours};
/// let at: Timestamp = "2013-01-01T10:15:00Z".parse().unwrap();
/// assert_eq!((at + hours(2)).to_string(), "2013-01-01T12:15:00Z");
/// assert_eq!(at.truncate(hours(1)).to_string(), "2013-01-01T10:00:00Z");
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

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The start of the tumbling window of this size that holds the timestamp (windows start at 1970).
    pub fn truncate(self, size: Duration) -> Self {
        let size = (size.as_millis() as i64).max(1);
        Self(self.0 - self.0.rem_euclid(size))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.as_millis().min(i64::MAX as u128) as i64))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by.as_millis().min(i64::MAX as u128) as i64))
    }
}

impl Sub for Timestamp {
    type Output = Duration;
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0) as u64)
    }
}

/// A duration of so many milliseconds.
pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}
/// A duration of so many seconds.
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
/// A duration of so many minutes.
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}
/// A duration of so many hours.
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(n * 3600)
}
/// A duration of so many days of 24 hours.
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
        write!(f, "{y:04}-{m:02}-{d:02}T{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)?;
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
    type Err = String;

    /// Reads `2013-01-01T10:15:00Z`, with an optional fraction of a second and an optional offset (`+02:00`).
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a timestamp: RFC 3339 is expected, as in 2013-01-01T10:15:00Z");
        let bytes = text.as_bytes();
        if bytes.len() < 20 || !text.is_ascii() {
            return Err(wrong());
        }
        let number = |from: usize, to: usize| -> Result<i64, String> {
            bytes[from..to].iter().try_fold(0i64, |n, b| {
                if b.is_ascii_digit() { Ok(n * 10 + (b - b'0') as i64) } else { Err(wrong()) }
            })
        };
        let sign = |at: usize, any: &[u8]| any.contains(&bytes[at]).then_some(()).ok_or_else(wrong);
        sign(4, b"-")?;
        sign(7, b"-")?;
        sign(10, b"Tt ")?;
        sign(13, b":")?;
        sign(16, b":")?;
        let (y, mo, d) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (h, mi, s) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let day = days_from_civil(y, mo, d);
        if !(1..=12).contains(&mo) || civil_from_days(day) != (y, mo, d) || h > 23 || mi > 59 || s > 60 {
            return Err(wrong());
        }
        let (mut at, mut ms) = (19, 0);
        if bytes[at] == b'.' {
            let end = (at + 1..bytes.len()).find(|i| !bytes[*i].is_ascii_digit()).ok_or_else(wrong)?;
            for place in 0..3 {
                let digit = if at + 1 + place < end { (bytes[at + 1 + place] - b'0') as i64 } else { 0 };
                ms = ms * 10 + digit;
            }
            at = end;
        }
        let offset = match (&bytes[at..], bytes.len() - at) {
            (b"Z" | b"z", 1) => 0,
            ([b'+', ..], 6) if bytes[at + 3] == b':' => {
                number(at + 1, at + 3)? * 60 + number(at + 4, at + 6)?
            }
            ([b'-', ..], 6) if bytes[at + 3] == b':' => {
                -(number(at + 1, at + 3)? * 60 + number(at + 4, at + 6)?)
            }
            _ => return Err(wrong()),
        };
        Ok(Self((((day * 24 + h) * 60 + mi - offset) * 60 + s) * 1000 + ms))
    }
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
            "2013-01-01",
            "2013-02-30T00:00:00Z",
            "2013-01-01T25:00:00Z",
            "2013-01-01T10:15:00",
            "NA",
            "2013-01-01T10:15:00.Zx",
            "2013-01-01T10:15:00+0200",
            "2013-01-01T10:15:00\u{e9}",
        ] {
            let error = text.parse::<Timestamp>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::MAX + hours(1), Timestamp::MAX);
        assert_eq!(Timestamp::MIN - hours(1), Timestamp::MIN);
        assert_eq!(Timestamp::from_millis(-1).truncate(seconds(1)).as_millis(), -1000);
        assert_eq!(Timestamp::from_millis(5) - Timestamp::from_millis(9), Duration::ZERO);
    }
}
