//! Durations as Flink writes them: `10 min`, `500ms`, `PT10S`, or a bare number of milliseconds.

use std::time::Duration;

const UNITS: &[(&[&str], u64)] = &[
    (&["ns", "nano", "nanos", "nanosecond", "nanoseconds"], 1),
    (&["us", "µs", "μs", "micro", "micros", "microsecond", "microseconds"], 1_000),
    (&["", "ms", "milli", "millis", "millisecond", "milliseconds"], 1_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["min", "m", "minute", "minutes"], 60_000_000_000),
    (&["h", "hour", "hours"], 3_600_000_000_000),
    (&["d", "day", "days"], 86_400_000_000_000),
];

const EXPECTED: &str =
    "a duration is expected, such as `10 min`, `500 ms`, `1 h`, `PT10S`, or a number of milliseconds";

/// Reads a duration as Flink does.
///
/// ```
/// use stillstream_config::parse_duration;
/// use std::time::Duration;
/// assert_eq!(parse_duration("10 min"), Ok(Duration::from_secs(600)));
/// assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
/// assert_eq!(parse_duration("PT1M0.5S"), Ok(Duration::from_millis(60_500)));
/// assert_eq!(parse_duration("250"), Ok(Duration::from_millis(250)));
/// assert!(parse_duration("10 fortnights").is_err());
/// ```
///
/// # Errors
///
/// A sentence that says what is expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.starts_with(['P', 'p']) {
        return parse_iso(text).ok_or_else(|| EXPECTED.to_string());
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim().to_lowercase());
    if number.is_empty() {
        return Err(EXPECTED.to_string());
    }
    let Some((_, nanos)) = UNITS.iter().find(|(names, _)| names.contains(&unit.as_str())) else {
        return Err(EXPECTED.to_string());
    };
    let too_long = || "the duration is longer than 584 years".to_string();
    let number: u64 = number.parse().map_err(|_| too_long())?;
    number.checked_mul(*nanos).map(Duration::from_nanos).ok_or_else(too_long)
}

/// `PnDTnHnMn.nS`, as `java.time.Duration` reads it, without signs.
fn parse_iso(text: &str) -> Option<Duration> {
    let mut rest = &text[1..];
    let mut total = Duration::ZERO;
    let mut in_time = false;
    let mut last = 0u64; // units must get smaller
    let mut any = false;
    while !rest.is_empty() {
        if rest.starts_with(['T', 't']) && !in_time {
            (in_time, any, rest) = (true, false, &rest[1..]);
            continue;
        }
        let at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number = &rest[..at];
        let unit = rest[at..].chars().next()?;
        let seconds = match (unit.to_ascii_uppercase(), in_time) {
            ('D', false) => 86_400,
            ('H', true) => 3_600,
            ('M', true) => 60,
            ('S', true) => 1,
            _ => return None,
        };
        if last != 0 && seconds >= last {
            return None;
        }
        last = seconds;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if !fraction.is_empty() && seconds != 1 || fraction.len() > 9 || number.ends_with('.') {
            return None;
        }
        let whole: u64 = whole.parse().ok()?;
        let nanos: u32 = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse().ok()? };
        total = total.checked_add(Duration::new(whole.checked_mul(seconds)?, nanos))?;
        any = true;
        rest = &rest[at + unit.len_utf8()..];
    }
    // the same limit as for `n unit`, so that a value always survives being written and read again
    (any && total <= Duration::from_nanos(u64::MAX)).then_some(total)
}

/// Writes a duration so that [`parse_duration`] reads the same one: the largest unit that divides it.
/// `Duration::MAX`, where it stands for "no limit", becomes the longest that can be written (584 years).
pub(super) fn duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos().min(u128::from(u64::MAX));
    if nanos == 0 {
        return "0 s".to_string();
    }
    for (unit, size) in [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000u128),
    ] {
        if nanos.is_multiple_of(size) {
            return format!("{} {unit}", nanos / size);
        }
    }
    format!("{nanos} ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_flink_reads_them() {
        for (text, nanos) in [
            ("10 min", 600_000_000_000u64),
            ("500ms", 500_000_000),
            ("1 h", 3_600_000_000_000),
            ("1d", 86_400_000_000_000),
            ("0", 0),
            ("7500", 7_500_000_000),
            (" 3  SECONDS ", 3_000_000_000),
            ("2 m", 120_000_000_000),
            ("5 µs", 5_000),
            ("9 nanos", 9),
            ("PT10S", 10_000_000_000),
            ("pt1h30m", 5_400_000_000_000),
            ("P1DT0.25S", 86_400_250_000_000),
            ("P2D", 172_800_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_duration_is_refused() {
        for text in [
            "",
            "min",
            "-1 s",
            "1.5 s",
            "10 parsecs",
            "P",
            "PT",
            "P1DT",
            "PT1S1M",
            "P1H",
            "PT1.S",
            "PTS",
            "P1",
            "PT-1S",
            "99999999999999999999",
            "1000000 d",
            "PT99999999999999999999H",
            "P1é",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_written_duration_reads_back_the_same() {
        for nanos in [0, 1, 999, 1_000, 1_500_000, 7_500_000_000, 60_000_000_000, 90_000_000_000, u64::MAX] {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(parse_duration(&duration_text(duration)), Ok(duration));
        }
        assert_eq!(duration_text(Duration::from_secs(600)), "10 min");
    }
}
