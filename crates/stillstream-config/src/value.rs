//! The types of settings, and how each is read from text.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use stillstream_types::choice::same_name;

use super::byte_size::ByteSize;
use super::duration::{duration_text, parse_duration};

/// The type of a setting's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number of 32 bits, with its sign.
    Integer,
    /// A whole number of 64 bits, with its sign.
    Long,
    /// A finite decimal number.
    Double,
    /// A duration.
    Duration,
    /// A size in bytes.
    MemorySize,
    /// Any text.
    Text,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// Texts: `[a, b]` in YAML, `a;b` elsewhere.
    List,
    /// Names with values: a mapping in YAML, `a:1,b:2` elsewhere.
    Map,
}

impl Kind {
    /// What a value of this kind looks like, as the end of a sentence.
    pub fn expected(&self) -> String {
        match self {
            Self::Boolean => "`true` or `false` is expected".to_string(),
            Self::Integer => format!("a whole number from {} to {} is expected", i32::MIN, i32::MAX),
            Self::Long => format!("a whole number from {} to {} is expected", i64::MIN, i64::MAX),
            Self::Double => "a number is expected, such as `0.5`".to_string(),
            Self::Duration => "a duration is expected, such as `10 min`".to_string(),
            Self::MemorySize => "a size is expected, such as `20 kb`".to_string(),
            Self::Text => "a text is expected".to_string(),
            Self::Choice(names) => format!("one of {} is expected", names.join(", ")),
            Self::List => "a list is expected, such as `[a, b]` or `a;b`".to_string(),
            Self::Map => "a map is expected, such as `a:1,b:2`".to_string(),
        }
    }

    /// Checks a value and writes it in the one form that equal values share.
    pub(super) fn canonical(&self, text: &str) -> Result<String, String> {
        Ok(match self {
            Self::Boolean => bool::parse(text)?.to_text(),
            Self::Integer => i32::parse(text)?.to_text(),
            Self::Long => i64::parse(text)?.to_text(),
            Self::Double => f64::parse(text)?.to_text(),
            Self::Duration => Duration::parse(text)?.to_text(),
            Self::MemorySize => ByteSize::parse(text)?.to_text(),
            Self::Text => String::parse(text)?,
            Self::Choice(names) => match names.iter().find(|name| same_name(name, text)) {
                Some(name) => name.to_string(),
                None => return Err(self.expected()),
            },
            Self::List => Vec::<String>::parse(text)?.to_text(),
            Self::Map => BTreeMap::<String, String>::parse(text)?.to_text(),
        })
    }

    /// The value as a number in the kind's base unit (milliseconds for durations, bytes for sizes), where it
    /// has one.
    pub(super) fn number(&self, text: &str) -> Option<f64> {
        match self {
            Self::Integer | Self::Long => i64::parse(text).ok().map(|n| n as f64),
            Self::Double => f64::parse(text).ok(),
            Self::Duration => Duration::parse(text).ok().map(|d| d.as_secs_f64() * 1000.0),
            Self::MemorySize => ByteSize::parse(text).ok().map(|size| size.bytes() as f64),
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    /// The name that Flink's documentation uses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "Boolean",
            Self::Integer => "Integer",
            Self::Long => "Long",
            Self::Double => "Double",
            Self::Duration => "Duration",
            Self::MemorySize => "MemorySize",
            Self::Text => "String",
            Self::Choice(_) => "Enum",
            Self::List => "List",
            Self::Map => "Map",
        })
    }
}

/// A type that a setting can have. Reading what was written gives the same value.
pub trait ConfigValue: Sized {
    /// The kind in the table of options.
    const KIND: Kind;
    /// Whether the setting may be without a value.
    const OPTIONAL: bool = false;

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// A sentence that says what is expected.
    fn parse(text: &str) -> Result<Self, String>;

    /// Writes a value; the empty text is "no value".
    fn to_text(&self) -> String;
}

impl<T: ConfigValue> ConfigValue for Option<T> {
    const KIND: Kind = T::KIND;
    const OPTIONAL: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { T::parse(text).map(Some) }
    }

    fn to_text(&self) -> String {
        self.as_ref().map(T::to_text).unwrap_or_default()
    }
}

impl ConfigValue for bool {
    const KIND: Kind = Kind::Boolean;

    fn parse(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Self::KIND.expected()),
        }
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

