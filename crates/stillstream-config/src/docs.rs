//! The table of keys as Markdown: what `docs/configuration.md` is made from.

use super::foreign::FAMILIES;
use super::table::{self, Row, SECTIONS, Status};

const HEAD: &str = "\
# Configuration

<!-- Made by `cargo xtask docs-config` from crates/stillstream-config/src/table and foreign.rs. Do not edit. -->

Stillstream reads Flink's keys. They come from `config.yaml` (nested or flat keys) or the older flat `flink-conf.yaml`, from
`-D key=value` arguments, and from code. Code wins over the file, and an argument wins over both.

- The `config.yaml` of a Flink cluster can be taken as it is. A key of Flink's that has no effect here is a warning that says what
  happens instead; the [appendix](#appendix-keys-of-flinks-without-effect) lists them all.
- An unknown key is an error that names its line and the nearest key that is known. Keys of the program's own are those that begin as
  `stillstream.user-keys` says, and the program reads them by `Configuration::user_key`.
- A value of the wrong type or outside its range is an error; all errors are reported at once.
- Older names are read, with a warning that names the present one. The same key twice with two values is an error.
- Classes of Flink's backends, storages and restart strategies are read as the names that stand for them.
- Durations: `10 min`, `500 ms`, `1 h`, `1 d`, `PT10S`; a bare number is milliseconds. Sizes: `20 kb`, `5 mb`, `1 g`; a bare number is bytes;
  units are powers of 1024. Names may be written in any case, with `-` or `_`. `2147483647` is \"no limit\".
- *Refused* values are errors, because to ignore them would change what the job does.
";

const APPENDIX: &str = "
## Appendix: keys of Flink's without effect

Each is read with a warning, unless it has its default. A name with a point at its end stands for all keys that begin so and are not
named elsewhere on this page.

| keys | what happens instead |
|---|---|
";

/// The whole page.
pub fn markdown() -> String {
    let mut page = HEAD.to_string();
    for section in SECTIONS {
        let rows: Vec<String> = section.rows.iter().filter_map(line).collect();
        if !rows.is_empty() {
            page += &format!(
                "\n## {}\n\n| key | type | default | older names | what it does |\n|---|---|---|---|---|\n{}",
                section.title,
                rows.concat()
            );
        }
    }
    page + APPENDIX + &without_effect()
}

/// The row of a key that has an effect.
fn line(row: &Row) -> Option<String> {
    let refused = match row.status {
        Status::NoEffect(_) => return None,
        Status::Supported => String::new(),
        Status::Refused(values, advice) => format!("; refused: {} ({advice})", values.join(", ")),
    };
    let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
    let older: Vec<_> = row.older.iter().map(|name| format!("`{name}`")).collect();
    let (key, kind, older, meaning) = (row.key, row.kind, older.join(", "), row.meaning);
    Some(format!("| `{key}` | {kind} | {default} | {older} | {meaning}{refused} |\n"))
}

/// The keys that have none, by what happens instead.
fn without_effect() -> String {
    let rows = table::rows().filter_map(|row| match row.status {
        Status::NoEffect(instead) => Some((row.key, instead)),
        _ => None,
    });
    let families = FAMILIES.iter().map(|family| (family.start, family.instead));
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (key, instead) in rows.chain(families) {
        match groups.iter_mut().find(|(other, _)| *other == instead) {
            Some((_, keys)) => keys.push(key),
            None => groups.push((instead, vec![key])),
        }
    }
    let row = |(instead, keys): &(&str, Vec<&str>)| format!("| `{}` | {instead} |\n", keys.join("`, `"));
    groups.iter().map(row).collect()
}
