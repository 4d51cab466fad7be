//! The table, for a terminal and for the page.

use super::row::{Row, Spread};

/// A number with as many digits as it is worth.
pub fn number(value: f64) -> String {
    match value.abs() {
        x if x >= 1e6 => format!("{:.1} M", value / 1e6),
        x if x >= 100.0 => format!("{value:.0}"),
        x if x >= 10.0 => format!("{value:.1}"),
        x if x > 0.0 && x < 0.1 => format!("{value:.3}"),
        _ => format!("{value:.2}"),
    }
}

/// A median, and the least and the largest value.
fn spread(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |spread| {
        format!("{} ({} to {})", number(spread.median), number(spread.least), number(spread.most))
    })
}

/// Names of the columns.
pub const COLUMNS: [&str; 5] =
    ["benchmark", "M records/CPU s", "M records/s", "of raw Timely", "other figures, medians"];

/// The cells of a row.
pub fn cells(row: &Row) -> [String; 5] {
    let rate = |name: &str| if row.has_throughput() { row.figure(name) } else { None };
    let ratio = row.figure("ratio_to_raw_timely").map_or_else(String::new, |ratio| number(ratio.median));
    let mut others = row.figures();
    others.retain(|name| name != "operators");
    for ratio in ["ratio_to_count", "ratio_to_raw_rocksdb"] {
        if row.figure(ratio).is_some() {
            others.insert(0, ratio.into());
        }
    }
    let others: Vec<String> = others
        .iter()
        .filter_map(|name| Some(format!("{name} {}", number(row.figure(name)?.median))))
        .collect();
    [
        row.run.to_string(),
        spread(rate("m_records_per_cpu_s")),
        rate("m_records_per_s").map_or_else(String::new, |rate| number(rate.median)),
        ratio,
        others.join(", "),
    ]
}

/// The table as text, in columns.
pub fn text(rows: &[Row]) -> String {
    let lines: Vec<[String; 5]> =
        std::iter::once(COLUMNS.map(String::from)).chain(rows.iter().map(cells)).collect();
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(widths) {
            text += &format!("{cell:<width$}  ");
        }
        text += &line[4];
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// The table in Markdown.
pub fn markdown(header: &[&str], lines: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", header.join(" | "), "---|".repeat(header.len()));
    for line in lines {
        text += &format!("| {} |\n", line.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        let texts = [0.0, 0.0123, 0.5, 12.345, 123.45, 16_002_432.0].map(number);
        assert_eq!(texts, ["0.00", "0.012", "0.50", "12.3", "123", "16.0 M"]);
    }

    #[test]
    fn a_row_shows_the_median_and_the_spread() {
        let text = text(&[row("COUNT", &[30.0, 10.0, 20.0])]);
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with("COUNT, K = 10^3"), "{line}");
        assert!(line.contains("20.0 (10.0 to 30.0)") && line.ends_with("sync_ms 2.00"), "{line}");
    }
}
