//! `config.yaml`: nested mappings and flat keys, turned into flat settings with their lines.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, StrInput};

use super::load::{Read, Setting};
use super::table;
use super::value::{Kind, quoted};

/// Far more than any key of Flink's has parts; keeps a hostile file from exhausting the stack.
const MAX_DEPTH: usize = 32;

pub(super) fn read(text: &str) -> Read {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { parser: Parser::new_from_str(text), read: Read::default(), line: 1 };
    if let Err((line, reason)) = reader.stream() {
        reader.read.malformed.push((line, reason));
    }
    reader.read
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    read: Read,
    line: usize,
}

/// Line and reason; after one of these the rest of the file cannot be read.
type Stop = (usize, String);

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Event<'a>, Stop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Ok(Event::StreamEnd),
        }
    }

    fn syntax(&self, error: &ScanError) -> Stop {
        (error.marker().line().max(1), format!("this is not valid YAML: {}", error.info()))
    }

    fn stop<T>(&self, reason: &str) -> Result<T, Stop> {
        Err((self.line, reason.to_string()))
    }

    fn stream(&mut self) -> Result<(), Stop> {
        let mut documents = 0;
        loop {
            match self.next()? {
                Event::StreamEnd => return Ok(()),
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        return self.stop("one YAML document is expected, here a second one starts");
                    }
                }
                Event::MappingStart(..) => self.mapping("", 0)?,
                Event::Scalar(text, style, ..) if is_null(&text, style) => {}
                Event::Scalar(..) | Event::SequenceStart(..) | Event::Alias(_) => {
                    return self.stop("a mapping is expected, as in `parallelism.default: 4`");
                }
                _ => {}
            }
        }
    }

    fn mapping(&mut self, prefix: &str, depth: usize) -> Result<(), Stop> {
        loop {
            let key = match self.next()? {
                Event::MappingEnd => return Ok(()),
                Event::Scalar(key, ..) if !key.is_empty() => format!("{prefix}{key}"),
                _ => return self.stop("a key is expected to be a plain text"),
            };
            let line = self.line;
            let value = match self.next()? {
                Event::Scalar(text, style, ..) if is_null(&text, style) => {
                    let reason = format!("`{key}` has no value: write one or delete the line");
                    self.read.malformed.push((line, reason));
                    continue;
                }
                Event::Scalar(text, ..) => text.into_owned(),
                Event::SequenceStart(..) => self.list()?,
                Event::MappingStart(..) if is_map(&key) => self.map()?,
                Event::MappingStart(..) if depth < MAX_DEPTH => {
                    self.mapping(&format!("{key}."), depth + 1)?;
                    continue;
                }
                Event::MappingStart(..) => return self.stop("keys are nested too deeply"),
                _ => return self.stop("YAML aliases are not read here: write the value itself"),
            };
            self.read.settings.push(Setting { key, value, line });
        }
    }

    /// `[a, b]`, as the text of a list.
    fn list(&mut self) -> Result<String, Stop> {
        let mut parts = Vec::new();
        loop {
            match self.next()? {
                Event::SequenceEnd => return Ok(format!("[{}]", parts.join(","))),
                Event::Scalar(text, ..) => parts.push(quoted(&text)),
                _ => return self.stop("a list of plain texts is expected"),
            }
        }
    }

    /// `{a: 1}`, as the text of a map.
    fn map(&mut self) -> Result<String, Stop> {
        let mut parts = Vec::new();
        loop {
            let key = match self.next()? {
                Event::MappingEnd => return Ok(parts.join(",")),
                Event::Scalar(key, ..) => quoted(&key),
                _ => return self.stop("a key is expected to be a plain text"),
            };
            match self.next()? {
                Event::Scalar(text, ..) => parts.push(format!("{key}:{}", quoted(&text))),
                _ => return self.stop("a map of plain texts is expected"),
            }
        }
    }
}

fn is_null(text: &str, style: ScalarStyle) -> bool {
    style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Whether a mapping below this key is its value, not a step in a longer key.
fn is_map(key: &str) -> bool {
    table::row(key).is_some_and(|row| row.kind == Kind::Map)
}
