//! SIGINT (Ctrl-C) and SIGTERM.

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::checks::command;

const LONG: Duration = Duration::from_secs(120);
const RECORDS: u64 = 100_000;

/// A job that runs, and its log.
struct Job {
    child: Child,
    lines: mpsc::Receiver<String>,
    log: Vec<String>,
}

impl Job {
    fn start(arguments: &[&str]) -> Self {
        let mut command = command(arguments, None);
        // a group of its own, as a shell gives it to each job
        command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let log = BufReader::new(child.stderr.take().unwrap());
        std::thread::Builder::new()
            .spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)))
            .unwrap();
        Self { child, lines, log: Vec::new() }
    }

    /// Waits for a line of the log that has all these parts.
    #[track_caller]
    fn line(&mut self, parts: &[&str]) -> String {
        loop {
            match self.lines.recv_timeout(LONG) {
                Ok(line) => {
                    self.log.push(line.clone());
                    if parts.iter().all(|part| line.contains(part)) {
                        return line;
                    }
                }
                Err(error) => panic!("no line has {parts:?}: {error}:\n{}", self.log.join("\n")),
            }
        }
    }

    /// Sends a signal to the program alone, or to all its processes, as a terminal does.
    fn signal(&self, signal: &str, all: bool) {
        let target = format!("{}{}", if all { "-" } else { "" }, self.child.id());
        let sent = Command::new("kill").args(["-s", signal, "--", &target]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end, and for that of all its processes: each has the other end of the log.
    fn end(&mut self) -> ExitStatus {
        while let Ok(line) = self.lines.recv_timeout(LONG) {
            self.log.push(line);
        }
        self.child.wait().unwrap()
    }

    #[track_caller]
    fn has(&self, parts: &[&str]) {
        let found = self.log.iter().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "no line has {parts:?}:\n{}", self.log.join("\n"));
    }
}

/// Waits until the job has a record, or committed output in this folder.
fn until(mut there: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("nothing has come within two minutes");
}

/// How many files of committed output there are.
fn files(out: &Path) -> usize {
    let names = std::fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("part-")).count()
}

/// Waits for the first committed output.
fn output(out: &Path) {
    until(|| files(out) > 0);
}

