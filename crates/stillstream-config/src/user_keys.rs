//! Keys that are the program's own: those that begin as `stillstream.user-keys` says.

use super::error::ConfigError;
use super::foreign::FAMILIES;
use super::origin::Origin;
use super::value::ConfigValue;
use super::{Configuration, Entry, table};

impl Configuration {
    /// The value of a key of the program's own: one that begins as `stillstream.user-keys` says. An argument
    /// wins over the file.
    ///
    /// ```
    /// use stillstream_config::Configuration;
    /// let text = "{stillstream.user-keys: [acme], acme: {threshold: 10}}";
    /// let config = Configuration::parse_yaml("config.yaml", text)?;
    /// let threshold = config.user_key("acme.threshold").map(str::parse::<u32>);
    /// assert_eq!(threshold, Some(Ok(10)));
    /// assert_eq!(config.user_key("acme.color"), None);
    /// # Ok::<(), stillstream_config::ConfigErrors>(())
    /// ```
    pub fn user_key(&self, key: &str) -> Option<&str> {
        self.user.get(key).map(|entry| entry.value.as_str())
    }

    /// All keys of the program's own, with their values.
    pub fn user_keys(&self) -> impl Iterator<Item = (&str, &str)> {
        self.user.iter().map(|(key, entry)| (key.as_str(), entry.value.as_str()))
    }

    /// Takes in how keys begin; a list that cannot be read is an error of its line.
    pub(super) fn declare_user_keys(&mut self, list: &str) {
        let _ = self.declare(list);
    }

    /// Takes in how keys begin. The error says what is expected.
    pub(super) fn declare(&mut self, list: &str) -> Result<(), String> {
        for written in Vec::<String>::parse(list)? {
            let start = written.trim_end_matches(['.', '*']);
            if let Some(key) = known_key_below(start) {
                return Err(format!(
                    "a beginning of the program's own is expected, and `{key}` of Stillstream's or Flink's begins with `{start}` too"
                ));
            }
            if !self.user_prefixes.iter().any(|known| known == start) {
                self.user_prefixes.push(start.to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn is_user_key(&self, key: &str) -> bool {
        self.user_prefixes.iter().any(|start| is_below(key, start))
    }

    pub(super) fn insert_user_key(
        &mut self,
        key: &str,
        value: &str,
        origin: Origin,
        errors: &mut Vec<ConfigError>,
    ) {
        if let Some(present) = self.user.get(key).cloned() {
            let same = present.value == value;
            if let Err(error) = self.set_twice(key, present, same, &origin) {
                return errors.push(error);
            }
        }
        self.put_user_key(key.to_owned(), Entry { value: value.to_owned(), origin });
    }

    pub(super) fn put_user_key(&mut self, key: String, entry: Entry) {
        match self.user.get(&key) {
            Some(present) if present.origin.rank() > entry.origin.rank() => {}
            _ => {
                self.user.insert(key, entry);
            }
        }
    }
}

fn is_below(key: &str, start: &str) -> bool {
    key.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A key that is known, or the beginning of keys that are, where this beginning would hide a mistake in it.
fn known_key_below(start: &str) -> Option<&'static str> {
    if start.is_empty() {
        return table::rows().next().map(|row| row.key);
    }
    let families = FAMILIES.iter().map(|family| family.start);
    let mut known = table::rows().flat_map(|row| std::iter::once(row.key).chain(row.older.iter().copied()));
    let first = |key: &str| key.split('.').next().unwrap_or_default().to_owned();
    known
        .find(|key| first(key) == first(start))
        .or_else(|| families.clone().find(|key| first(key) == first(start)))
}
