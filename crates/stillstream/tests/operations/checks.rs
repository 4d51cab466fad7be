//! The tests.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::JOB;

/// What a run of the job left.
struct Run {
    code: Option<i32>,
    out: String,
    log: String,
}

impl Run {
    fn count(&self, text: &str) -> usize {
        self.log.matches(text).count()
    }

    /// The one line that has all these parts.
    #[track_caller]
    fn line(&self, parts: &[&str]) -> &str {
        let lines: Vec<&str> =
            self.log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).collect();
        match lines[..] {
            [line] => line,
            _ => panic!("{} lines have {parts:?} in:\n{}", lines.len(), self.log),
        }
    }
}

pub fn command(arguments: &[&str], log: Option<&str>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).env(JOB, "1").env_remove("RUST_LOG").env_remove("STILLSTREAM_LOG");
    command.env_remove("STILLSTREAM_CONF_DIR").env_remove("RUST_BACKTRACE");
    if let Some(log) = log {
        command.env("STILLSTREAM_LOG", log);
    }
    command
}

fn start_with(arguments: &[&str], log: Option<&str>) -> Run {
    let output = command(arguments, log).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Run { code: output.status.code(), out: text(&output.stdout), log: text(&output.stderr) }
}

fn start(arguments: &[&str]) -> Run {
    start_with(arguments, None)
}

/// Arguments of a job with checkpoints in this folder.
fn with_checkpoints<'a>(folder: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let folder = folder.to_str().unwrap();
    [&["--checkpoint-dir", folder, "--checkpoint-interval", "10ms"][..], more].concat()
}

