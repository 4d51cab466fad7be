//! The arguments of a program that are the environment's.

use std::io::Write;
use std::path::Path;

use stillstream_config::{ConfigError, Configuration};
use stillstream_types::{Error, ErrorKind, Result};

use super::flags::{self, Own, Sets};
use super::{Mode, StreamExecutionEnvironment};

/// The folder with the configuration file, where no `--config` names one.
const CONF_DIR: &str = "STILLSTREAM_CONF_DIR";

/// The way out for arguments of the program that look like the environment's.
const OWN: &str = "an argument of the program's own goes behind `--`, or is named in `from_args_with`";

#[derive(Default)]
struct Reading {
    pairs: Vec<String>,
    files: Vec<String>,
    rest: Vec<String>,
    mistakes: Vec<String>,
    help: bool,
    mode: Mode,
    /// Whether a flag that nobody knows is an error.
    strict: bool,
}

impl Reading {
    /// Takes a short form's key and value; what is wrong is said of the short form, as its key was not
    /// written.
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

    /// Takes a short form whose value is one of a few names.
    fn take_name(&mut self, flag: &str, key: &str, names: &[(&str, &str)], value: &str) {
        let same = |name: &str| value.eq_ignore_ascii_case(name);
        if let Some((_, value)) = names.iter().find(|(name, of_key)| same(name) || same(of_key)) {
            return self.take(flag, key, value);
        }
        // `--backend` once named the storage
        self.mistakes.push(match flags::storage(value).filter(|_| flag == "--backend") {
            Some(storage) => format!(
                "argument `--backend {value}`: where checkpoints are kept is `--storage {storage}`; `--backend` names where \
                 state lies while the job runs, heap or rocksdb"
            ),
            None => {
                let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
                format!("argument `{flag} {value}` is not valid: one of {} is expected", names.join(", "))
            }
        });
    }

    /// An argument that is none of the environment's: the program's, or one of the environment's with a
    /// letter wrong.
    fn leave(&mut self, flag: &str, argument: String, own: &[Own<'_>]) {
        let known = own.iter().any(|own| own.flag() == flag);
        let is_flag = flag.starts_with('-') && flag.len() > 2 && flag.parse::<f64>().is_err();
        if !known && is_flag {
            let nearest = flags::nearest(flag, own);
            let strict = self.strict && flag.starts_with("--");
            match nearest {
                Some(nearest) => self
                    .mistakes
                    .push(format!("unknown argument `{flag}`: did you mean `{nearest}`? ({OWN})")),
                None if strict => {
                    self.mistakes
                        .push(format!("unknown argument `{flag}`: `--help` lists all arguments ({OWN})"));
                }
                None => {}
            }
        }
        self.rest.push(argument);
    }

    fn read(arguments: impl Iterator<Item = String>, own: &[Own<'_>], strict: bool) -> Self {
        let mut this = Self { strict, ..Self::default() };
        let mut arguments = arguments.peekable();
        // a subcommand can only be the first argument
        match arguments.peek().map(String::as_str) {
            Some("run") => drop(arguments.next()),
            Some("plan") => {
                arguments.next();
                this.mode = Mode::Plan { json: false };
            }
            _ => {}
        }
        while let Some(argument) = arguments.next() {
            if let (Mode::Plan { json }, "--json") = (&mut this.mode, argument.as_str()) {
                *json = true;
                continue;
            }
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
            let (name, written) = match argument.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag.to_string(), Some(value.to_string())),
                _ => (argument.clone(), None),
            };
            let Some(flag) = flags::find(&name).filter(|_| !own.iter().any(|own| own.flag() == name)) else {
                this.leave(&name, argument, own);
                continue;
            };
            match flag.sets {
                Sets::Help => {
                    this.help = true;
                    this.rest.push(argument);
                    continue;
                }
                Sets::Switch(key) => {
                    this.take(&name, key, &written.unwrap_or_else(|| "true".into()));
                    continue;
                }
                Sets::Key(_) | Sets::Name(..) | Sets::File => {}
            }
            // the next flag is not a value: it was forgotten
            let value = written.or_else(|| arguments.next_if(|next| !next.starts_with('-')));
            match (value.filter(|value| !value.is_empty()), flag.sets) {
                (None, _) => this
                    .mistakes
                    .push(format!("argument `{name}` needs a value, as in `{name} {}`", flag.example)),
                (Some(value), Sets::Key(key)) => this.take(&name, key, &value),
                (Some(value), Sets::Name(key, names)) => this.take_name(&name, key, names, &value),
                (Some(value), _) => this.files.push(value),
            }
        }
        this
    }
}

