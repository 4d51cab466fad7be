//! The program's own options on the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stillstream::prelude::*;

use crate::job::Settings;

/// The program's own options, for `--help`; the environment has the others.
pub const OWN: &[(&str, &str)] = &[
    ("--flights FILE", "departures (default: the file that comes with the project)"),
    ("--weather FILE", "hourly weather (default: the file that comes with the project)"),
    ("--out DIR", "where results go (default: out/flights)"),
    ("--out-of-orderness D", "how late a row may come (default: 22h, which no row exceeds)"),
    ("--pace D", "spread the departures over this time (default: 7s); 0s reads as fast as it can"),
    ("--job", "is the job, without the demonstration that kills it and starts it again"),
    ("--kill-after D", "when the demonstration kills the job (default: half the pace)"),
    ("--no-kill", "does not kill it"),
];

/// The program's own options; the environment takes the others.
pub struct Options {
    pub settings: Settings,
    /// When the demonstration kills the job.
    pub kill_after: Option<Duration>,
}

fn shipped(name: &str) -> PathBuf {
    let here = Path::new("examples/flights/data").join(name);
    if here.exists() { here } else { Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name) }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Configuration, message)
}

/// Reads them; what is not the program's own is passed over.
pub fn parse(arguments: &[String]) -> Result<Options> {
    let value_of = |name: &str| -> Result<Option<String>> {
        match arguments.iter().position(|argument| argument == name) {
            None => Ok(None),
            Some(at) => match arguments.get(at + 1) {
                Some(value) => Ok(Some(value.clone())),
                None => Err(wrong(format!("{name} needs a value; see --help"))),
            },
        }
    };
    let duration = |name: &str, default: Duration| -> Result<Duration> {
        match value_of(name)? {
            Some(text) => {
                stillstream::config::parse_duration(&text).map_err(|error| wrong(format!("{name}: {error}")))
            }
            None => Ok(default),
        }
    };
    let path = |name: &str, default: PathBuf| -> Result<PathBuf> {
        Ok(value_of(name)?.map_or(default, PathBuf::from))
    };
    let pace = duration("--pace", seconds(7))?;
    let settings = Settings {
        flights: path("--flights", shipped("flights.csv.gz"))?,
        weather: path("--weather", shipped("weather.csv.gz"))?,
        out: path("--out", PathBuf::from("out/flights"))?,
        out_of_orderness: duration("--out-of-orderness", hours(22))?,
        pace: (!pace.is_zero()).then_some(pace),
    };
    let kill_after = duration("--kill-after", pace / 2)?;
    let kill = !arguments.iter().any(|argument| argument == "--no-kill");
    Ok(Options { settings, kill_after: kill.then_some(kill_after) })
}
