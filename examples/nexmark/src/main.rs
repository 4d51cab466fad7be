//! `cargo run --release -p nexmark -- q5 --events 10000000` runs a query and compares its result with the
//! known one.
//!
//! All arguments of a job may be given, as `--parallelism 2`, and `--profile slow`, `--disordered`, and
//! `--out FOLDER`, where what is committed is kept.

use std::time::Instant;

use nexmark::results::golden;
use nexmark::{Events, Profile, Tally, run};
use stillstream::prelude::*;

const USAGE: &str = "usage: nexmark qN [--events N] [--profile fast|slow] [--disordered] [--out FOLDER], and the arguments of a job";

const OWN: &[(&str, &str)] = &[
    ("--events N", "so many events (default: 1000000)"),
    ("--profile P", "fast (1000 events a millisecond, the default) or slow (one)"),
    ("--disordered", "events come up to a second out of order"),
    ("--out DIR", "where what is committed is kept (default: in memory)"),
];

fn wrong(text: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Configuration, format!("{text}\n{USAGE}"))
}

#[expect(clippy::disallowed_methods, reason = "it shows how long the query took")]
#[stillstream::main]
fn main() -> Result<()> {
    let mut env = StreamExecutionEnvironment::from_args_with(OWN)?;
    let arguments = env.arguments().to_vec();
    let [query, options @ ..] = arguments.as_slice() else { return Err(wrong("which query?")) };
    let number: u64 =
        query.trim_start_matches('q').parse().map_err(|_| wrong(format!("no query: `{query}`")))?;
    let (mut count, mut profile, mut folder) = (1_000_000, Profile::FAST, None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().ok_or_else(|| wrong(format!("`{option}` needs a value")));
        match option.as_str() {
            "--events" => count = value()?.parse().map_err(wrong)?,
            "--out" => folder = Some(value()?.clone()),
            "--disordered" => profile.disordered = true,
            "--profile" => {
                profile.per_ms = match value()?.as_str() {
                    "fast" => 1000,
                    "slow" => 1,
                    other => return Err(wrong(format!("no profile: `{other}`"))),
                }
            }
            other => return Err(wrong(format!("not understood: `{other}`"))),
        }
    }
    if !env.configuration().is_set(stillstream::config::options::PARALLELISM) {
        env.set_parallelism(2);
    }
    let tally = folder.map_or_else(|| Tally::new(number), |folder| Tally::in_folder(number, folder));
    run(&env, number, Events { profile, count, splits: 2 }, &tally)?;
    let started = Instant::now();
    env.execute(format!("nexmark {query}"))?;
    let (took, total) = (started.elapsed().as_secs_f64(), tally.total()?);
    let rate = count as f64 / took / 1e6;
    println!("{query}: {} rows, {:016x}, {took:.2} s, {rate:.2} million events/s", total.rows, total.sum);
    match golden(number, profile.per_ms, count) {
        Some(known) if known == total => Ok(()),
        Some(known) => Err(Error::msg(format!("wrong: {} rows, {:016x} are right", known.rows, known.sum))),
        None => Ok(()),
    }
}
