//! What failed in a long output of cargo, so that it can be said again at the end of a log.
//!
//! A [`Collector`] reads the lines of `cargo test`, `clippy` or `doc` as they come. It keeps each failed test
//! with what that test printed, each test program that ended without saying which test failed, and the errors
//! of the compiler.

use std::collections::VecDeque;

/// At most this many lines are kept of what one failure printed: its last ones.
const LINES: usize = 60;
/// At most this many failures are shown with what they printed. Of the others only the name is shown.
const SHOWN: usize = 10;

/// One thing that failed, and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The test's name, or what else failed.
    pub(crate) name: String,
    /// What cargo says about running its program again, if it said so: `-p stillstream --test recovery`.
    pub(crate) program: Option<String>,
    /// The last lines that it printed.
    pub(crate) output: Vec<String>,
}

impl Failure {
    /// A failure of which only one sentence is known.
    pub(crate) fn plain(name: impl Into<String>) -> Failure {
        Failure { name: name.into(), program: None, output: Vec::new() }
    }
}

/// The last lines of something.
#[derive(Default)]
struct Tail(VecDeque<String>);

impl Tail {
    fn push(&mut self, line: &str) {
        // the frames of a stack would push out the message of the panic
        if is_frame(line) {
            return;
        }
        if self.0.len() == LINES {
            self.0.pop_front();
        }
        self.0.push_back(line.to_string());
    }

    /// Takes the lines, without empty ones at either end.
    fn take(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.0);
        while lines.front().is_some_and(|line| line.trim().is_empty()) {
            lines.pop_front();
        }
        while lines.back().is_some_and(|line| line.trim().is_empty()) {
            lines.pop_back();
        }
        lines.into()
    }
}

/// What the lines that come now belong to.
enum Place {
    /// Cargo or the compiler.
    Building,
    /// An error of the compiler, up to the next empty line.
    CompilerError(Failure),
    /// A test program that runs its tests.
    Program,
    /// What a failed test printed, which its program shows after the last test.
    TestOutput(String),
    /// A test program's list of failed tests.
    Names,
}

/// Reads the output of cargo line by line.
pub(crate) struct Collector {
    place: Place,
    /// The last lines at this place.
    tail: Tail,
    /// The last lines of all.
    all: Tail,
    done: Vec<Failure>,
    /// Failures of the program that runs: cargo says at its end how it is run again.
    current: Vec<Failure>,
}

impl Collector {
    pub(crate) fn new() -> Collector {
        let (tail, all) = (Tail::default(), Tail::default());
        Collector { place: Place::Building, tail, all, done: Vec::new(), current: Vec::new() }
    }

    /// Takes the next line, without its end.
    pub(crate) fn line(&mut self, line: &str) {
        self.all.push(line);
        let text = line.trim_start();
        if text.starts_with("Running ") && line.starts_with("     ") || line.starts_with("   Doc-tests ") {
            self.leave();
            self.done.append(&mut self.current);
            self.place = Place::Program;
            return;
        }
        if let Some(program) = rerun(line) {
            self.program_failed(program);
            return;
        }
        match &mut self.place {
            Place::Building if line.starts_with("error") => self.start_error(line),
            Place::Building => self.add_cause(text),
            Place::CompilerError(error) => match line.trim().is_empty() {
                true => self.leave(),
                false if error.output.len() < LINES => error.output.push(line.to_string()),
                false => {}
            },
            Place::Program => self.program_line(line),
            Place::TestOutput(_) | Place::Names if heading(line).is_some() => self.start_output(line),
            Place::TestOutput(_) if line == "failures:" || line.starts_with("test result: ") => {
                self.leave();
                self.place = Place::Names;
            }
            Place::TestOutput(_) => self.tail.push(line),
            Place::Names => {
                if line.starts_with("test result: ") {
                    self.place = Place::Program;
                } else if let Some(name) = line.strip_prefix("    ") {
                    let _known = self.failed_test(name);
                }
            }
        }
    }

    /// What failed, now that the output has ended. `failed` says whether cargo did: then there is at least
    /// one failure.
    pub(crate) fn finish(mut self, failed: bool) -> Vec<Failure> {
        self.leave();
        self.done.append(&mut self.current);
        if failed && self.done.is_empty() {
            let name = "for a reason that is not a failed test (these are the last lines)".to_string();
            self.done.push(Failure { name, program: None, output: self.all.take() });
        }
        self.done
    }

