//! What must hold before a change is merged.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cargo::{cargo, has, root, succeeds, target, watched};
use crate::failures::{self, Failure};
use crate::{instructions, rules, services};

enum Outcome {
    Passed,
    /// With what failed, as far as the output says so.
    Failed(Vec<Failure>),
    /// The toolchain lacks a component: the rest can still be checked.
    Skipped(&'static str),
}

/// Runs every check, goes on after a failed one, and ends with a table. Under it stands what failed and why,
/// so that the last lines of a log tell it. Writes nothing but build output.
pub(crate) fn verify() -> bool {
    let mut steps = Vec::new();
    let mut step = |name: &'static str, run: &dyn Fn() -> Outcome| {
        println!("==> {name}");
        let start = now();
        let outcome = run();
        steps.push((name, outcome, start.elapsed()));
    };
    step("libclang", &|| checked(crate::libclang::provide()));
    step("format", &|| match has("fmt") {
        true => passed(&["fmt", "--all", "--check"]),
        false => Outcome::Skipped("rustfmt is not installed: rustup component add rustfmt"),
    });
    for (name, rule) in rules::ALL {
        step(name, &|| checked(rule(&root())));
    }
    step("lints", &|| match has("clippy") {
        true => passed(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--locked",
            "--",
            "-D",
            "warnings",
        ]),
        false => Outcome::Skipped("clippy is not installed: rustup component add clippy"),
    });
    step("services", &|| checked(services::prepare().map(drop)));
    step("tests", &|| {
        passed(&["test", "--workspace", "--all-targets", "--all-features", "--locked", "--no-fail-fast"])
    });
    // with the programs that the tests were built with
    step("upgrade", &|| outcome(watched(upgrade())));
    step("from Kafka to Kafka", &|| outcome(watched(from_kafka_to_kafka())));
    // the main job needs neither RocksDB nor what that needs
    step("without RocksDB", &|| passed(&["check", "--package", "flights", "--locked"]));
    step("instructions", &|| checked(instructions::run(false)));
    step("doc tests", &|| {
        passed(&["test", "--workspace", "--doc", "--all-features", "--locked", "--no-fail-fast"])
    });
    step("documentation", &|| {
        let mut command = cargo(&["doc", "--workspace", "--no-deps", "--all-features", "--locked"]);
        command.env("RUSTDOCFLAGS", "-D warnings");
        outcome(watched(command))
    });
    print(&steps);
    let failed: Vec<(&str, Vec<Failure>)> = steps
        .into_iter()
        .filter_map(|(name, outcome, _)| match outcome {
            Outcome::Failed(failures) => Some((name, failures)),
            Outcome::Passed | Outcome::Skipped(_) => None,
        })
        .collect();
    failures::print(&failed);
    failed.is_empty()
}

/// Runs the rules of the house alone.
pub(crate) fn rules() -> bool {
    let mut hold = true;
    for (name, rule) in rules::ALL {
        match rule(&root()) {
            Ok(()) => println!("{name:<22} ok"),
            Err(error) => {
                println!("{name:<22} FAILED\nerror: {error}");
                hold = false;
            }
        }
    }
    hold
}

/// Makes the packages that crates.io would get, in the target folder. They are not built again from there. It
/// asks the registry's index, so it is no step of [`verify`].
pub(crate) fn package() -> bool {
    let names = match rules::published(&root()) {
        Ok(names) => names,
        Err(error) => {
            eprintln!("error: {error}");
            return false;
        }
    };
    let mut command = cargo(&["package", "--no-verify", "--allow-dirty", "--quiet"]);
    for name in &names {
        command.args(["--package", name]);
    }
    succeeds(command)
}

/// Formats, wraps comments, and applies what clippy can fix by itself.
pub(crate) fn fix() -> bool {
    if let Err(error) = rules::wrap_all(&root()) {
        eprintln!("error: {error}");
        return false;
    }
    let clippy =
        ["clippy", "--fix", "--workspace", "--all-targets", "--allow-dirty", "--allow-staged", "--locked"];
    succeeds(cargo(&clippy)) & succeeds(cargo(&["fmt", "--all"]))
}

/// The script of the README that upgrades a job while its input goes on.
fn upgrade() -> Command {
    let mut command = Command::new(root().join("examples/flights/upgrade.sh"));
    command.arg(target().join("upgrade")).env("BIN", target().join("debug")).stdin(Stdio::null());
    command
}

/// The example with Kafka: a job that is killed once, compared with the same job on files.
fn from_kafka_to_kafka() -> Command {
    let mut command = Command::new(target().join("debug/flights_kafka"));
    command.arg("--out").arg(target().join("flights-kafka")).current_dir(root()).stdin(Stdio::null());
    command
}

fn passed(args: &[&str]) -> Outcome {
    outcome(watched(cargo(args)))
}

/// The outcome of a check of our own, whose error is a sentence.
fn checked(result: Result<(), String>) -> Outcome {
    outcome(result.map_err(|error| {
        eprintln!("error: {error}");
        vec![Failure::plain(error)]
    }))
}

fn outcome(result: Result<(), Vec<Failure>>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed,
        Err(failures) => Outcome::Failed(failures),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the table shows how long each step took; nothing depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

fn print(steps: &[(&str, Outcome, Duration)]) {
    println!();
    for (name, outcome, took) in steps {
        let outcome = match outcome {
            Outcome::Passed => "ok".to_string(),
            Outcome::Failed(_) => "FAILED".to_string(),
            Outcome::Skipped(why) => format!("skipped: {why}"),
        };
        println!("{name:<22} {:>7.1} s  {outcome}", took.as_secs_f64());
    }
}
