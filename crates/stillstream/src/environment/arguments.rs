//! The arguments of a program that are the environment's.

use std::path::Path;

use stillstream_types::config::{ConfigError, ConfigOption, Configuration, options as o};
use stillstream_types::{Error, ErrorKind, Result};

use super::StreamExecutionEnvironment;

/// The folder with the configuration file, where no `--config` names one.
const CONF_DIR: &str = "STILLSTREAM_CONF_DIR";

/// Short forms of keys that take a value.
fn key_of(flag: &str) -> Option<&'static str> {
    const fn key<T>(option: ConfigOption<T>) -> &'static str {
        option.key()
    }
    Some(match flag {
        "--parallelism" => key(o::PARALLELISM),
        "--processes" => key(o::PROCESSES),
        "--checkpoint-dir" => key(o::CHECKPOINTS_DIR),
        "--checkpoint-interval" => key(o::CHECKPOINTING_INTERVAL),
        "--from" | "--from-savepoint" => key(o::RECOVERY_PATH),
        "--backend" => key(o::CHECKPOINT_STORAGE),
        _ => return None,
    })
}

/// Short forms of keys that are on or off.
fn switch_of(flag: &str) -> Option<&'static str> {
    Some(match flag {
        "--allow-non-restored-state" => o::RECOVERY_IGNORE_UNCLAIMED_STATE.key(),
        "--start-fresh" => o::START_FRESH.key(),
        _ => return None,
    })
}

#[derive(Default)]
struct Reading {
    pairs: Vec<String>,
    files: Vec<String>,
    rest: Vec<String>,
    mistakes: Vec<String>,
}

impl Reading {
    /// Takes a short form's key and value; what is wrong is said of the short form, as its key was not written.
    fn take(&mut self, flag: &str, key: &str, value: &str) {
        let pair = format!("{key}={value}");
        match Configuration::from_args(["-D", &pair]) {
            Ok(_) => self.pairs.push(pair),
            Err(errors) => self.mistakes.extend(errors.iter().map(|error| match error {
                ConfigError::BadValue { expected, .. } => {
                    format!("argument `{flag} {value}` is not valid: {expected}")
                }
                other => format!("argument `{flag} {value}`: {other}"),
            })),
        }
    }

    fn read(arguments: impl Iterator<Item = String>) -> Self {
        let mut this = Self::default();
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                this.rest.extend(arguments);
                break;
            }
            if let Some(pair) = argument.strip_prefix("-D") {
                match pair {
                    "" => this.pairs.push(arguments.next().unwrap_or_default()),
                    pair => this.pairs.push(pair.to_string()),
                }
                continue;
            }
            let (flag, written) = match argument.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag.to_string(), Some(value.to_string())),
                _ => (argument.clone(), None),
            };
            if let Some(key) = switch_of(&flag) {
                this.take(&flag, key, &written.unwrap_or_else(|| "true".into()));
                continue;
            }
            let key = key_of(&flag);
            if key.is_none() && flag != "--config" {
                this.rest.push(argument);
                continue;
            }
            // the next flag is not a value: it was forgotten
            let value = written.or_else(|| arguments.next_if(|next| !next.starts_with('-')));
            match (value.filter(|value| !value.is_empty()), key) {
                (None, _) => {
                    this.mistakes.push(format!("argument `{flag}` needs a value, as in `{}`", example(&flag)))
                }
                (Some(value), Some(key)) if flag == "--backend" => this.take(&flag, key, backend(&value)),
                (Some(value), Some(key)) => this.take(&flag, key, &value),
                (Some(value), None) => this.files.push(value),
            }
        }
        this
    }
}

/// The storage that a backend of Flink 1.x writes to.
fn backend(value: &str) -> &str {
    if value.eq_ignore_ascii_case("memory") { "jobmanager" } else { value }
}

