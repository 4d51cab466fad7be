//! Reading files, and checking every setting on its way in.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::error::{ConfigError, ConfigErrors};
use super::origin::{Origin, Warning};
use super::table::{self, Row, Status};
use super::{Configuration, Entry, args, checks, flat, foreign, nearest, options as o, translate, yaml};

/// `key: value` as a reader found it.
#[derive(Debug)]
pub(super) struct Setting {
    pub key: String,
    pub value: String,
    pub line: usize,
}

/// Settings of one place, and where each of them stands.
pub(super) struct Source {
    pub read: Read,
    /// The origin of a line.
    pub origin: Box<dyn Fn(usize) -> Origin>,
}

impl Source {
    fn of_file(name: &str, read: Read) -> Self {
        let name: Arc<str> = name.into();
        Self { read, origin: Box::new(move |line| Origin::File { name: name.clone(), line }) }
    }
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
        Self::read(Some(path.as_ref()), std::iter::empty::<String>())
    }

    /// Reads a file as [`load`](Self::load) does, if there is one, and `key=value` arguments, each of which
    /// wins over the file. `stillstream.user-keys` counts for both, wherever it stands.
    ///
    /// # Errors
    ///
    /// All that is wrong with the file and with the arguments.
    pub fn read<I>(file: Option<&Path>, pairs: I) -> Result<Self, ConfigErrors>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let (mut errors, mut sources) = (Vec::new(), Vec::new());
        match file.map(Self::read_file) {
            Some(Ok(source)) => sources.push(source),
            Some(Err(unreadable)) => errors.push(unreadable),
            None => {}
        }
        sources.push(args::read(pairs.into_iter().map(Into::into)));
        let config = Self::checked(sources, &mut errors);
        ConfigErrors::unless_empty(errors)?;
        Ok(config)
    }

    fn read_file(path: &Path) -> Result<Source, ConfigError> {
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
                    return Err(unreadable(path, reason.to_string()));
                }
                (false, false) => {
                    let reason = "neither `config.yaml` nor `flink-conf.yaml` is in this folder";
                    return Err(unreadable(path, reason.to_string()));
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
        let read = match file.file_name().is_some_and(|name| name == "flink-conf.yaml") {
            true => flat::read(&text),
            false => yaml::read(&text),
        };
        Ok(Source::of_file(&file.display().to_string(), read))
    }

    /// Reads the text of a `config.yaml`: YAML with nested keys, flat keys, or both. The name is for
    /// messages.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn parse_yaml(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        Self::parsed(name, yaml::read(text))
    }

    /// Reads the text of a `flink-conf.yaml`: one `key: value` a line, comments from `#` on. The name is for
    /// messages.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn parse_flat(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        Self::parsed(name, flat::read(text))
    }

    fn parsed(name: &str, read: Read) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let config = Self::checked(vec![Source::of_file(name, read)], &mut errors);
        ConfigErrors::unless_empty(errors)?;
        Ok(config)
    }

    /// Checks what was read, each source in the order of its lines; of two with the same rank the later one
    /// wins.
    pub(super) fn checked(sources: Vec<Source>, errors: &mut Vec<ConfigError>) -> Self {
        let mut config = Self::new();
        // a key may stand before the line that says whose it is
        for Source { read, .. } in &sources {
            let declared = read.settings.iter().filter(|setting| setting.key == o::USER_KEYS.key());
            declared.for_each(|setting| config.declare_user_keys(&setting.value));
        }
        for Source { read, origin } in sources {
            let mut found = Vec::new();
            for (line, reason) in read.malformed {
                found.push((line, ConfigError::Malformed { origin: origin(line), reason }));
            }
            for Setting { key, value, line } in read.settings {
                let mut errors = Vec::new();
                config.insert(&key, &value, origin(line), &mut errors);
                found.extend(errors.into_iter().map(|error| (line, error)));
            }
            found.sort_by_key(|(line, _)| *line);
            errors.extend(found.into_iter().map(|(_, error)| error));
        }
        config
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
        if self.is_user_key(written) {
            return self.insert_user_key(written, value, origin, errors);
        }
        let (nearest, distance) = nearest::key(written);
        match foreign::advice(written) {
            // a key of the table with a letter wrong must not pass for one of Flink's many others
            Some(instead) if distance > 2 => {
                self.warn(&origin, written, format!("this key of Flink's has no effect: {instead}"));
            }
            _ => errors.push(ConfigError::UnknownKey { origin, key: written.to_string(), nearest }),
        }
    }

    fn insert_row(&mut self, row: &'static Row, value: &str, origin: Origin, errors: &mut Vec<ConfigError>) {
        let key = row.key.to_string();
        let translated = translate::translate(row.key, value);
        if let Some((_, message)) = &translated {
            self.warn(&origin, row.key, message.clone());
        }
        let value = translated.as_ref().map_or(value, |(value, _)| value);
        let found = foreign::shown(row.key, value).to_string();
        let canonical = match checks::value(row, value) {
            Ok(canonical) => canonical,
            Err(expected) => return errors.push(ConfigError::BadValue { origin, key, found, expected }),
        };
        if let Some(advice) = checks::refusal(row, &canonical) {
            return errors.push(ConfigError::NotSupported { origin, key, found, advice: advice.to_string() });
        }
        if row.key == o::USER_KEYS.key()
            && let Err(expected) = self.declare(&canonical)
        {
            return errors.push(ConfigError::BadValue { origin, key, found, expected });
        }
        if let Status::NoEffect(advice) = row.status
            && !checks::is_default(row, &canonical)
        {
            self.warn(&origin, row.key, format!("this key has no effect: {advice}"));
        }
        if let Some(present) = self.entries.get(row.key).cloned() {
            let same = row.kind.canonical(&present.value).is_ok_and(|present| present == canonical);
            if let Err(error) = self.set_twice(row.key, present, same, &origin) {
                return errors.push(error);
            }
        }
        self.put(row.key, Entry { value: value.to_string(), origin });
    }

    /// Says that a key was set before in the same place, if it was.
    pub(super) fn set_twice(
        &mut self,
        key: &str,
        present: Entry,
        same: bool,
        origin: &Origin,
    ) -> Result<(), ConfigError> {
        if present.origin.rank() != origin.rank() || *origin == Origin::Code {
            return Ok(());
        }
        let first = present.origin;
        match origin {
            Origin::File { .. } if !same => {
                let (key, second) = (key.to_owned(), origin.clone());
                return Err(ConfigError::SetTwice { key, first, second });
            }
            Origin::File { .. } => {
                self.warn(origin, key, format!("already set at {first}: keep one of the two"));
            }
            _ => self.warn(origin, key, "set more than once: the last one counts".to_string()),
        }
        Ok(())
    }

    pub(super) fn warn(&mut self, origin: &Origin, key: &str, message: String) {
        self.warnings.push(Warning { origin: origin.clone(), key: key.to_string(), message });
    }
}
