//! Whether a value is one, whether this release can honour it, and whether settings go together.

use super::choice::{CheckpointingMode, RestartStrategyType};
use super::error::{ConfigError, ConfigErrors};
use super::options as o;
use super::origin::{Origin, Warning};
use super::table::{self, Row, Status};
use super::value::{ConfigValue, Kind};
use super::{ConfigOption, Configuration, foreign};

/// Checks type and range; returns the form that equal values share.
///
/// The error says what is expected.
pub(super) fn value(row: &Row, text: &str) -> Result<String, String> {
    let canonical = row.kind.canonical(text)?;
    let (Some((min, max)), Some(number)) = (row.range, row.kind.number(text)) else {
        return Ok(canonical);
    };
    if (min..=max).contains(&number) {
        return Ok(canonical);
    }
    let unit = match row.kind {
        Kind::Duration => " ms",
        Kind::MemorySize => " bytes",
        _ => "",
    };
    Err(match max {
        f64::MAX => format!("at least {min}{unit} is expected"),
        _ => format!("a value from {min} to {max}{unit} is expected"),
    })
}

pub(super) fn is_default(row: &Row, canonical: &str) -> bool {
    row.kind.canonical(row.default).is_ok_and(|default| default == canonical)
}

/// The advice, if this release must refuse the value.
pub(super) fn refusal(row: &Row, canonical: &str) -> Option<&'static str> {
    match row.status {
        Status::Refused(values, advice) if values.contains(&canonical) => Some(advice),
        _ => None,
    }
}

impl Configuration {
    /// Checks the settings as a whole, when all of them are in: ranges of what was set in code, and keys that
    /// contradict each other. Returns all warnings.
    ///
    /// # Errors
    ///
    /// All that is wrong.
    pub fn validate(&self) -> Result<Vec<Warning>, ConfigErrors> {
        let mut errors = self.rejected.clone();
        for (key, entry) in self.entries.iter().filter(|(_, entry)| !entry.value.is_empty()) {
            let Some(row) = table::row(key) else { continue };
            let (origin, key) = (entry.origin.clone(), key.to_string());
            let found = foreign::shown(&key, &entry.value).to_string();
            match value(row, &entry.value) {
                Err(expected) => errors.push(ConfigError::BadValue { origin, key, found, expected }),
                Ok(canonical) => {
                    if let Some(advice) = refusal(row, &canonical) {
                        let advice = advice.to_string();
                        errors.push(ConfigError::NotSupported { origin, key, found, advice });
                    }
                }
            }
        }
        self.contradictions(&mut errors);
        ConfigErrors::unless_empty(errors)?;
        let mut warnings = self.warnings.clone();
        self.idle_restart_keys(&mut warnings);
        Ok(warnings)
    }

    fn contradictions(&self, errors: &mut Vec<ConfigError>) {
        let mut conflict = |origin: Option<&Origin>, reason: String| {
            errors.push(ConfigError::Conflict { origin: origin.unwrap_or(&Origin::Code).clone(), reason });
        };
        if self.get(o::UNALIGNED) {
            let (key, at) = (o::UNALIGNED.key(), self.origin(o::UNALIGNED));
            if self.get(o::CHECKPOINTING_MODE) != CheckpointingMode::ExactlyOnce {
                conflict(at, format!("`{key}` needs `{}: EXACTLY_ONCE`", o::CHECKPOINTING_MODE.key()));
            }
            if self.get(o::MAX_CONCURRENT_CHECKPOINTS) != 1 {
                conflict(at, format!("`{key}` needs `{}: 1`", o::MAX_CONCURRENT_CHECKPOINTS.key()));
            }
        }
        let (max, parallelism) = (self.get(o::MAX_PARALLELISM), self.get(o::PARALLELISM));
        if max == 0 {
            let key = o::MAX_PARALLELISM.key();
            conflict(
                self.origin(o::MAX_PARALLELISM),
                format!("`{key}: 0`: -1, or a number from 1 to 32768, is expected"),
            );
        } else if max > 0 && max < parallelism {
            conflict(
                self.origin(o::MAX_PARALLELISM),
                format!(
                    "`{}: {max}` is less than `{}: {parallelism}`: a subtask needs at least one key group",
                    o::MAX_PARALLELISM.key(),
                    o::PARALLELISM.key()
                ),
            );
        }
        self.ordered(o::RESTART_EXPONENTIAL_INITIAL, o::RESTART_EXPONENTIAL_MAX, &mut conflict);
        if self.is_set(o::HEARTBEAT_INTERVAL) {
            // its default does not matter to a short timeout: the interval has no effect here
            self.ordered(o::HEARTBEAT_INTERVAL, o::HEARTBEAT_TIMEOUT, &mut conflict);
        }
        if let (Some(interval), Some(backlog)) =
            (self.get(o::CHECKPOINTING_INTERVAL), self.get(o::CHECKPOINTING_INTERVAL_DURING_BACKLOG))
            && !backlog.is_zero()
            && backlog < interval
        {
            let (key, interval) = (o::CHECKPOINTING_INTERVAL_DURING_BACKLOG, o::CHECKPOINTING_INTERVAL.key());
            conflict(self.origin(key), format!("`{}` must be 0 or at least `{interval}`", key.key()));
        }
        let storage = o::CHECKPOINT_STORAGE;
        if self.get(storage) == Some(super::CheckpointStorageType::FileSystem)
            && self.get(o::CHECKPOINTS_DIR).is_none()
        {
            let (key, dir) = (storage.key(), o::CHECKPOINTS_DIR.key());
            conflict(self.origin(storage), format!("`{key}: filesystem` needs a directory: set `{dir}`"));
        }
    }

    fn ordered<T: ConfigValue + PartialOrd>(
        &self,
        low: ConfigOption<T>,
        high: ConfigOption<T>,
        conflict: &mut impl FnMut(Option<&Origin>, String),
    ) {
        let (a, b) = (self.get(low), self.get(high));
        if a > b {
            conflict(
                self.origin(low).or(self.origin(high)),
                format!("`{}: {}` is more than `{}: {}`", low.key(), a.to_text(), high.key(), b.to_text()),
            );
        }
    }

    /// Settings of a restart strategy that is not the chosen one do nothing: say so.
    fn idle_restart_keys(&self, warnings: &mut Vec<Warning>) {
        let chosen_name = match self.get(o::RESTART_STRATEGY) {
            Some(chosen) => chosen.as_str(),
            None if self.get(o::CHECKPOINTING_INTERVAL).is_none() => "",
            None => RestartStrategyType::ExponentialDelay.as_str(),
        };
        for (key, entry) in &self.entries {
            let Some((strategy, _)) =
                key.strip_prefix("restart-strategy.").and_then(|rest| rest.split_once('.'))
            else {
                continue;
            };
            if strategy != chosen_name {
                warnings.push(Warning {
                    origin: entry.origin.clone(),
                    key: key.to_string(),
                    message: format!("this key has no effect: it needs `restart-strategy.type: {strategy}`"),
                });
            }
        }
    }
}