tests! {
    fn plan_prints_the_operators_with_their_states_and_runs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (checkpoints, out) = (folder.path().join("ck"), folder.path().join("out"));
        let arguments = with_checkpoints(&checkpoints, &["--out", out.to_str().unwrap(), "--parallelism", "3"]);
        let run = start(&[&["plan"][..], &arguments].concat());
        assert_eq!(run.code, Some(0), "{}", run.log);
        for part in [
            "job `word count`",
            "operator `numbers`, uid `numbers`, id ",
            "parallelism 3, max parallelism 128 (default)",
            "splits: union list state of `",
            "operator `check`, no uid",
            "no state",
            "operator `out`, uid `out`",
            "committables: operator list state of `",
        ] {
            assert!(run.out.contains(part), "`{part}` in: {}", run.out);
        }
        let run = start(&[&["plan", "--json"][..], &arguments].concat());
        assert_eq!(run.code, Some(0), "{}", run.log);
        assert!(run.out.starts_with("{\n  \"version\": 1,"), "{}", run.out);
        assert!(!checkpoints.exists() && !out.exists(), "a plan leaves nothing behind");
        // and `run` is what is done without a word
        let run = start(&["run"]);
        assert_eq!(run.code, Some(0), "{}", run.log);
    }

    fn help_prints_all_arguments_and_runs_nothing() {
        for flag in ["--help", "-h"] {
            let run = start(&["--fail-at", "1", flag, "--paralelism"]);
            assert_eq!((run.code, run.log.as_str()), (Some(0), ""));
            for part in ["--name NAME", "the job's name", "--checkpoint-dir URI", "-D KEY=VALUE"] {
                assert!(run.out.contains(part), "{}", run.out);
            }
        }
    }

    fn a_mistyped_argument_starts_nothing_and_names_the_right_one() {
        for (written, meant) in [
            ("--paralelism", "--parallelism"),
            ("--checkpoint_dir", "--checkpoint-dir"),
            ("--fial-at", "--fail-at"),
        ] {
            let run = start(&[written, "3"]);
            assert_eq!(run.code, Some(2));
            run.line(&["Error: ", written, &format!("did you mean `{meant}`?")]);
            assert_eq!(run.log.lines().count(), 1, "{}", run.log);
        }
        assert_eq!(start(&["--colour", "red"]).code, Some(2));
    }

    fn a_start_says_where_it_begins_and_an_end_what_it_did() {
        let folder = tempfile::tempdir().unwrap();
        let run = start(&with_checkpoints(folder.path(), &["--fail-at", "90"]));
        assert_eq!(run.code, Some(1));
        let place = folder.path().to_str().unwrap();
        let first = run.line(&["job `word count` starts empty: no checkpoint of `word count` in ", place]);
        assert!(first.contains(" INFO ") && first.contains("a checkpoint every 10 ms"), "{first}");
        assert!(!first.contains("other job"), "{first}");
        let end = run.line(&["ERROR", "job `word count` failed after", "0 restarts"]);
        assert!(end.contains("output is committed up to checkpoint"), "{end}");

        let again = start(&with_checkpoints(folder.path(), &[]));
        assert_eq!(again.code, Some(0), "{}", again.log);
        again.line(&["job `word count` resumes from checkpoint ", place]);
        let end = again.line(&[" INFO ", "job `word count` finished after", "0 restarts"]);
        assert!(end.contains("all output is committed"), "{end}");

        // what another job left is no checkpoint of this one, and the line says so
        let other = start(&with_checkpoints(folder.path(), &["--name", "bird count"]));
        other.line(&["starts empty: no checkpoint of `bird count` in ", "of 1 other job: `word count`"]);
        let fresh = start(&with_checkpoints(folder.path(), &["--start-fresh"]));
        fresh.line(&["job `word count` starts empty", "--start-fresh"]);
    }

    fn a_job_without_checkpoints_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let run = start(&["--checkpoint-dir", folder.path().to_str().unwrap()]);
        assert_eq!(run.code, Some(0), "{}", run.log);
        run.line(&["WARN", "no checkpoint will be taken", "--checkpoint-interval 10s"]);
        run.line(&["starts empty and takes no checkpoints"]);
        let run = start(&["--checkpoint-interval", "10ms"]);
        run.line(&["starts empty: checkpoints are kept in the JobManager's memory"]);
    }

    fn a_failure_is_printed_once_also_after_restarts() {
        let run = start(&["--fail-at", "7"]);
        assert_eq!((run.code, run.count("number 7 is wrong")), (Some(1), 1), "{}", run.log);
        run.line(&["Error: ", "number 7 is wrong"]);

        let run = start(&["--fail-at", "7", "--restarts", "2"]);
        assert_eq!((run.code, run.count("number 7 is wrong")), (Some(1), 3), "{}", run.log);
        run.line(&["WARN", "restart 1 in 0 ms from the beginning", "number 7 is wrong"]);
        run.line(&["WARN", "restart 2 in 0 ms", "number 7 is wrong"]);
        run.line(&["Error: ", "number 7 is wrong"]);
    }

    fn a_failure_that_a_job_resumes_from_names_the_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let run = start(&with_checkpoints(folder.path(), &["--fail-at", "90", "--restarts", "1"]));
        run.line(&["WARN", "number 90 is wrong; restart 1 in 0 ms from checkpoint "]);
    }

    fn a_job_that_fails_again_and_again_does_not_flood_the_log() {
        let run = start(&["--fail-at", "7", "--restarts", "500"]);
        assert_eq!(run.code, Some(1));
        let end = run.line(&["ERROR", "failed after", "500 restarts"]);
        // five in full, then one in ten seconds: on a slow machine there are some more
        let lines = run.log.lines().count();
        assert!(lines < 30, "{lines} lines, {end}");
        let run = start(&["--panic-at", "7", "--restarts", "500"]);
        assert!(run.log.lines().count() < 30, "{}", run.log);
    }

    fn a_program_that_keeps_the_error_to_itself_has_said_how_the_job_ended() {
        let run = start(&["--fail-at", "7", "--swallow"]);
        assert_eq!((run.code, run.count("number 7 is wrong")), (Some(0), 0));
        run.line(&["ERROR", "job `word count` failed after"]);
    }

    fn a_failing_function_names_operator_type_and_how_far_the_source_had_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("numbers.txt");
        std::fs::write(&file, "1\n2\nthree\n").unwrap();
        let run = start(&["--text", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(1));
        run.line(&[
            "Error: ",
            "subtask 0",
            "operator `parse`",
            "record of type `String`",
            &format!("the source had read up to line 3, byte 10 of `{}`", file.display()),
            "invalid digit",
        ]);
        let run = start(&["--panic-at", "9"]);
        assert_eq!(run.code, Some(1));
        // one line, with the place in the program: Rust's own lines about the panic would be the same again
        let line = run.line(&["number 9 is a panic"]);
        for part in ["Error: ", "operator `check`", "record of type `u64`", "job.rs:"] {
            assert!(line.contains(part), "{line}");
        }
        assert_eq!(run.count("panicked"), 1, "{}", run.log);
    }

    fn what_is_wrong_before_the_start_has_a_code_of_its_own() {
        for wrong in [
            &["--parallelism", "0"][..],
            &["--checkpoint-dir=~/ck", "--checkpoint-interval=1s"],
            &["--checkpoint-dir", "s3://bucket/x", "--checkpoint-interval", "1s"],
            &["--out", "~/out"],
            &["--text", "no/such/file"],
        ] {
            let run = start(wrong);
            assert_eq!(run.code, Some(2), "{}", run.log);
            assert!(run.log.starts_with("Error: "), "{}", run.log);
        }
        let run = start(&["--text", "no/such/file"]);
        let here = std::env::current_dir().unwrap().join("no/such/file");
        run.line(&[&format!("cannot read `{}`", here.display())]);
        assert!(!Path::new("~").exists(), "a folder was made that nobody meant");
    }

    fn a_checkpoint_that_is_late_names_who_holds_it_while_it_is_under_way() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("go on");
        let arguments =
            ["--hold", file.to_str().unwrap(), "-D", "execution.checkpointing.timeout=4s", "--checkpoint-interval", "10ms"];
        let mut job = command(&arguments, None).stderr(Stdio::piped()).spawn().unwrap();
        // the job goes on when the line is there, or after a minute
        let lines = BufReader::new(job.stderr.take().unwrap()).lines();
        let late: Vec<String> = lines
            .map_while(Result::ok)
            .filter(|line| line.contains(" is late, after "))
            .inspect(|_| std::fs::write(&file, "").unwrap())
            .collect();
        job.wait().unwrap();
        assert!(late[0].contains("it waits for 1 of 1 subtask: `numbers -> check -> discard` subtask 0"), "{late:?}");
    }

    fn the_log_can_be_chosen() {
        assert_eq!(start_with(&[], Some("error")).log, "");
        let debug = start_with(&["--checkpoint-interval", "10ms"], Some("debug"));
        assert!(debug.count("completed after") >= 1, "{}", debug.log);
        assert!(debug.count("CREATED -> RUNNING") == 1, "{}", debug.log);
    }
}
