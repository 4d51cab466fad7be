//! The flat `flink-conf.yaml` of Flink 1.x: one `key: value` a line, comments from `#` on.

use super::load::{Read, Setting};

pub(super) fn read(text: &str) -> Read {
    let mut read = Read::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (at, line) in text.lines().enumerate() {
        let line_number = at + 1;
        // as in Flink, a `#` starts a comment wherever it stands
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() || content == "---" {
            continue;
        }
        match content.split_once(": ") {
            Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
                read.settings.push(Setting {
                    key: key.trim().to_string(),
                    value: unquoted(value.trim()).to_string(),
                    line: line_number,
                })
            }
            _ => {
                let what = match content.split_once(':') {
                    Some((_, "")) => "the key has no value (nested keys belong into `config.yaml`)",
                    Some(_) => "there must be a space after the colon",
                    None => "there is no colon",
                };
                read.malformed.push((line_number, format!("`key: value` is expected: {what}")));
            }
        }
    }
    read
}

fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .filter(|inner| !inner.contains(['"', '\'']))
        .unwrap_or(value)
}
