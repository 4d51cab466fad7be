//! The job that the tests start as a program of its own: it reads its arguments, fails where it is told to,
//! and ends as `#[stillstream::main]` says.

use std::path::PathBuf;

use stillstream::prelude::*;

use crate::paced::Paced;

const OWN: &[(&str, &str)] = &[
    ("--name NAME", "the job's name"),
    ("--fail-at N", "fails at this record"),
    ("--panic-at N", "panics at this record"),
    ("--restarts N", "so many restarts, without a pause"),
    ("--text FILE", "reads numbers from a file, one a line"),
    ("--out FOLDER", "writes into this folder"),
    ("--hold FILE", "stands still at record 30 until there is this file"),
    ("--swallow", "does not pass the job's error on"),
];

fn own<'a>(env: &'a StreamExecutionEnvironment, name: &str) -> Option<&'a str> {
    let mut arguments = env.arguments().iter();
    arguments.find(|argument| *argument == name)?;
    arguments.next().map(String::as_str)
}

/// Waits for a file; a minute at most.
fn wait_for(file: &std::path::Path) {
    for _ in 0..30_000 {
        if file.exists() {
            return;
        }
        std::thread::sleep(millis(2));
    }
}

#[stillstream::main]
pub fn job() -> Result<()> {
    let mut env = StreamExecutionEnvironment::from_args_with(OWN)?;
    let number = |name: &str| own(&env, name).map(str::parse::<u64>).transpose();
    let (fail_at, panic_at, restarts) = (number("--fail-at")?, number("--panic-at")?, number("--restarts")?);
    let name = own(&env, "--name").unwrap_or("word count").to_string();
    let out = own(&env, "--out").map(PathBuf::from);
    let text = own(&env, "--text").map(str::to_string);
    let hold = own(&env, "--hold").map(PathBuf::from);
    let swallow = env.arguments().iter().any(|argument| argument == "--swallow");
    env.set_restart_strategy(match restarts {
        Some(restarts) => RestartStrategy::fixed_delay(restarts as u32, Duration::ZERO),
        None => RestartStrategy::none(),
    });
    let numbers = match text {
        Some(file) => {
            let lines = env.from_source("lines", TextSource::new(file)).uid("lines");
            lines.try_map(|line| Ok(line.parse::<u64>()?)).name("parse")
        }
        // without checkpoints nothing opens the gate
        None if env.configuration().get(stillstream::config::options::CHECKPOINTING_INTERVAL).is_none() => {
            env.from_source("numbers", Generator::new(100, |n| n)).uid("numbers")
        }
        None => env.from_source("numbers", Paced::new(Generator::new(100, |n| n), 20, 20)).uid("numbers"),
    };
    let checked = numbers.try_map(move |n| {
        if let (30, Some(file)) = (n, &hold) {
            wait_for(file);
        }
        assert!(Some(n) != panic_at, "number {n} is a panic");
        if Some(n) == fail_at { Err(Error::msg(format!("number {n} is wrong"))) } else { Ok(n) }
    });
    let checked = checked.name("check");
    match out {
        Some(folder) => drop(checked.sink_to("out", FileSink::lines(folder)).uid("out")),
        None => drop(checked.discard()),
    }
    match env.execute(name) {
        Err(_) if swallow => Ok(()),
        result => result.map(drop),
    }
}
