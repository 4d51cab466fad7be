//! The job that the tests start as a program of its own: it reads its arguments, fails where it is told to,
//! and ends as `#[stillstream::main]` says.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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
    ("--records N", "how many numbers there are, at --rate"),
    ("--rate N", "so many numbers a second"),
    ("--restart-delay SECONDS", "the pause before a restart"),
    ("--touch FILE", "makes this file at the first record"),
    ("--twice", "executes another job behind the first"),
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
    let touch = own(&env, "--touch").map(PathBuf::from);
    let (records, rate) = (number("--records")?, number("--rate")?);
    let delay = number("--restart-delay")?.map_or(Duration::ZERO, Duration::from_secs);
    let twice = env.arguments().iter().any(|argument| argument == "--twice");
    let swallow = env.arguments().iter().any(|argument| argument == "--swallow");
    env.set_restart_strategy(match restarts {
        Some(restarts) => RestartStrategy::fixed_delay(restarts as u32, delay),
        None => RestartStrategy::none(),
    });
    let numbers = match text {
        None if records.is_some() => {
            let numbers = Generator::new(records.unwrap_or(0), |n| n);
            let numbers = match rate {
                Some(rate) => numbers.records_per_second(rate as f64),
                None => numbers,
            };
            env.from_source("numbers", numbers).uid("numbers")
        }
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
    let touched = AtomicBool::new(touch.is_none());
    let checked = numbers.try_map(move |n| {
        if let (false, Some(file)) = (touched.load(Relaxed), &touch) {
            std::fs::write(file, "")?;
            touched.store(true, Relaxed);
        }
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
        Ok(_) if twice => {
            env.from_source("more", Generator::new(100, |n| n)).uid("more").discard();
            env.execute("second").map(drop)
        }
        result => result.map(drop),
    }
}
