//! Arguments of the command line: short forms of settings, and what is left for the program.

use stillstream_types::config::Configuration;
use stillstream_types::{Error, ErrorKind, Result};

/// Short forms that take a value, and the keys that they set.
const WITH_VALUE: &[(&str, &str)] = &[
    ("--parallelism", "parallelism.default"),
    ("--processes", "stillstream.job.processes"),
    ("--checkpoint-dir", "execution.checkpointing.dir"),
    ("--checkpoint-interval", "execution.checkpointing.interval"),
    ("--from", "execution.state-recovery.path"),
    ("--from-savepoint", "execution.state-recovery.path"),
];

/// Short forms without a value.
const FLAGS: &[(&str, &str)] = &[
    ("--allow-non-restored-state", "execution.state-recovery.ignore-unclaimed-state"),
    ("--start-fresh", "stillstream.checkpoint.start-fresh"),
];

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Configuration, message)
}

/// What the arguments say.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// `-D` and the short forms.
    pub settings: Configuration,
    /// `--config`.
    pub file: Option<String>,
    /// What is neither: for the program.
    pub rest: Vec<String>,
}

/// Reads the arguments, the program's name aside.
///
/// # Errors
/// A short form without its value, a value of the wrong type, an unknown key after `-D`.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Arguments> {
    let mut pairs: Vec<String> = Vec::new();
    let mut file = None;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            pairs.push(argument);
            pairs.extend(arguments.by_ref());
            break;
        }
        let (name, inline) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_string(), Some(value.to_string())),
            _ => (argument.clone(), None),
        };
        let mut value = |what: &str| {
            let next = inline.clone().or_else(|| arguments.next());
            next.ok_or_else(|| wrong(format!("{what} needs a value, as in `{what} VALUE`")))
        };
        if let Some((_, key)) = WITH_VALUE.iter().find(|(short, _)| *short == name) {
            pairs.push(format!("-D{key}={}", value(&name)?));
        } else if let Some((_, key)) = FLAGS.iter().find(|(short, _)| *short == name) {
            pairs.push(format!("-D{key}=true"));
        } else if name == "--backend" {
            let storage = match value(&name)?.as_str() {
                "memory" => "jobmanager",
                "filesystem" | "fs" => "filesystem",
                other => {
                    return Err(wrong(format!("--backend takes `memory` or `filesystem`, not `{other}`")));
                }
            };
            pairs.push(format!("-Dexecution.checkpointing.storage={storage}"));
        } else if name == "--config" {
            file = Some(value(&name)?);
        } else {
            pairs.push(argument);
        }
    }
    let (settings, rest) = Configuration::from_args(pairs).map_err(|errors| errors.into_error())?;
    Ok(Arguments { settings, file, rest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillstream_types::config::options;

    fn arguments(words: &[&str]) -> Result<Arguments> {
        parse(words.iter().map(|word| word.to_string()))
    }

    #[test]
    fn short_forms_set_their_keys_and_the_rest_is_left_to_the_program() {
        let parsed = arguments(&[
            "--parallelism",
            "3",
            "input.csv",
            "--start-fresh",
            "--checkpoint-interval=200ms",
            "-D",
            "stillstream.job.processes=2",
        ]);
        let parsed = parsed.unwrap();
        assert_eq!(parsed.settings.get(options::PARALLELISM), 3);
        assert_eq!(parsed.settings.get(options::PROCESSES), 2);
        assert!(parsed.settings.get(options::START_FRESH));
        assert_eq!(
            parsed.settings.get(options::CHECKPOINTING_INTERVAL),
            Some(std::time::Duration::from_millis(200))
        );
        assert_eq!(parsed.rest, ["input.csv"]);
    }

    #[test]
    fn a_wrong_argument_is_one_clear_sentence() {
        let error = |words: &[&str]| arguments(words).unwrap_err().to_string();
        assert!(error(&["--parallelism"]).contains("--parallelism needs a value"));
        assert!(error(&["--parallelism", "many"]).contains("many"));
        assert!(error(&["--backend", "cloud"]).contains("`memory` or `filesystem`, not `cloud`"));
        assert!(
            error(&["-D", "paralelism.default=3"]).contains("parallelism.default"),
            "names the nearest key"
        );
    }
}
