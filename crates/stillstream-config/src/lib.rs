//! Flink's configuration: the same keys, types and defaults, with the line of every mistake.
//!
//! A [`Configuration`] is read from `config.yaml` (nested or flat keys) or from the older flat
//! `flink-conf.yaml`, from `-D key=value` arguments, and set in code. Code wins over the file, and an
//! argument wins over both. Keys that are not known are errors, unless they begin as
//! `stillstream.user-keys` says; keys that are known and do nothing here are
//! [warnings](Configuration::warnings).
//!
//! ```
//! use stillstream_config::{Configuration, options};
//! use std::time::Duration;
//!
//! let mut config = Configuration::parse_yaml("config.yaml", "
//! execution.checkpointing:
//!   interval: 10 s
//!   timeout: 2 min
//! ")?;
//! let (args, _) = Configuration::from_args(["-D", "execution.checkpointing.timeout=30 s"])?;
//! config.merge(args);
//! config.set(options::CHECKPOINTING_INTERVAL, Duration::from_secs(1)); // code wins over the file
//! config.set(options::CHECKPOINTING_TIMEOUT, Duration::from_secs(1)); // but not over -D
//!
//! assert_eq!(config.get(options::CHECKPOINTING_INTERVAL), Some(Duration::from_secs(1)));
//! assert_eq!(config.get(options::CHECKPOINTING_TIMEOUT), Duration::from_secs(30));
//! assert_eq!(config.get(options::NUM_RETAINED_CHECKPOINTS), 1);
//! # Ok::<(), stillstream_config::ConfigErrors>(())
//! ```
//!
//! The whole [table] of keys is in `docs/configuration.md`.

mod args;
mod byte_size;
mod checks;
mod choice;
pub mod docs;
mod duration;
mod error;
mod flat;
mod foreign;
mod load;
#[doc(hidden)]
pub mod nearest;
pub mod options;
mod origin;
mod resolved;
pub mod table;
mod translate;
mod user_keys;
mod value;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;

pub use byte_size::ByteSize;
pub use choice::{
    CheckpointStorageType, CheckpointingMode, CompactionStyle, ExternalizedCheckpointRetention, FileAccess,
    InfoLogLevel, PendingTimers, PredefinedOptions, ProgressMode, RecoveryClaimMode, RestartStrategyType,
    StateBackendType,
};
pub use duration::parse_duration;
pub use error::{ConfigError, ConfigErrors};
pub use options::ConfigOption;
pub use origin::{Origin, Warning};
pub use stillstream_types::RestartStrategy;
pub use value::{ConfigValue, Kind};

#[derive(Clone, PartialEq, Debug)]
struct Entry {
    /// Valid under its row's kind, or empty: "no value", where the code took a setting away.
    value: String,
    origin: Origin,
}

/// Settings, each with its origin. Keys that are not set have their default.
///
/// Every stored value is valid under its key's type; that is what makes [`get`](Self::get) infallible.
#[derive(Clone, Default)]
pub struct Configuration {
    entries: BTreeMap<&'static str, Entry>,
    /// The program's own keys.
    user: BTreeMap<String, Entry>,
    /// How the program's own keys begin.
    user_prefixes: Vec<String>,
    warnings: Vec<Warning>,
    /// Values set in code that are none (not a number): `validate` reports them.
    rejected: Vec<ConfigError>,
}

impl Configuration {
    /// Nothing set: every key has its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a key, or its default.
    pub fn get<T: ConfigValue>(&self, option: ConfigOption<T>) -> T {
        let text = match self.entries.get(option.key()) {
            Some(entry) => entry.value.as_str(),
            None => table::row(option.key()).map_or("", |row| row.default),
        };
        // Cannot fail: values are checked before they are stored, and tests check that each option is in the
        // table with its own kind, and each default under that kind.
        T::parse(text).unwrap_or_else(|reason| unreachable!("`{}: {text}`: {reason}", option.key()))
    }

