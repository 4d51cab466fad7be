//! The table of keys as Markdown: what `docs/configuration.md` is made from.

use super::table::{Row, SECTIONS, Status};

const HEAD: &str = "\
# Configuration

<!-- Made by `cargo xtask docs-config` from crates/stillstream-config/src/table. Do not edit. -->

Stillstream reads Flink's keys. They come from `config.yaml` (nested or flat keys) or the older flat `flink-conf.yaml`, from
`-D key=value` arguments, and from code. Code wins over the file, and an argument wins over both.

- An unknown key, or a value of the wrong type, is an error with file and line; all errors are reported at once.
- Older names are read, with a warning that names the present one. The same key twice with two values is an error.
- Durations: `10 min`, `500 ms`, `1 h`, `1 d`, `PT10S`; a bare number is milliseconds. Sizes: `20 kb`, `5 mb`, `1 g`; a bare number is bytes;
  units are powers of 1024. Names may be written in any case, with `-` or `_`. `2147483647` is \"no limit\".
- *no effect*: the key is read and checked, and a warning says why it does nothing. *refused*: any value but the default is an error,
  because to ignore it would change what the job guarantees.
";

/// The whole page.
pub fn markdown() -> String {
    let mut page = HEAD.to_string();
    for section in SECTIONS {
        page += &format!(
            "\n## {}\n\n| key | type | default | older names | what it does | here |\n",
            section.title
        );
        page += "|---|---|---|---|---|---|\n";
        for row in section.rows {
            page += &line(row);
        }
    }
    page
}

fn line(row: &Row) -> String {
    let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
    let older: Vec<_> = row.older.iter().map(|name| format!("`{name}`")).collect();
    let here = match row.status {
        Status::Supported => "yes".to_string(),
        Status::NoEffect(advice) => format!("no effect: {advice}"),
        Status::Refused(advice) => format!("refused: {advice}"),
        Status::SomeRefused(values, advice) => format!("yes; refused: {} ({advice})", values.join(", ")),
    };
    format!(
        "| `{}` | {} | {default} | {} | {} | {here} |\n",
        row.key,
        row.kind,
        older.join(", "),
        row.meaning
    )
}