/// What was read of the arguments.
struct Found {
    env: StreamExecutionEnvironment,
    rest: Vec<String>,
}

/// From arguments.
impl StreamExecutionEnvironment {
    /// An environment with the settings that the program was started with: see
    /// [`from_arguments`](Self::from_arguments) for the arguments. Words that are no `--argument`, and all
    /// behind `--`, are left for the program, in [`arguments`](Self::arguments). An `--argument` of the
    /// program's own has to be named, by [`from_args_with`](Self::from_args_with): any other is an error, so
    /// that no typo is passed over.
    ///
    /// `--help` prints the arguments and ends the program. Without `--config` the file in the folder that the
    /// variable `STILLSTREAM_CONF_DIR` names is read.
    ///
    /// # Errors
    /// All that is wrong with arguments and file.
    pub fn from_args() -> Result<Self> {
        Self::from_args_with(&[])
    }

    /// As [`from_args`](Self::from_args), for a program with arguments of its own: each with its value, and
    /// what it says. `--help` shows them too, and any `--argument` that is neither one of these nor the
    /// environment's is an error.
    ///
    /// ```no_run
    /// use stillstream::prelude::*;
    /// fn main() -> Result<()> {
    ///     let env = StreamExecutionEnvironment::from_args_with(&[("--year N", "reads this year only")])?;
    ///     let mut own = env.arguments().iter();
    ///     let year = own.find(|argument| *argument == "--year").and_then(|_| own.next());
    /// #   let _ = year;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// All that is wrong with arguments and file.
    #[expect(
        clippy::disallowed_methods,
        reason = "the start-up shell: the one place that reads arguments and variables"
    )]
    pub fn from_args_with(own: &[(&str, &str)]) -> Result<Self> {
        let own: Vec<Own<'_>> = own.iter().map(|(usage, meaning)| Own { usage, meaning }).collect();
        let mut arguments = std::env::args_os();
        let program = arguments.next().unwrap_or_default();
        let arguments = arguments.map(|argument| {
            argument.into_string().map_err(|argument| {
                Error::new(ErrorKind::Configuration, format!("argument {argument:?} is not valid UTF-8 text"))
            })
        });
        let reading = Reading::read(arguments.collect::<Result<Vec<_>>>()?.into_iter(), &own, true);
        if reading.help {
            let program = Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into_owned();
            // a reader that has seen enough (`--help | head`) is no failure
            let _ = std::io::stdout().write_all(flags::help(&program, &own).as_bytes());
            std::process::exit(0);
        }
        let folder = std::env::var(CONF_DIR).ok().filter(|folder| !folder.is_empty());
        let Found { mut env, rest } = Self::from_reading(reading, folder)?;
        env.arguments = rest;
        env.from_args = true;
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
    /// | `--storage memory` or `filesystem` | `execution.checkpointing.storage` |
    /// | `--backend heap` or `rocksdb` | `state.backend.type` |
    /// | `--from PATH`, `--from-savepoint PATH` | `execution.state-recovery.path` |
    /// | `--claim-mode NO_CLAIM` or `CLAIM` | `execution.state-recovery.claim-mode` |
    /// | `--from-checkpoint N` | `stillstream.checkpoint.fall-back-to` |
    /// | `--allow-non-restored-state` | `execution.state-recovery.ignore-unclaimed-state` |
    /// | `--allow-dropped-fields` | `stillstream.checkpoint.allow-dropped-fields` |
    /// | `--start-fresh` | `stillstream.checkpoint.start-fresh` |
    ///
    /// The first argument may be `run`, which changes nothing, or `plan`: then [`execute`](Self::execute)
    /// prints the operators with their ids and states, with `--json` as a plan file for
    /// `stillstream restore-plan`, and ends the program without running it.
    ///
    /// `--name=value` is the same as `--name value`. All after `--` is the program's. An argument that is
    /// almost one of these (`--paralelism`, `--checkpoint_dir`) is an error that names the one that was
    /// meant. `--help` is left to the program here; [`from_args`](Self::from_args) prints
    /// [`help`](Self::help).
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
        let reading = Reading::read(arguments.into_iter().map(Into::into), &[], false);
        let Found { env, rest } = Self::from_reading(reading, None)?;
        Ok((env, rest))
    }

    /// What `--help` prints: the arguments of every job, after those of this program.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let help = StreamExecutionEnvironment::help("flights", &[("--year N", "reads this year only")]);
    /// assert!(help.contains("--year N") && help.contains("--checkpoint-dir URI"));
    /// ```
    pub fn help(program: &str, own: &[(&str, &str)]) -> String {
        let own: Vec<Own<'_>> = own.iter().map(|(usage, meaning)| Own { usage, meaning }).collect();
        flags::help(program, &own)
    }

    fn from_reading(reading: Reading, folder: Option<String>) -> Result<Found> {
        let Reading { pairs, mut files, rest, mut mistakes, mode, .. } = reading;
        if files.is_empty() {
            files.extend(folder);
        }
        let file = match files.as_slice() {
            [_, _, ..] => {
                mistakes.push(format!("`--config` was given {} times: one file is read", files.len()));
                None
            }
            files => files.first(),
        };
        let config = Configuration::read(file.map(Path::new), pairs).unwrap_or_else(|errors| {
            mistakes.extend(errors.iter().map(ToString::to_string));
            Configuration::new()
        });
        match mistakes.as_slice() {
            [] => Ok(Found { env: Self { mode, ..Self::from_configuration(config) }, rest }),
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
    use stillstream_config::options as o;

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
            "--allow-dropped-fields",
            "--claim-mode",
            "claim",
            "--from-checkpoint=17",
            "--start-fresh",
            "--storage",
            "memory",
            "--backend=RocksDB",
            "-Dsink.committer.retries=1",
        ]);
        assert!(rest.is_empty());
        assert_eq!((config.get(o::PARALLELISM), config.get(o::PROCESSES)), (4, 2));
        assert_eq!(config.get(o::CHECKPOINTS_DIR).as_deref(), Some("/c"));
        assert_eq!(config.get(o::CHECKPOINTING_INTERVAL), Some(Duration::from_millis(200)));
        assert_eq!(config.get(o::RECOVERY_PATH).as_deref(), Some("/s"));
        assert!(config.get(o::RECOVERY_IGNORE_UNCLAIMED_STATE) && config.get(o::START_FRESH));
        assert!(config.get(o::ALLOW_DROPPED_FIELDS));
        assert_eq!(config.get(o::RECOVERY_CLAIM_MODE).as_str(), "CLAIM");
        assert_eq!(config.get(o::FALL_BACK_TO), 17);
        assert_eq!(config.get(o::CHECKPOINT_STORAGE).map(|s| s.as_str()), Some("jobmanager"));
        assert_eq!(config.get(o::STATE_BACKEND).as_str(), "rocksdb");
        assert_eq!(config.get(o::SINK_COMMITTER_RETRIES), 1);
        assert_eq!(read(&["--from-savepoint", "/t"]).0.get(o::RECOVERY_PATH).as_deref(), Some("/t"));
    }

    #[test]
    fn a_claim_mode_in_which_nobody_owns_the_snapshot_is_refused_with_the_others() {
        let text = error(&["--claim-mode", "LEGACY"]);
        for part in
            ["--claim-mode LEGACY", "nobody would own the snapshot", "NO_CLAIM", "CLAIM takes it over"]
        {
            assert!(text.contains(part), "`{part}` in: {text}");
        }
    }

    #[test]
    fn a_subcommand_is_taken_where_it_stands_first_and_left_to_the_program_elsewhere() {
        let mode = |arguments: &[&str]| {
            let (env, rest) = StreamExecutionEnvironment::from_arguments(arguments.iter().copied()).unwrap();
            (env.mode, rest)
        };
        assert_eq!(mode(&["run", "in.csv"]), (Mode::Run, vec!["in.csv".to_string()]));
        assert_eq!(mode(&["plan", "--parallelism", "2"]), (Mode::Plan { json: false }, Vec::new()));
        assert_eq!(
            mode(&["plan", "in.csv", "--json"]),
            (Mode::Plan { json: true }, vec!["in.csv".to_string()])
        );
        assert_eq!(mode(&["in.csv", "plan"]), (Mode::Run, ["in.csv", "plan"].map(String::from).to_vec()));
        assert_eq!(mode(&["--", "plan"]), (Mode::Run, vec!["plan".to_string()]));
        assert_eq!(mode(&["--json"]), (Mode::Run, vec!["--json".to_string()]), "it belongs to `plan` alone");
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
            error(&["--parallelism", "many", "--checkpoint-dir", "--backend", "disk", "-D", "nonsense"]);
        for part in [
            "4 errors",
            "`--parallelism many` is not valid",
            "`--checkpoint-dir` needs a value, as in",
            "`--backend disk` is not valid: one of heap, rocksdb is expected",
            "found `nonsense`",
        ] {
            assert!(text.contains(part), "{part} in: {text}");
        }
    }

    #[test]
    fn what_the_backend_was_once_called_is_an_error_that_names_the_storage() {
        for (written, storage) in
            [("memory", "memory"), ("filesystem", "filesystem"), ("jobmanager", "memory")]
        {
            let text = error(&["--backend", written]);
            assert!(text.contains(&format!("`--storage {storage}`")), "{text}");
            assert!(text.contains("heap or rocksdb"), "{text}");
        }
    }

    #[test]
    fn an_argument_with_a_letter_wrong_is_an_error_that_names_the_right_one() {
        for (written, meant) in [
            ("--paralelism", "--parallelism"),
            ("--Parallelism=3", "--parallelism"),
            ("--parallel", "--parallelism"),
            ("-parallelism", "--parallelism"),
            ("--checkpoint_dir", "--checkpoint-dir"),
            ("--checkpoint-dirs", "--checkpoint-dir"),
            ("--from_savepoint", "--from-savepoint"),
            ("--start_fresh", "--start-fresh"),
            ("--proceses=2", "--processes"),
            ("--hlep", "--help"),
        ] {
            let text = error(&[written, "3"]);
            let flag = written.split('=').next().unwrap();
            assert!(text.contains(&format!("unknown argument `{flag}`: did you mean `{meant}`?")), "{text}");
            assert!(text.contains("behind `--`"), "{text}");
            assert_eq!(read(&["--", written]).1, [written]);
        }
    }

    #[test]
    fn arguments_of_the_programs_own_are_no_mistakes() {
        let own =
            ["--year", "-v", "--frames", "-5", "-0.25", "--format=csv", "--dir", "--confirm", "in-file"];
        assert_eq!(read(&own).1, own);
    }

    #[test]
    fn a_program_that_names_its_arguments_has_no_others() {
        let own =
            [Own { usage: "--year N", meaning: "the year" }, Own { usage: "--form", meaning: "the form" }];
        let read = |arguments: &[&str]| Reading::read(arguments.iter().map(|a| a.to_string()), &own, true);
        let right = read(&["--year=3", "--form", "x", "--parallelism", "2", "--", "--any"]);
        assert_eq!(right.mistakes, [""; 0]);
        assert_eq!(right.rest, ["--year=3", "--form", "x", "--any"]);
        let wrong = read(&["--yaer", "3", "--color", "red"]).mistakes;
        assert!(wrong[0].contains("did you mean `--year`?"), "{wrong:?}");
        assert!(wrong[1].contains("unknown argument `--color`: `--help` lists"), "{wrong:?}");
    }

    #[test]
    fn help_is_asked_for_by_two_names_and_shows_every_argument() {
        for flag in ["--help", "-h"] {
            assert!(Reading::read(["x".to_string(), flag.to_string()].into_iter(), &[], true).help);
        }
        assert!(!Reading::read(["--".to_string(), "--help".to_string()].into_iter(), &[], true).help);
        let help = StreamExecutionEnvironment::help("words", &[("--year N", "the year")]);
        for part in [
            "words [run | plan] [ARGUMENTS]",
            "--year N",
            "the year",
            "-D KEY=VALUE",
            "--start-fresh",
            "STILLSTREAM_LOG",
        ] {
            assert!(help.contains(part), "{part} in: {help}");
        }
        for flag in flags::ALL {
            assert!(help.contains(flag.name) && !flag.meaning.is_empty(), "{}", flag.name);
        }
        assert!(help.lines().all(|line| line.len() <= 110), "{help}");
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