fn example(flag: &str) -> String {
    let value = match flag {
        "--checkpoint-dir" => "/var/lib/job/checkpoints",
        "--checkpoint-interval" => "10s",
        "--from" | "--from-savepoint" => "/backup/chk-7",
        "--backend" => "filesystem",
        "--config" => "conf/config.yaml",
        _ => "4",
    };
    format!("{flag} {value}")
}

/// From arguments.
impl StreamExecutionEnvironment {
    /// An environment with the settings that the program was started with: see [`from_arguments`](Self::from_arguments) for
    /// the arguments. Others are left for the program, in [`arguments`](Self::arguments).
    ///
    /// Without `--config` the file in the folder that the variable `STILLSTREAM_CONF_DIR` names is read.
    ///
    /// # Errors
    /// All that is wrong with arguments and file.
    #[expect(
        clippy::disallowed_methods,
        reason = "the start-up shell: the one place that reads arguments and variables"
    )]
    pub fn from_args() -> Result<Self> {
        let arguments = std::env::args_os().skip(1).map(|argument| {
            argument.into_string().map_err(|argument| {
                Error::new(ErrorKind::Configuration, format!("argument {argument:?} is not valid UTF-8 text"))
            })
        });
        let folder = std::env::var(CONF_DIR).ok().filter(|folder| !folder.is_empty());
        let (mut env, rest) = Self::read_arguments(arguments.collect::<Result<Vec<_>>>()?, folder)?;
        env.arguments = rest;
        Ok(env)
    }

    /// An environment from arguments, without the program's name, and the arguments that are left.
    ///
    /// | argument | what it sets |
    /// |---|---|
    /// | `-D key=value` | any key of the configuration |
    /// | `--config PATH` | a configuration file, or the folder with `config.yaml` or `flink-conf.yaml` |
    /// | `--parallelism N` | `parallelism.default` |
    /// | `--processes N` | `stillstream.job.processes` |
    /// | `--checkpoint-dir URI` | `execution.checkpointing.dir` |
    /// | `--checkpoint-interval 200ms` | `execution.checkpointing.interval` |
    /// | `--backend memory` or `filesystem` | `execution.checkpointing.storage` |
    /// | `--from PATH`, `--from-savepoint PATH` | `execution.state-recovery.path` |
    /// | `--allow-non-restored-state` | `execution.state-recovery.ignore-unclaimed-state` |
    /// | `--start-fresh` | `stillstream.checkpoint.start-fresh` |
    ///
    /// `--name=value` is the same as `--name value`. All after `--` is the program's.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let arguments = ["--parallelism", "4", "-D", "execution.checkpointing.interval=1 s", "in.csv"];
    /// let (env, rest) = StreamExecutionEnvironment::from_arguments(arguments)?;
    /// assert_eq!(rest, ["in.csv"]);
    /// # let _ = env;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// All that is wrong with arguments and file.
    pub fn from_arguments<I>(arguments: I) -> Result<(Self, Vec<String>)>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::read_arguments(arguments.into_iter().map(Into::into), None)
    }

    fn read_arguments(
        arguments: impl IntoIterator<Item = String>,
        folder: Option<String>,
    ) -> Result<(Self, Vec<String>)> {
        let Reading { pairs, mut files, rest, mut mistakes } = Reading::read(arguments.into_iter());
        if files.is_empty() {
            files.extend(folder);
        }
        let mut config = Configuration::new();
        if files.len() > 1 {
            mistakes.push(format!("`--config` was given {} times: one file is read", files.len()));
        } else if let Some(file) = files.first() {
            match Configuration::load(Path::new(file)) {
                Ok(read) => config = read,
                Err(errors) => mistakes.extend(errors.iter().map(ToString::to_string)),
            }
        }
        let pairs = pairs.into_iter().flat_map(|pair| ["-D".to_string(), pair]);
        match Configuration::from_args(pairs) {
            Ok((set, _)) => config.merge(set),
            Err(errors) => mistakes.extend(errors.iter().map(ToString::to_string)),
        }
        match mistakes.as_slice() {
            [] => Ok((Self::from_configuration(config), rest)),
            [one] => Err(Error::new(ErrorKind::Configuration, one.clone())),
            many => Err(Error::new(
                ErrorKind::Configuration,
                format!(
                    "{} errors in the arguments and the configuration:\n  {}",
                    many.len(),
                    many.join("\n  ")
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn read(arguments: &[&str]) -> (Configuration, Vec<String>) {
        let (env, rest) = StreamExecutionEnvironment::from_arguments(arguments.iter().copied()).unwrap();
        (env.config, rest)
    }

    fn error(arguments: &[&str]) -> String {
        let error = StreamExecutionEnvironment::from_arguments(arguments.iter().copied()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        error.to_string()
    }

    #[test]
    fn every_short_form_sets_its_key() {
        let (config, rest) = read(&[
            "--parallelism",
            "4",
            "--processes=2",
            "--checkpoint-dir",
            "/c",
            "--checkpoint-interval",
            "200ms",
            "--from",
            "/s",
            "--allow-non-restored-state",
            "--start-fresh",
            "--backend",
            "memory",
            "-Dsink.committer.retries=1",
        ]);
        assert!(rest.is_empty());
        assert_eq!((config.get(o::PARALLELISM), config.get(o::PROCESSES)), (4, 2));
        assert_eq!(config.get(o::CHECKPOINTS_DIR).as_deref(), Some("/c"));
        assert_eq!(config.get(o::CHECKPOINTING_INTERVAL), Some(Duration::from_millis(200)));
        assert_eq!(config.get(o::RECOVERY_PATH).as_deref(), Some("/s"));
        assert!(config.get(o::RECOVERY_IGNORE_UNCLAIMED_STATE) && config.get(o::START_FRESH));
        assert_eq!(config.get(o::CHECKPOINT_STORAGE).map(|s| s.as_str()), Some("jobmanager"));
        assert_eq!(config.get(o::SINK_COMMITTER_RETRIES), 1);
        assert_eq!(read(&["--from-savepoint", "/t"]).0.get(o::RECOVERY_PATH).as_deref(), Some("/t"));
    }

    #[test]
    fn what_is_not_the_environments_is_left_for_the_program() {
        let (_, rest) =
            read(&["in.csv", "--year=2013", "--parallelism", "2", "-v", "--", "--parallelism", "x"]);
        assert_eq!(rest, ["in.csv", "--year=2013", "-v", "--parallelism", "x"]);
    }

    #[test]
    fn all_mistakes_are_one_error_that_names_each_argument_as_written() {
        let text =
            error(&["--parallelism", "many", "--checkpoint-dir", "--backend", "rocksdb", "-D", "nonsense"]);
        for part in [
            "4 errors",
            "`--parallelism many` is not valid",
            "`--checkpoint-dir` needs a value, as in",
            "`--backend rocksdb`",
            "found `nonsense`",
        ] {
            assert!(text.contains(part), "{part} in: {text}");
        }
    }

    #[test]
    fn an_argument_wins_over_code_and_code_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        std::fs::write(
            &file,
            "parallelism.default: 2\nstillstream.job.processes: 2\nsink.committer.retries: 2\n",
        )
        .unwrap();
        let arguments = ["--config".to_string(), file.display().to_string(), "--parallelism=9".to_string()];
        let (mut env, _) = StreamExecutionEnvironment::from_arguments(arguments).unwrap();
        env.set_parallelism(5);
        env.configuration_mut().set(o::SINK_COMMITTER_RETRIES, 5);
        let config = env.configuration();
        assert_eq!(config.get(o::PARALLELISM), 9, "the argument");
        assert_eq!(config.get(o::SINK_COMMITTER_RETRIES), 5, "the code");
        assert_eq!(config.get(o::PROCESSES), 2, "the file");
    }

    #[test]
    fn a_configuration_that_is_not_there_is_named() {
        assert!(error(&["--config", "/no/such.yaml"]).contains("/no/such.yaml"));
    }
}
