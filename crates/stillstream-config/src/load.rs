//! Reading files, and checking every setting on its way in.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::error::{ConfigError, ConfigErrors};
use super::origin::{Origin, Warning};
use super::table::{self, Row, Status};
use super::{Configuration, Entry, checks, flat, foreign, nearest, yaml};

/// `key: value` as a reader found it.
#[derive(Debug)]
pub(super) struct Setting {
    pub key: String,
    pub value: String,
    pub line: usize,
}

/// What a reader found: settings, and the lines that are none.
#[derive(Default, Debug)]
pub(super) struct Read {
    pub settings: Vec<Setting>,
    /// Line and reason.
    pub malformed: Vec<(usize, String)>,
}

impl Configuration {
    /// Reads a file, or the configuration file in a folder: `config.yaml`, or the older flat
    /// `flink-conf.yaml`.
    ///
    /// A file named `flink-conf.yaml` is read as `key: value` lines, any other as YAML.
    ///
    /// # Errors
    ///
    /// All that is wrong: the file cannot be read, is not YAML, has unknown keys, or values of the wrong type
    /// or range. A folder that holds both files is an error, because only one of them could be meant.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        let path = path.as_ref();
        let unreadable = |path: &Path, reason: String| ConfigError::Unreadable {
            path: path.display().to_string(),
            reason,
        };
        let file = if path.is_dir() {
            let (new, old) = (path.join("config.yaml"), path.join("flink-conf.yaml"));
            match (new.exists(), old.exists()) {
                (true, false) => new,
                (false, true) => old,
                (true, true) => {
                    let reason = "both `config.yaml` and `flink-conf.yaml` are there: delete the one that is not meant";
                    return Err(unreadable(path, reason.to_string()).into());
                }
                (false, false) => {
                    let reason = "neither `config.yaml` nor `flink-conf.yaml` is in this folder";
                    return Err(unreadable(path, reason.to_string()).into());
                }
            }
        } else {
            path.to_path_buf()
        };
        let text = std::fs::read_to_string(&file).map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::InvalidData => "it is not UTF-8 text".to_string(),
                _ => error.to_string(),
            };
            unreadable(&file, reason)
        })?;
        let name = file.display().to_string();
        if file.file_name().is_some_and(|name| name == "flink-conf.yaml") {
            Self::parse_flat(&name, &text)
        } else {
            Self::parse_yaml(&name, &text)
        }
    }

    /// Reads the text of a `config.yaml`: YAML with nested keys, flat keys, or both. The name is for
    /// messages.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn parse_yaml(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        Self::checked(name, yaml::read(text))
    }

    /// Reads the text of a `flink-conf.yaml`: one `key: value` a line, comments from `#` on. The name is for
    /// messages.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn parse_flat(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        Self::checked(name, flat::read(text))
    }

    fn checked(name: &str, read: Read) -> Result<Self, ConfigErrors> {
        let name: Arc<str> = name.into();
        let at = |line| Origin::File { name: name.clone(), line };
        let mut config = Self::new();
        let mut found = Vec::new();
        for (line, reason) in read.malformed {
            found.push((line, ConfigError::Malformed { origin: at(line), reason }));
        }
        for Setting { key, value, line } in read.settings {
            let mut errors = Vec::new();
            config.insert(&key, &value, at(line), &mut errors);
            found.extend(errors.into_iter().map(|error| (line, error)));
        }
        found.sort_by_key(|(line, _)| *line);
        ConfigErrors::unless_empty(found.into_iter().map(|(_, error)| error).collect())?;
        Ok(config)
    }

    /// Checks a setting and stores it under its present name.
    pub(super) fn insert(
        &mut self,
        written: &str,
        value: &str,
        origin: Origin,
        errors: &mut Vec<ConfigError>,
    ) {
        let value = value.trim();
        if let Some(row) = table::row(written) {
            return self.insert_row(row, value, origin, errors);
        }
        let rows = table::by_older_name(written);
        if !rows.is_empty() {
            let names: Vec<_> = rows.iter().map(|row| format!("`{}`", row.key)).collect();
            let message = format!("this is an older name: write {}", names.join(" and "));
            self.warn(&origin, written, message);
            for row in rows {
                self.insert_row(row, value, origin.clone(), errors);
            }
            return;
        }
        let (nearest, distance) = nearest::key(written);
        match foreign::advice(written) {
            // a key of the table with a letter wrong must not pass for one of Flink's many others
            Some(advice) if distance > 2 => self.warn(&origin, written, advice.to_string()),
            _ => errors.push(ConfigError::UnknownKey { origin, key: written.to_string(), nearest }),
        }
    }

    fn insert_row(&mut self, row: &'static Row, value: &str, origin: Origin, errors: &mut Vec<ConfigError>) {
        let key = row.key.to_string();
        let found = foreign::shown(row.key, value).to_string();
        let canonical = match checks::value(row, value) {
            Ok(canonical) => canonical,
            Err(expected) => return errors.push(ConfigError::BadValue { origin, key, found, expected }),
        };
        if let Some(advice) = checks::refusal(row, &canonical) {
            return errors.push(ConfigError::NotSupported { origin, key, found, advice: advice.to_string() });
        }
        if let Status::NoEffect(advice) = row.status
            && !checks::is_default(row, &canonical)
        {
            self.warn(&origin, row.key, format!("this key has no effect: {advice}"));
        }
        if let Some(present) = self.entries.get(row.key)
            && present.origin.rank() == origin.rank()
            && origin != Origin::Code
        {
            let same = row.kind.canonical(&present.value).is_ok_and(|present| present == canonical);
            let first = present.origin.clone();
            match &origin {
                Origin::File { .. } if !same => {
                    return errors.push(ConfigError::SetTwice { key, first, second: origin });
                }
                Origin::File { .. } => {
                    self.warn(&origin, row.key, format!("already set at {first}: keep one of the two"))
                }
                _ => self.warn(&origin, row.key, "set more than once: the last one counts".to_string()),
            }
        }
        self.put(row.key, Entry { value: value.to_string(), origin });
    }

    fn warn(&mut self, origin: &Origin, key: &str, message: String) {
        self.warnings.push(Warning { origin: origin.clone(), key: key.to_string(), message });
    }
}