    /// Whether the key was set, be it to its default.
    pub fn is_set<T>(&self, option: ConfigOption<T>) -> bool {
        self.entries.contains_key(option.key())
    }

    /// Where the key was set; `None` if it has its default.
    pub fn origin<T>(&self, option: ConfigOption<T>) -> Option<&Origin> {
        self.entries.get(option.key()).map(|entry| &entry.origin)
    }

    /// Sets a key in code. It has no effect if the key was set by `-D`.
    ///
    /// A number outside the key's range, or none at all, is found by [`validate`](Self::validate).
    pub fn set<T: ConfigValue>(&mut self, option: ConfigOption<T>, value: impl Into<T>) -> &mut Self {
        let mut text = value.into().to_text();
        if text.is_empty() && !T::OPTIONAL {
            // an empty text under a key that has a default means the default
            text = table::row(option.key()).map_or("", |row| row.default).to_string();
        }
        match T::parse(&text) {
            Ok(_) => self.put(option.key(), Entry { value: text, origin: Origin::Code }),
            Err(expected) => {
                let key = option.key().to_string();
                self.rejected.push(ConfigError::BadValue {
                    origin: Origin::Code,
                    key,
                    found: text,
                    expected,
                });
            }
        }
        self
    }

    /// Sets a key in code by its name, present or older, with a value as it would be written in a file.
    ///
    /// # Errors
    ///
    /// The key is unknown, or the value is not of its type.
    pub fn set_text(&mut self, key: &str, value: &str) -> Result<&mut Self, ConfigErrors> {
        let mut errors = Vec::new();
        self.insert(key, value, Origin::Code, &mut errors);
        ConfigErrors::unless_empty(errors)?;
        Ok(self)
    }

    /// Takes over the settings of another configuration where they win over the present ones; of two with the
    /// same origin the other's wins.
    pub fn merge(&mut self, other: Self) {
        for (key, entry) in other.entries {
            self.put(key, entry);
        }
        for (key, entry) in other.user {
            self.put_user_key(key, entry);
        }
        self.user_prefixes.extend(other.user_prefixes);
        self.warnings.extend(other.warnings);
        self.rejected.extend(other.rejected);
    }

    /// What a person should know about the settings so far: older names, keys without effect here.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The settings that are not defaults, one a line with the origin, for a log. Secrets are hidden.
    pub fn dump(&self) -> String {
        self.all()
            .map(|(key, entry)| {
                let value = if entry.value.is_empty() { "(none)" } else { foreign::shown(key, &entry.value) };
                format!("{key}: {value}  # {}\n", entry.origin)
            })
            .collect()
    }

    /// The settings that are not defaults, by key. Secrets are hidden.
    ///
    /// ```
    /// use stillstream_config::Configuration;
    /// let config = Configuration::parse_yaml("c", "{rest.port: 8082, stillstream.rest.token: s3cret}")?;
    /// assert_eq!(config.shown()["rest.port"], "8082");
    /// assert_eq!(config.shown()["stillstream.rest.token"], "******");
    /// # Ok::<(), stillstream_config::ConfigErrors>(())
    /// ```
    pub fn shown(&self) -> BTreeMap<String, String> {
        let shown =
            |(key, entry): (&str, &Entry)| (key.to_owned(), foreign::shown(key, &entry.value).to_owned());
        self.all().map(shown).collect()
    }

    fn all(&self) -> impl Iterator<Item = (&str, &Entry)> {
        let user = self.user.iter().map(|(key, entry)| (key.as_str(), entry));
        self.entries.iter().map(|(key, entry)| (*key, entry)).chain(user)
    }

    fn put(&mut self, key: &'static str, entry: Entry) {
        match self.entries.get(key) {
            Some(present) if present.origin.rank() > entry.origin.rank() => {}
            _ => {
                self.entries.insert(key, entry);
            }
        }
    }
}

impl fmt::Debug for Configuration {
    /// As [`dump`](Self::dump): secrets do not get into logs by way of `{:?}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dump())
    }
}

#[cfg(test)]
mod sweep_tests;
#[cfg(test)]
mod tests;