fn numbers(out: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.is_file()).map(|path| std::fs::read_to_string(path).unwrap());
    let mut numbers: Vec<u64> =
        texts.flat_map(|text| text.lines().map(|line| line.parse().unwrap()).collect::<Vec<_>>()).collect();
    numbers.sort_unstable();
    numbers
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Arguments of a job that writes many numbers, with checkpoints in files.
    fn job(&self, more: &[&str]) -> Vec<String> {
        let (checkpoints, out) = (self.path("checkpoints"), self.path("out"));
        let own = ["--checkpoint-dir", &checkpoints, "--checkpoint-interval", "20ms", "--out", &out];
        own.iter().chain(more).map(ToString::to_string).collect()
    }

    fn start(&self, more: &[&str]) -> Job {
        let arguments = self.job(more);
        Job::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

const SLOW: [&str; 6] = ["--records", "100000", "--rate", "20000", "--parallelism", "2"];

/// A signal, the end in order, another start, and all output once.
fn stops_and_goes_on(signal: &str, all: bool, more: &[&str]) {
    let folder = Folder::new();
    let out = folder.path("out");
    for _ in 1..=2 {
        let before = files(Path::new(&out));
        let mut job = folder.start(&[&SLOW[..], more].concat());
        // it has completed a checkpoint: before that a signal ends it with nothing
        until(|| files(Path::new(&out)) > before);
        job.signal(signal, all);
        job.line(&[signal, "stops with a last checkpoint", "a second signal ends the process at once"]);
        let status = job.end();
        assert_eq!(status.code(), Some(0), "{status:?}\n{}", job.log.join("\n"));
        job.has(&[
            "was stopped at checkpoint",
            "output is committed up to checkpoint",
            "start it again to go on from checkpoint",
        ]);
        let found = numbers(Path::new(&out));
        assert!(!found.is_empty() && found.windows(2).all(|pair| pair[0] < pair[1]), "each once");
    }
    let mut job = folder.start(&[&["--records", "100000", "--parallelism", "2"][..], more].concat());
    assert_eq!(job.end().code(), Some(0), "{}", job.log.join("\n"));
    job.has(&["resumes from checkpoint"]);
    assert!(numbers(Path::new(&out)) == (0..RECORDS).collect::<Vec<_>>(), "{}", job.log.join("\n"));
}

tests! {
fn ctrl_c_stops_a_job_in_order_and_the_next_start_goes_on_without_loss_or_repetition() {
    stops_and_goes_on("INT", false, &[]);
}

fn sigterm_does_the_same() {
    stops_and_goes_on("TERM", false, &[]);
}

fn ctrl_c_on_the_terminal_of_a_job_in_two_processes_stops_it_in_order() {
    stops_and_goes_on("INT", true, &["--processes", "2"]);
    stops_and_goes_on("TERM", true, &["--processes", "2"]);
}

fn a_second_signal_ends_the_process_at_once_although_the_job_cannot_stop() {
    for processes in ["1", "2"] {
        let folder = Folder::new();
        let never = folder.path("never");
        // its code does not return, so that no checkpoint can be taken
        let mut job = folder.start(&["--hold", &never, "--processes", processes]);
        output(Path::new(&folder.path("out")));
        job.signal("INT", false);
        job.line(&["INT", "stops with a last checkpoint"]);
        // within half a second it counts as the first one, delivered twice
        until(|| {
            let ended = job.child.try_wait().unwrap().is_some();
            if !ended {
                job.signal("TERM", false);
            }
            ended
        });
        let status = job.end();
        assert_eq!(status.signal(), Some(15), "{status:?}\n{}", job.log.join("\n"));
    }
}

fn a_signal_that_is_delivered_twice_counts_once() {
    let folder = Folder::new();
    let out = folder.path("out");
    let mut job = folder.start(&SLOW);
    output(Path::new(&out));
    // as by a program that starts another one, and passes on what its group has got already
    job.signal("INT", false);
    job.signal("INT", true);
    let status = job.end();
    assert_eq!(status.code(), Some(0), "{status:?}\n{}", job.log.join("\n"));
    job.has(&["was stopped at checkpoint", "output is committed up to checkpoint"]);
    assert!(!numbers(Path::new(&out)).is_empty());
}

fn ctrl_c_while_a_job_waits_for_its_restart_ends_it_soon_at_its_newest_checkpoint() {
    let folder = Folder::new();
    let failing = ["--fail-at", "30", "--restarts", "3", "--restart-delay", "1000"];
    let mut job = folder.start(&failing);
    job.line(&["failed:", "number 30 is wrong", "restart 1"]);
    job.signal("INT", false);
    let status = job.end();
    assert_eq!(status.code(), Some(0), "{}", job.log.join("\n"));
    job.has(&["was stopped at checkpoint", "start it again to go on from checkpoint"]);
    let mut job = folder.start(&[]);
    assert_eq!(job.end().code(), Some(0), "{}", job.log.join("\n"));
    job.has(&["resumes from checkpoint"]);
    assert!(numbers(Path::new(&folder.path("out"))) == (0..100).collect::<Vec<_>>());
}

fn a_job_with_checkpoints_in_memory_says_that_nothing_is_kept() {
    let folder = Folder::new();
    let out = folder.path("out");
    let mut job = Job::start(&[&["--checkpoint-interval", "20ms", "--out", &out][..], &SLOW].concat());
    output(Path::new(&out));
    job.signal("INT", false);
    let status = job.end();
    assert_eq!(status.code(), Some(0), "{}", job.log.join("\n"));
    job.has(&["nothing is kept", "the next start begins anew"]);
    let found = numbers(Path::new(&out));
    assert!(!found.is_empty() && found.windows(2).all(|pair| pair[0] < pair[1]), "each once");
}

fn a_job_without_checkpoints_is_cancelled_by_ctrl_c_and_says_that_nothing_is_kept() {
    let folder = Folder::new();
    let file = folder.path("running");
    let mut job = Job::start(&["--records", "100000000", "--rate", "10000", "--touch", &file]);
    until(|| Path::new(&file).exists());
    job.signal("INT", false);
    let status = job.end();
    assert_eq!(status.code(), Some(8), "{status:?}\n{}", job.log.join("\n"));
    job.has(&["SIGINT", "is cancelled", "nothing of it is kept"]);
}

fn a_program_that_was_asked_to_end_begins_no_other_job() {
    let folder = Folder::new();
    let mut job = folder.start(&[&SLOW[..], &["--twice"]].concat());
    output(Path::new(&folder.path("out")));
    job.signal("TERM", false);
    let status = job.end();
    assert_eq!(status.code(), Some(8), "{}", job.log.join("\n"));
    job.has(&["job `second` is not begun", "SIGTERM"]);
}

fn a_job_that_leaves_signals_alone_ends_at_the_first() {
    let folder = Folder::new();
    let mut job = folder.start(&[&SLOW[..], &["-D", "stillstream.signals=false"]].concat());
    output(Path::new(&folder.path("out")));
    job.signal("TERM", false);
    let status = job.end();
    assert_eq!(status.signal(), Some(15), "{}", job.log.join("\n"));
}
}