macro_rules! number {
    ($($type:ty => $kind:ident),*) => {$(
        impl ConfigValue for $type {
            const KIND: Kind = Kind::$kind;

            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| Self::KIND.expected())
            }

            fn to_text(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
number!(i32 => Integer, i64 => Long);

impl ConfigValue for f64 {
    const KIND: Kind = Kind::Double;

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(|| Self::KIND.expected())
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl ConfigValue for Duration {
    const KIND: Kind = Kind::Duration;

    fn parse(text: &str) -> Result<Self, String> {
        parse_duration(text)
    }

    fn to_text(&self) -> String {
        duration_text(*self)
    }
}

impl ConfigValue for ByteSize {
    const KIND: Kind = Kind::MemorySize;

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl ConfigValue for String {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err(Self::KIND.expected()) } else { Ok(text.to_string()) }
    }

    fn to_text(&self) -> String {
        self.clone()
    }
}

impl ConfigValue for Vec<String> {
    const KIND: Kind = Kind::List;

    fn parse(text: &str) -> Result<Self, String> {
        let (inner, separator) = match strip(text, '[', ']') {
            Some(inner) => (inner, ','),
            None => (text, ';'),
        };
        let parts = split(inner, separator).ok_or_else(|| Self::KIND.expected())?;
        Ok(parts.into_iter().filter(|part| !part.is_empty()).collect())
    }

    fn to_text(&self) -> String {
        self.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(";")
    }
}

impl ConfigValue for BTreeMap<String, String> {
    const KIND: Kind = Kind::Map;

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || Self::KIND.expected();
        let inner = strip(text, '{', '}').unwrap_or(text);
        let mut map = Self::new();
        for pair in split_raw(inner, ',').ok_or_else(wrong)? {
            if pair.trim().is_empty() {
                continue;
            }
            // Flink writes `a:1`, and `a=1` where it prints a map
            let separator = if split_raw(pair, ':').is_some_and(|parts| parts.len() > 1) { ':' } else { '=' };
            let parts = split_raw(pair, separator).ok_or_else(wrong)?;
            let [written, _, ..] = parts.as_slice() else {
                return Err(wrong());
            };
            let name = unquoted(written);
            if name.is_empty() {
                return Err(wrong());
            }
            // the value goes to the end of the pair: it may hold the separator (`host:9092`)
            let value = unquoted(&pair[written.len() + separator.len_utf8()..]);
            if map.insert(name.clone(), value).is_some() {
                return Err(format!("`{name}` is twice in the map"));
            }
        }
        Ok(map)
    }

    fn to_text(&self) -> String {
        self.iter().map(|(k, v)| format!("{}:{}", quoted(k), quoted(v))).collect::<Vec<_>>().join(",")
    }
}

fn strip(text: &str, open: char, close: char) -> Option<&str> {
    text.trim().strip_prefix(open)?.strip_suffix(close)
}

/// Splits at a separator that is not within quotes; `None` if a quote is not closed.
fn split_raw(text: &str, separator: char) -> Option<Vec<&str>> {
    let mut quote = None;
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == separator => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            None => {}
        }
    }
    parts.push(&text[start..]);
    quote.is_none().then_some(parts)
}

fn split(text: &str, separator: char) -> Option<Vec<String>> {
    Some(split_raw(text, separator)?.into_iter().map(unquoted).collect())
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    for quote in ['\'', '"'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner.replace(&format!("{quote}{quote}"), &quote.to_string());
        }
    }
    text.to_string()
}

/// Quotes a part of a list or map if it would not read back the same without.
pub(super) fn quoted(text: &str) -> String {
    let plain = !text.is_empty()
        && text.trim() == text
        && !text.contains([';', ',', ':', '=', '\'', '"', '[', ']', '{', '}']);
    if plain { text.to_string() } else { format!("'{}'", text.replace('\'', "''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_in_both_spellings_and_read_back_the_same() {
        for text in ["[a, 'b;c', \"d\"]", "a;'b;c';d"] {
            let list = Vec::<String>::parse(text).unwrap();
            assert_eq!(list, ["a", "b;c", "d"], "{text}");
            assert_eq!(Vec::<String>::parse(&list.to_text()), Ok(list));
        }
        assert_eq!(Vec::<String>::parse("[]"), Ok(Vec::new()));
        assert!(Vec::<String>::parse("a;'b").is_err());
        let odd = vec!["it's".to_string(), " x ".to_string(), "[a".to_string(), "b]".to_string()];
        assert_eq!(Vec::<String>::parse(&odd.to_text()), Ok(odd));
    }

    #[test]
    fn maps_read_in_flinks_spellings_and_read_back_the_same() {
        type Map = BTreeMap<String, String>;
        for text in ["OPERATOR:70,PYTHON:30", "{OPERATOR=70, PYTHON=30}", "{OPERATOR: 70, 'PYTHON': 30}"] {
            let map = Map::parse(text).unwrap();
            assert_eq!(map["OPERATOR"], "70", "{text}");
            assert_eq!(map["PYTHON"], "30", "{text}");
            assert_eq!(Map::parse(&map.to_text()), Ok(map));
        }
        assert_eq!(Map::parse("a:host:9092").unwrap()["a"], "host:9092");
        let odd = Map::from([("k:".to_string(), "it's, {so}=".to_string())]);
        assert_eq!(Map::parse(&odd.to_text()), Ok(odd));
        for text in ["a", "a:1,b", ":1", "a:'1", "a:1,a:2"] {
            assert!(Map::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_type_says_what_is_expected() {
        assert_eq!(Kind::Boolean.canonical("yes").unwrap_err(), "`true` or `false` is expected");
        assert!(Kind::Integer.canonical("2147483648").unwrap_err().contains("2147483647"));
        assert!(Kind::Double.canonical("NaN").is_err());
        assert!(Kind::Choice(&["LEVEL", "FIFO"]).canonical("fast").unwrap_err().contains("LEVEL, FIFO"));
        assert_eq!(Kind::Choice(&["EXACTLY_ONCE"]).canonical("exactly-once").unwrap(), "EXACTLY_ONCE");
    }
}
