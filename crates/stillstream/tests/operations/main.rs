//! What a person who runs a job sees: its help, its log, its exit code.
//!
//! The tests start this program again as a job, with arguments of its own; so it cannot be one of the usual
//! test programs, whose arguments are the test runner's.

macro_rules! tests {
    ($($(#[$doc:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$doc])* fn $name() $body)*

        /// All tests of this file.
        pub const ALL: &[(&str, fn())] = &[$((stringify!($name), $name)),*];
    };
}

mod checks;
mod job;
#[path = "../paced/mod.rs"]
mod paced;
#[cfg(unix)]
mod signals;

use std::process::ExitCode;

/// Says that this process is to be the job.
const JOB: &str = "STILLSTREAM_OPERATIONS_TEST_JOB";

#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn main() -> ExitCode {
    if std::env::var(JOB).is_ok() {
        return job::job();
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut failed = 0;
    #[cfg(unix)]
    let signals = signals::ALL;
    #[cfg(not(unix))]
    let signals: &[(&str, fn())] = &[];
    for (name, check) in checks::ALL.iter().chain(signals) {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let passed = std::panic::catch_unwind(check).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += u32::from(!passed);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
