//! COPY: a job copies a topic into another one and is killed again and again, also exactly between pre-commit
//! and commit; it goes on with other numbers of subtasks, its broker is killed, and its topic gets a
//! partition while it runs. A reader of committed records sees each record once.
//!
//! `cargo test -p stillstream --features kafka --test kafka` runs the short form; with `-- long` behind it
//! the long one: 2 million records and 20 deaths. `-- seed=7` chooses other moments; `-- throughput` measures
//! the sink beside the client alone instead.

mod job;
mod throughput;
mod world;

use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use stillstream_services::Kafka;
use stillstream_testing::CrashPoints;

use job::Copy;
use world::{Feed, Ledger, Random};

/// How large a run is.
struct Size {
    records: u64,
    deaths: u32,
}

const SHORT: Size = Size { records: 100_000, deaths: 4 };
const LONG: Size = Size { records: 2_000_000, deaths: 20 };

/// Where the process dies by itself, if it is not killed from outside. Most of these lie between pre-commit
/// and commit.
const POINTS: [&str; 5] =
    ["before-commit", "after-register", "before-notification", "during-snapshot", "after-metadata"];

const PARALLELISM: [u32; 3] = [3, 2, 4];

/// The process of the job, which does not outlive the test.
struct Process(Child);

impl Process {
    fn start(copy: &Copy, crash: Option<&str>) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command.arg("program").args(copy.arguments()).stdout(Stdio::null());
        if let Some(crash) = crash {
            command.env(CrashPoints::VARIABLE, crash);
        }
        Self(command.spawn().expect("this program starts again"))
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child can be waited for").is_some()
    }

    /// Waits until the process has ended by itself, which is returned, or so much time has passed; then it is
    /// killed.
    fn let_run(&mut self, time: Duration) -> bool {
        let begun = world::now();
        while begun.elapsed() < time && !self.has_ended() {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let by_itself = self.has_ended();
        self.end();
        by_itself
    }

    fn end(&mut self) {
        // one that has ended is as good as one that was killed
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(size: &Size, seed: u64) {
    println!("COPY of {} records with {} deaths, seed {seed}", size.records, size.deaths);
    let kafka = Kafka::start().unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().expect("a folder");
    kafka.create_topic("in", 3).expect("the topic `in`");
    kafka.create_topic("out", 3).expect("the topic `out`");
    let mut random = Random(seed);
    let mut feed = Feed::new(&kafka, "in", size.records);
    let mut ledger = Ledger::new("out", size.records);
    let mut copy = Copy::new(&kafka, folder.path());
    let share = size.records / u64::from(size.deaths + 1);
    let mut partitions = 3;
    for death in 0..size.deaths {
        copy.parallelism = PARALLELISM[death as usize % PARALLELISM.len()];
        let point = POINTS[random.below(POINTS.len() as u64) as usize];
        // every second time it dies where it hurts most, else anywhere
        // the other points are passed at each checkpoint, a commit happens where records are
        let times = 1 + random.below(if point == "before-commit" { 2 } else { 6 });
        let crash = (death % 2 == 1).then(|| format!("{point}:{times}:abort"));
        let time = Duration::from_millis(if crash.is_some() { 30_000 } else { 1_500 + random.below(3_000) });
        let mut process = Process::start(&copy, crash.as_deref());
        feed.write(share, partitions);
        if death == size.deaths / 3 {
            println!("  the broker is killed and started again");
            kafka.restart().expect("the broker starts again");
        }
        if death == size.deaths / 2 {
            partitions = 4;
            kafka.add_partitions("in", partitions).expect("a fourth partition");
        }
        let by_itself = process.let_run(time);
        let seen = ledger.read(&kafka);
        let how = match crash {
            Some(point) => {
                assert!(by_itself, "the job does not come to its crash point {point}");
                point
            }
            None => {
                assert!(!by_itself, "the job ended by itself");
                format!("killed after {} ms", time.as_millis())
            }
        };
        println!("  death {} with {} subtasks, {how}: {seen} records are seen", death + 1, copy.parallelism);
    }
    copy.parallelism = 2;
    let mut last = Process::start(&copy, None);
    feed.write(size.records, partitions);
    let begun = world::now();
    while ledger.read(&kafka) < size.records {
        assert!(!last.has_ended(), "the job ended by itself");
        assert!(begun.elapsed() < Duration::from_secs(300), "the job does not come to the end of its input");
        std::thread::park_timeout(Duration::from_millis(100));
    }
    // another checkpoint's time, for what should not come
    last.let_run(Duration::from_secs(2));
    ledger.read(&kafka);
    ledger.check();
    println!("  each of {} records is there once", size.records);
}

#[expect(clippy::disallowed_methods, reason = "a test program learns from its arguments what to do")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "program") {
        let _armed = CrashPoints::from_env().expect("crash points");
        let ended = Copy::parse(&arguments[1..]).run();
        eprintln!("the job ended by itself: {ended:?}");
        return ExitCode::FAILURE;
    }
    // filters for the names of other tests are not meant for this program
    if arguments.iter().any(|argument| argument == "throughput") {
        throughput::run();
        return ExitCode::SUCCESS;
    }
    let long = arguments.iter().any(|argument| argument == "long");
    let seed = arguments.iter().find_map(|argument| argument.strip_prefix("seed=")?.parse().ok());
    run(if long { &LONG } else { &SHORT }, seed.unwrap_or(1));
    ExitCode::SUCCESS
}