    fn program_line(&mut self, line: &str) {
        if line == "failures:" {
            self.place = Place::Names;
            return;
        }
        match line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
            Some((name, "FAILED")) => {
                let name = name.strip_suffix(" - should panic").unwrap_or(name);
                // a program of its own kind shows at once why; the usual one shows it after the last test
                let output = self.tail.take();
                self.failed_test(name).output = output;
            }
            Some((_, "ok")) => self.tail.0.clear(),
            _ => self.tail.push(line),
        }
    }

    fn start_error(&mut self, line: &str) {
        // cargo counts at the end what was said before
        if line.starts_with("error: could not compile") && !self.done.is_empty()
            || line.ends_with(" failed:") && line.contains(" target")
        {
            return;
        }
        let output = vec![line.to_string()];
        self.place =
            Place::CompilerError(Failure { name: "an error of the build".into(), program: None, output });
    }

    fn start_output(&mut self, line: &str) {
        self.leave();
        if let Some(name) = heading(line) {
            self.place = Place::TestOutput(name.to_string());
        }
    }

    /// A build script says after an empty line why it failed, and so does cargo of a program that was killed.
    fn add_cause(&mut self, text: &str) {
        let cause =
            text.starts_with("process didn't exit successfully") || text.starts_with("could not execute");
        if let Some(last) = self.done.last_mut().filter(|_| cause) {
            last.output.push(text.to_string());
        }
    }

    fn program_failed(&mut self, program: &str) {
        self.leave();
        if self.current.is_empty() {
            let name = "a test program that did not say which test failed".to_string();
            let output = self.tail.take();
            self.current.push(Failure { name, program: None, output });
        }
        for mut failure in self.current.drain(..) {
            failure.program = Some(program.to_string());
            self.done.push(failure);
        }
        self.place = Place::Building;
    }

    /// Ends the place where the lines belonged.
    fn leave(&mut self) {
        match std::mem::replace(&mut self.place, Place::Building) {
            Place::CompilerError(error) => self.done.push(error),
            Place::TestOutput(name) => {
                let output = self.tail.take();
                self.failed_test(&name).output = output;
            }
            Place::Building | Place::Program | Place::Names => {}
        }
    }

    /// The failure of a test of the program that runs.
    fn failed_test(&mut self, name: &str) -> &mut Failure {
        let at = self.current.iter().position(|failure| failure.name == name).unwrap_or_else(|| {
            self.current.push(Failure::plain(name));
            self.current.len() - 1
        });
        &mut self.current[at]
    }
}

