//! The program's own options on the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stillstream::prelude::*;

use crate::job::Settings;

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

/// Reads them; what is not the program's own is passed over.
pub fn parse(arguments: &[String]) -> Result<Options> {
    let value_of = |name: &str| -> Result<Option<String>> {
        match arguments.iter().position(|argument| argument == name) {
            None => Ok(None),
            Some(at) => match arguments.get(at + 1) {
                Some(value) => Ok(Some(value.clone())),
                None => Err(Error::msg(format!("{name} needs a value; see --help"))),
            },
        }
    };
    let duration = |name: &str, default: Duration| -> Result<Duration> {
        match value_of(name)? {
            Some(text) => stillstream::config::parse_duration(&text)
                .map_err(|error| Error::msg(format!("{name}: {error}"))),
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
