//! Plain tables and numbers for people.

/// Columns side by side, the first row as their heads. Numbers stand on the right.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let is_number = |cell: &str| cell.starts_with(|first: char| first.is_ascii_digit());
    let right: Vec<bool> = (0..columns)
        .map(|at| {
            rows.len() > 1 && rows[1..].iter().filter_map(|row| row.get(at)).all(|cell| is_number(cell))
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[at] - cell.chars().count());
            line.push_str(if at == 0 { "" } else { "  " });
            match right[at] {
                true => line.extend([&pad[..], cell]),
                false => line.extend([cell, &pad[..]]),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A size as one reads it.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (mut size, mut unit) = (bytes as f64 / 1e3, 0);
    while size >= 999.95 && unit + 1 < UNITS.len() {
        size /= 1e3;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// A time as one reads it, from milliseconds.
pub(crate) fn took(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{:.1} s", ms as f64 / 1000.0),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A moment in UTC, from milliseconds since 1970.
pub(crate) fn moment(ms: i64) -> String {
    let (days, of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000) / 1000);
    // Howard Hinnant's days-to-civil
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_on_the_right_and_sizes_and_moments_read_well() {
        let rows = [["state", "bytes"], ["seen", "12 B"], ["windows", "1.5 kB"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(String::from).to_vec()).collect();
        assert_eq!(table(&rows), "state     bytes\nseen       12 B\nwindows  1.5 kB\n");
        assert_eq!(
            (bytes(999), bytes(1_000), bytes(999_960)),
            ("999 B".into(), "1.0 kB".into(), "1.0 MB".into())
        );
        let times = [999, 1_500, 61_000, 7_500_000, 100_000_000].map(took);
        assert_eq!(times, ["999 ms", "1.5 s", "1 min 1 s", "2 h 5 min", "1 d 3 h"]);
        assert_eq!(moment(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(moment(-1), "1969-12-31 23:59:59");
    }
}
