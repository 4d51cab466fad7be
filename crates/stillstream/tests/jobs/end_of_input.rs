//! What the end of a bounded input causes belongs to the results: windows, timers, however long they emit.

use stillstream::prelude::*;

/// A hundred slices of an emission and more.
const KEYS: u64 = 110_000;

/// Emits when event time ends.
struct AtTheEnd;

impl KeyedProcess for AtTheEnd {
    type Key = u64;
    type In = u64;
    type Out = u64;
    fn open(_: &mut States<Self>) -> Result<Self> {
        Ok(Self)
    }
    fn process(&mut self, _: u64, ctx: &mut Context<Self>) -> Result<()> {
        ctx.timers().on_event_time(Timestamp::from_millis(i64::MAX / 2))
    }
    fn on_timer(&mut self, _: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        let key = *ctx.key();
        ctx.emit(key);
        Ok(())
    }
}

/// The operators that emit at the end of event time.
const KINDS: [&str; 4] = ["tumbling", "sliding", "session", "timers"];

fn emitting(numbers: &DataStream<u64>, kind: &str) -> DataStream<u64> {
    let time = WatermarkStrategy::none().timestamp(|n: &u64| Timestamp::from_millis(*n as i64));
    let keyed = numbers.watermarks(time).uid("time").key_by(|n| *n);
    let long = hours(10);
    match kind {
        "tumbling" => keyed.window(Tumbling::of(long)).reduce(|a, _| a).uid("windows"),
        "sliding" => keyed.window(Sliding::of(long, long)).reduce(|a, _| a).uid("windows"),
        "session" => keyed.window(Session::with_gap(long)).reduce(|a, _| a).uid("windows"),
        _ => keyed.process::<AtTheEnd>().uid("windows"),
    }
}

#[test]
fn all_that_windows_and_timers_emit_at_the_end_arrives_with_and_without_checkpoints() {
    for kind in KINDS {
        for checkpoints in [false, true] {
            for chained in [false, true] {
                let what = format!("{kind}, checkpoints {checkpoints}, sink in the same task {chained}");
                let mut env = StreamExecutionEnvironment::new();
                env.set_parallelism(2);
                if checkpoints {
                    env.enable_checkpointing(millis(10));
                }
                let numbers = env.from_source("numbers", Generator::new(KEYS, |n| n)).uid("numbers");
                let emitted = emitting(&numbers, kind);
                let results = if chained { emitted } else { emitted.map(|n| n).disable_chaining() }.collect();
                env.execute("end").unwrap_or_else(|error| panic!("{what}: {error}"));
                let mut found = results.items();
                found.sort_unstable();
                assert!(found.iter().copied().eq(0..KEYS), "{what}: {} of {KEYS} results", found.len());
            }
        }
    }
}

/// Emits after a second of processing time, and sets another timer each time while `again` is positive.
struct Later {
    again: ValueState<u64>,
}

const DELAY: Duration = Duration::from_millis(300);

impl KeyedProcess for Later {
    type Key = u64;
    type In = u64;
    type Out = u64;
    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { again: states.value("again")? })
    }
    fn process(&mut self, _: u64, ctx: &mut Context<Self>) -> Result<()> {
        self.again.set(ctx, 1)?;
        ctx.timers().on_processing_time(ctx.processing_time() + DELAY)
    }
    fn on_timer(&mut self, _: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        let key = *ctx.key();
        ctx.emit(key);
        let again = self.again.get(ctx)?.unwrap_or(0);
        if again > 0 {
            self.again.set(ctx, again - 1)?;
            ctx.timers().on_processing_time(ctx.processing_time() + DELAY)?;
        }
        Ok(())
    }
}

#[test]
fn pending_timers_of_processing_time_are_dropped_fired_or_awaited_and_no_record_of_theirs_is_lost() {
    const COUNT: u64 = 5_000;
    for (pending, times) in [(PendingTimers::Drop, 0), (PendingTimers::Fire, 1), (PendingTimers::Await, 2)] {
        for checkpoints in [true, false] {
            for chained in [true, false] {
                let what = format!("{pending:?}, checkpoints {checkpoints}, sink in the same task {chained}");
                let mut env = StreamExecutionEnvironment::new();
                env.set_parallelism(2).set_pending_timers(pending);
                if checkpoints {
                    env.enable_checkpointing(millis(20));
                }
                // the timers of all but the first records are set just before the end
                let numbers = env.from_source("numbers", Generator::new(COUNT, |n| n)).uid("numbers");
                let emitted = numbers.key_by(|n| *n).process::<Later>().uid("later");
                let results = if chained { emitted } else { emitted.map(|n| n).disable_chaining() }.collect();
                let result = env.execute("timers").unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = results.items();
                assert_eq!(result.records_out, found.len() as u64, "{what}: all that was emitted is there");
                match pending {
                    // on a slow machine some may have fired before the end
                    PendingTimers::Drop => {
                        // each key has one timer at a time, and two firings to come at most
                        let dropped = result.counters.get("process.timers_dropped").copied().unwrap_or(0);
                        assert!(dropped + found.len() as u64 >= COUNT, "{what}: {dropped} are counted");
                    }
                    PendingTimers::Fire => assert!(found.len() as u64 >= times * COUNT, "{what}"),
                    PendingTimers::Await => assert_eq!(found.len() as u64, times * COUNT, "{what}"),
                }
            }
        }
    }
}

const FOLDER: &str = "STILLSTREAM_END_TEST_FOLDER";

/// Not a test of its own: what the next one starts as a program of its own, in two processes and without
/// checkpoints.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn program() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (folder, kind) = folder.rsplit_once('/').unwrap();
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2);
    env.configuration_mut().set_text("stillstream.job.processes", "2").unwrap();
    let numbers = env.from_source("numbers", Generator::new(KEYS, |n| n)).uid("numbers");
    emitting(&numbers, kind).sink_to("out", FileSink::lines(format!("{folder}/out"))).uid("out");
    env.execute("end in two processes").unwrap();
}

#[test]
fn all_that_windows_and_timers_emit_at_the_end_arrives_in_two_processes_too() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["end_of_input::program", "--exact"]).env(FOLDER, folder.path().join(kind));
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        assert!(command.status().unwrap().success(), "{kind}");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder.path().join("out")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let text = std::fs::read_to_string(path).unwrap();
                found.extend(text.lines().map(|line| line.parse::<u64>().unwrap()));
            }
        }
        found.sort_unstable();
        assert!(found.iter().copied().eq(0..KEYS), "{kind}: {} of {KEYS} results", found.len());
    }
}
