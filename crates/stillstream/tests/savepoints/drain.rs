//! A stop with a drain: event time ends, so that every window and timer fires; and the position is where it
//! was.

use std::path::Path;

use stillstream::connect::{SourceContext, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};

use crate::paced::Paced;
use crate::program::{FILES, LONG, RECORDS, Run, STEP, rows};

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

/// Each number comes out of the window or the timer that it is alone in, when event time has ended.
fn start(run: &Run, kind: &str) -> JobClient {
    let env = run.environment();
    let time = WatermarkStrategy::none().timestamp(|n: &u64| Timestamp::from_millis(*n as i64));
    let keyed = env
        .from_source("numbers", Paced::new(Generator::new(RECORDS, |n| n), STEP, STEP))
        .uid("numbers")
        .watermarks(time)
        .uid("time")
        .key_by(|n| *n);
    let long = hours(10);
    let emitted = match kind {
        "tumbling" => keyed.window(Tumbling::of(long)).reduce(|a, _| a).uid("windows"),
        "session" => keyed.window(Session::with_gap(long)).reduce(|a, _| a).uid("windows"),
        _ => keyed.process::<AtTheEnd>().uid("windows"),
    };
    emitted.map(|n| (n, n)).sink_to("out", FileSink::csv(run.folder.join("out"))).uid("out");
    env.execute_async("drained").unwrap()
}

fn numbers(out: &Path) -> Vec<u64> {
    let mut numbers: Vec<u64> = rows(out).into_iter().map(|(n, _)| n).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_drain_fires_every_window_and_timer_and_a_start_from_its_savepoint_reads_on_where_the_sources_stopped() {
    for backend in FILES {
        for kind in ["tumbling", "session", "timers"] {
            let what = format!("{backend:?} {kind}");
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("out");
            let run = Run::new(folder.path(), *backend);
            let job = start(&run, kind);
            assert!(job.wait_until(LONG, |job| job.metrics().records_in >= 2 * STEP), "{what}");
            let report = job.stop_with_savepoint(None, true, SavepointFormat::Canonical).unwrap();
            let result = job.wait().unwrap();
            assert_eq!(result.ending, JobEnding::Stopped(report.path.clone()), "{what}");
            let drained = numbers(&out);
            assert_eq!(drained.len() as u64, result.records_in, "{what}: all that was read has come out");
            assert!(result.records_in < RECORDS, "{what}: it was stopped before its end");
            // a reader takes away what is there, as it may
            let taken = folder.path().join("taken");
            std::fs::create_dir(&taken).unwrap();
            for entry in std::fs::read_dir(&out).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    std::fs::rename(&path, taken.join(path.file_name().unwrap())).unwrap();
                }
            }
            start(&run.from(&report.path), kind).wait().unwrap();
            let mut all = numbers(&out);
            all.extend(drained);
            all.sort_unstable();
            assert!(all == (0..RECORDS).collect::<Vec<_>>(), "{what}: {} of {RECORDS}", all.len());
        }
    }
}

/// A source that never has anything, and waits to be woken.
struct Silent;

impl SplitSource for Silent {
    type Item = u64;
    type Split = u64;
    fn splits(&self) -> Result<Vec<u64>> {
        Ok(vec![0, 1])
    }
    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<u64, u64>>> {
        Ok(Box::new(Self))
    }
}

impl SplitReader<u64, u64> for Silent {
    fn assign(&mut self, _: Vec<u64>) -> Result<()> {
        Ok(())
    }
    fn poll(&mut self, _: usize, _: &mut Batch<u64>) -> Result<SourceStatus> {
        Ok(SourceStatus::Idle { until_ms: None })
    }
    fn positions(&self) -> Vec<u64> {
        vec![0]
    }
}

#[test]
fn a_source_that_has_nothing_and_waits_hears_of_a_stop_and_of_a_drain_at_once() {
    for drain in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let run = Run { interval: Some(hours(24)), ..Run::new(folder.path(), FILES[0]) };
        let env = run.environment();
        env.from_source("silent", Silent).uid("silent").discard();
        let job = env.execute_async("silent").unwrap();
        assert!(job.wait_until(LONG, |job| job.status() == stillstream::JobStatus::Running));
        let report = job.stop_with_savepoint(None, drain, SavepointFormat::Canonical).unwrap();
        assert_eq!(job.wait().unwrap().ending, JobEnding::Stopped(report.path));
    }
}

#[test]
fn a_stop_without_a_drain_fires_no_window_and_a_start_from_its_savepoint_does() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = Run::new(folder.path(), FILES[0]);
    let job = start(&run, "tumbling");
    assert!(job.wait_until(LONG, |job| job.metrics().records_in >= 2 * STEP));
    let report = job.stop_with_savepoint(None, false, SavepointFormat::Canonical).unwrap();
    job.wait().unwrap();
    assert_eq!(numbers(&out), Vec::<u64>::new());
    start(&run.from(report.path), "tumbling").wait().unwrap();
    assert!(numbers(&out) == (0..RECORDS).collect::<Vec<_>>());
}

#[test]
fn incremental_checkpoints_are_switched_off_and_on_between_starts_and_windows_and_timers_come_out_once() {
    for backend in FILES {
        for kind in ["tumbling", "session", "timers"] {
            let what = format!("{backend:?} {kind}");
            let folder = tempfile::tempdir().unwrap();
            for (incremental, parallelism) in [(true, 3), (false, 2), (true, 2)] {
                let interval = Some(hours(24));
                let run = Run { incremental, parallelism, interval, ..Run::new(folder.path(), *backend) };
                let job = start(&run, kind);
                let runs = |job: &JobClient| {
                    job.status() == stillstream::JobStatus::Running && job.metrics().records_in > 0
                };
                assert!(job.wait_until(LONG, runs), "{what}");
                // the second one may build on the first
                job.trigger_checkpoint().unwrap();
                job.trigger_checkpoint().unwrap();
                job.stop().unwrap();
                job.wait().unwrap();
            }
            let run = Run { incremental: false, parallelism: 3, ..Run::new(folder.path(), *backend) };
            let result = start(&run, kind).wait().unwrap();
            assert!(result.resumed_from.is_some() && result.records_in < RECORDS, "{what}: {result}");
            let found = numbers(&folder.path().join("out"));
            assert!(found == (0..RECORDS).collect::<Vec<_>>(), "{what}: {} of {RECORDS}", found.len());
        }
    }
}