/// Whether a line is of a stack of calls: `   4: p::t::bad`, or `             at ./src/lib.rs:5:79` below it.
fn is_frame(line: &str) -> bool {
    let Some(text) = line.strip_prefix("   ").map(str::trim_start) else { return false };
    let number = text.split_once(": ").map(|(number, _)| number);
    text.starts_with("at ") || number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The name in `---- name stdout ----`.
fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// What stands between the ticks of "error: test failed, to rerun pass `-p x --lib`".
fn rerun(line: &str) -> Option<&str> {
    let (what, rest) = line.strip_prefix("error: ")?.split_once(" failed, to rerun pass `")?;
    matches!(what, "test" | "doctest").then_some(rest.trim_end_matches('`'))
}

/// Prints what failed, with what it printed, and at the very end the names alone.
pub(crate) fn print(steps: &[(&str, Vec<Failure>)]) {
    print!("{}", text(steps));
}

fn text(steps: &[(&str, Vec<Failure>)]) -> String {
    let failures: Vec<(&str, &Failure)> = steps
        .iter()
        .flat_map(|(step, failures)| failures.iter().map(move |failure| (*step, failure)))
        .collect();
    let mut text = String::new();
    for (step, failure) in failures.iter().take(SHOWN) {
        text += &format!("\n==> failed: {}\n", title(step, failure));
        for line in &failure.output {
            text += &format!("    {line}\n");
        }
    }
    if !failures.is_empty() {
        text += "\nfailed:\n";
    }
    for (step, failure) in failures {
        text += &format!("  {}\n", title(step, failure));
    }
    text
}

fn title(step: &str, failure: &Failure) -> String {
    match &failure.program {
        Some(program) => format!("{step}: {} ({program})", failure.name),
        None => format!("{step}: {}", failure.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(log: &str) -> Vec<Failure> {
        let mut collector = Collector::new();
        log.lines().for_each(|line| collector.line(line));
        collector.finish(true)
    }

    fn failure(name: &str, program: Option<&str>, output: &[&str]) -> Failure {
        let output = output.iter().map(|line| line.to_string()).collect();
        Failure { name: name.into(), program: program.map(Into::into), output }
    }

    const TESTS: &str = "\
   Compiling stillstream v0.1.0
warning: unused variable
    Finished `test` profile [optimized + debuginfo] target(s) in 1.00s
     Running unittests src/lib.rs (target/debug/deps/stillstream-1)

running 2 tests
test a::passes ... ok
test b::passes ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/recovery.rs (target/debug/deps/recovery-1)

running 3 tests
error: what a program under test prints is no error of the build
test commits::once ... FAILED
test commits::late ... ok
test ends::finished - should panic ... FAILED

failures:

---- commits::once stdout ----

thread 'commits::once' panicked at tests/recovery.rs:7:5:
assertion `left == right` failed
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/1/library/std/src/panicking.rs:689:5

---- ends::finished stdout ----
note: test did not panic as expected at tests/recovery.rs:11:3


failures:
    commits::once
    ends::finished

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s

error: test failed, to rerun pass `-p stillstream --test recovery`
     Running tests/operations.rs (target/debug/deps/operations-1)
test help ... ok

thread 'main' panicked at tests/operations.rs:9:5:
no help
test arguments ... FAILED
test exit codes ... ok
error: test failed, to rerun pass `-p stillstream --test operations`
     Running tests/torture.rs (target/debug/deps/torture-1)
seed 7
error: test failed, to rerun pass `-p stillstream --test torture`

Caused by:
  process didn't exit successfully: `target/debug/deps/torture-1` (signal: 6, SIGABRT: process abort signal)
   Doc-tests stillstream

running 1 test
test crates/stillstream/src/lib.rs - (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: 3 targets failed:
    `-p stillstream --test recovery`
    `-p stillstream --test operations`
    `-p stillstream --test torture`
";

    #[test]
    fn each_failed_test_is_kept_with_what_it_printed_and_how_it_is_run_again() {
        let recovery = Some("-p stillstream --test recovery");
        let torture = "process didn't exit successfully: `target/debug/deps/torture-1` \
                       (signal: 6, SIGABRT: process abort signal)";
        let expected = [
            failure(
                "commits::once",
                recovery,
                &[
                    "thread 'commits::once' panicked at tests/recovery.rs:7:5:",
                    "assertion `left == right` failed",
                    "stack backtrace:",
                ],
            ),
            failure(
                "ends::finished",
                recovery,
                &["note: test did not panic as expected at tests/recovery.rs:11:3"],
            ),
            failure(
                "arguments",
                Some("-p stillstream --test operations"),
                &["thread 'main' panicked at tests/operations.rs:9:5:", "no help"],
            ),
            failure(
                "a test program that did not say which test failed",
                Some("-p stillstream --test torture"),
                &["seed 7", torture],
            ),
        ];
        assert_eq!(collected(TESTS), expected);
    }

    #[test]
    fn errors_of_the_compiler_are_kept_up_to_the_next_empty_line() {
        let log = "\
   Compiling stillstream v0.1.0
error[E0308]: mismatched types
 --> src/lib.rs:1:1
  |

warning: unused
error: could not compile `stillstream` (lib) due to 1 previous error; 1 warning emitted
";
        let expected = [failure(
            "an error of the build",
            None,
            &["error[E0308]: mismatched types", " --> src/lib.rs:1:1", "  |"],
        )];
        assert_eq!(collected(log), expected);
    }

    #[test]
    fn a_step_that_failed_without_a_test_shows_its_last_lines() {
        let log: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let failures = collected(&log);
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].output.first().map(String::as_str), Some("line 40"));
        assert_eq!(failures[0].output.last().map(String::as_str), Some("line 99"));
    }

    #[test]
    fn nothing_is_said_of_a_step_that_passed() {
        let mut collector = Collector::new();
        collector.line("     Running unittests src/lib.rs (target/debug/deps/x-1)");
        collector.line("error: what a program under test prints");
        assert_eq!(collector.finish(false), []);
        assert_eq!(text(&[("tests", Vec::new())]), "");
    }

    #[test]
    fn of_many_failures_some_are_shown_whole_and_all_are_named_at_the_end() {
        let many =
            (0..SHOWN + 2).map(|n| failure(&format!("test_{n}"), Some("-p x --lib"), &["why"])).collect();
        let text = text(&[("tests", many)]);
        assert_eq!(text.matches("    why\n").count(), SHOWN);
        assert!(text.ends_with("  tests: test_10 (-p x --lib)\n  tests: test_11 (-p x --lib)\n"), "{text}");
    }
}
