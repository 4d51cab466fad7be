//! [`Settings`] of one run, as given on the command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use stillstream::config::{ByteSize, StateBackendType, options};
use stillstream::prelude::*;

/// Where state is kept while the job runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// In memory.
    Heap,
    /// In RocksDB on the local disk; checkpoints are incremental.
    RocksDb,
}

impl Backend {
    /// All of them.
    const ALL: [Self; 2] = [Self::Heap, Self::RocksDb];

    /// As it is written on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::RocksDb => "rocksdb",
        }
    }
}

/// What one run is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of different keys.
    pub keys: u64,
    /// How long to measure, after all keys are there.
    pub measure: Duration,
    /// Exactly this many records instead, with none left out: for counting instructions.
    pub records: Option<u64>,
    /// Subtasks of each operator, one a thread.
    pub workers: u32,
    /// Where state is kept.
    pub backend: Backend,
    /// Memory of RocksDB in a process, in bytes; `None`: as much as a job has that sets nothing.
    pub memory_bytes: Option<u64>,
    /// Time between checkpoints, in scenarios that take them.
    pub interval: Duration,
    /// A kind of the scenario: see each scenario.
    pub variant: String,
    /// Number of operators in a row.
    pub operators: u32,
    /// Where checkpoints and input files go; a folder of its own there is removed at the end.
    pub dir: PathBuf,
    /// When the process was started, as time since the boot of the machine.
    pub started: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keys: 1_000,
            measure: Duration::from_secs(2),
            records: None,
            workers: 2,
            backend: Backend::Heap,
            memory_bytes: None,
            interval: Duration::from_secs(1),
            variant: String::new(),
            operators: 1,
            dir: std::env::temp_dir(),
            started: None,
        }
    }
}

/// A number that may be written with underscores.
fn number<T: FromStr>(flag: &str, value: &str) -> Result<T> {
    value.replace('_', "").parse().map_err(|_| {
        Error::new(
            ErrorKind::Configuration,
            format!("`{flag} {value}`: expected a number above or equal to 0"),
        )
    })
}

impl Settings {
    /// Reads `--flag value` pairs.
    ///
    /// # Errors
    /// For a flag that does not exist, and for a value that is no number where one is expected.
    pub fn read(arguments: &[String]) -> Result<Self> {
        let mut settings = Self::default();
        let mut arguments = arguments.iter();
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| {
                Error::new(ErrorKind::Configuration, format!("`{flag}` needs a value behind it"))
            })?;
            match flag.as_str() {
                "--keys" => settings.keys = number::<u64>(flag, value)?.max(1),
                "--measure-ms" => settings.measure = Duration::from_millis(number(flag, value)?),
                "--records" => settings.records = Some(number(flag, value)?),
                "--workers" => settings.workers = number::<u32>(flag, value)?.max(1),
                "--interval-ms" => settings.interval = Duration::from_millis(number(flag, value)?),
                "--operators" => settings.operators = number(flag, value)?,
                "--started-ns" => settings.started = Some(Duration::from_nanos(number(flag, value)?)),
                "--memory-mb" => {
                    settings.memory_bytes = Some(number::<u64>(flag, value)?.clamp(1, 1 << 20) << 20)
                }
                "--variant" => settings.variant = value.clone(),
                "--dir" => settings.dir = value.into(),
                "--backend" => {
                    let known = Backend::ALL.into_iter().find(|backend| backend.name() == value);
                    settings.backend = known.ok_or_else(|| {
                        let names = Backend::ALL.map(Backend::name).join(", ");
                        let text = format!("there is no backend `{value}`; there is: {names}");
                        Error::new(ErrorKind::Configuration, text)
                    })?;
                }
                _ => {
                    let text = format!("there is no `{flag}`; see `stillstream-bench --help`");
                    return Err(Error::new(ErrorKind::Configuration, text));
                }
            }
        }
        Ok(settings)
    }

    /// An environment for a job that takes no checkpoints.
    pub fn environment(&self) -> StreamExecutionEnvironment {
        let mut env = StreamExecutionEnvironment::new();
        match self.backend {
            // what a job has that sets nothing
            Backend::Heap => {}
            Backend::RocksDb => {
                let config = env.configuration_mut();
                config
                    .set(options::STATE_BACKEND, StateBackendType::RocksDb)
                    .set(options::ROCKSDB_LOCAL_DIR, Some(self.dir.display().to_string()));
                if let Some(bytes) = self.memory_bytes {
                    config.set(options::ROCKSDB_FIXED_PER_PROCESS, Some(ByteSize::from_bytes(bytes)));
                }
            }
        }
        env.set_parallelism(self.workers).set_progress(ProgressMode::Never);
        env
    }

    /// An environment for a job whose checkpoints go to files in `dir`.
    pub fn checkpointed(&self, dir: &std::path::Path) -> StreamExecutionEnvironment {
        let mut env = self.environment();
        env.enable_checkpointing(self.interval);
        let dir = dir.display().to_string();
        match self.backend {
            Backend::Heap => env.set_state_backend(FsStateBackend::new(dir)),
            Backend::RocksDb => env.set_state_backend(RocksDbStateBackend::new(dir).incremental(true)),
        };
        env
    }

    /// A folder that is removed when it is dropped.
    pub fn scratch(&self) -> Result<tempfile::TempDir> {
        tempfile::Builder::new().prefix("stillstream-bench-").tempdir_in(&self.dir).kind(ErrorKind::Storage)
    }

    /// The error for a variant that the scenario does not have.
    pub fn no_variant(&self, known: &[&str]) -> Error {
        let text = format!("there is no variant `{}`; there is: {}", self.variant, known.join(", "));
        Error::new(ErrorKind::Configuration, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Settings> {
        Settings::read(&line.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn flags_reach_the_settings() {
        let settings =
            read("--keys 1_000_000 --measure-ms 250 --workers 1 --records 5 --backend heap").unwrap();
        assert_eq!((settings.keys, settings.workers, settings.records), (1_000_000, 1, Some(5)));
        assert_eq!(settings.measure, Duration::from_millis(250));
    }

    #[test]
    fn a_mistake_on_the_command_line_is_named() {
        for (line, part) in [
            ("--keys many", "`--keys many`"),
            ("--kyes 1", "`--kyes`"),
            ("--keys", "needs a value"),
            ("--backend disk", "there is: heap, rocksdb"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
