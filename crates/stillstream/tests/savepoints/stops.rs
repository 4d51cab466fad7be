//! A stop: all output is committed, and another start goes on from there as if nothing had been.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use stillstream::connect::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId, JobStatus};

use crate::program::{Backend, FILES, RECORDS, Run, STEP, check, rows, wait_for};

fn stops_and_goes_on(backend: Backend, format: SavepointFormat, parallelism: [u32; 2], same_folder: bool) {
    let what = format!("{backend:?} {format:?} {parallelism:?}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = Run { parallelism: parallelism[0], ..Run::new(folder.path(), backend) };
    let job = run.start();
    wait_for(&job, 2 * STEP);
    let report = job.stop_with_savepoint(None, false, format).unwrap();
    let status = job.clone();
    let result = job.wait().unwrap();
    assert_eq!((&result.ending, result.restarts), (&JobEnding::Stopped(report.path.clone()), 0), "{what}");
    assert!(result.to_string().contains(&report.path), "{result}");
    assert_eq!(status.status(), JobStatus::Finished);
    let written = rows(&out).len() as u64;
    assert!((2 * STEP..RECORDS).contains(&written), "{what}: {written} rows are committed");
    assert_eq!(result.records_out, written, "{what}: all that reached the sink is committed");

    let run = Run { parallelism: parallelism[1], ..run };
    if same_folder {
        let env = run.environment();
        run.sums(&env).sink_to("out", FileSink::csv(&out)).uid("out");
        let error = env.execute("sums").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        let text = error.to_string();
        assert!(text.contains("was stopped with a savepoint") && text.contains(&report.path), "{text}");
    }
    let checkpoints = if same_folder { run.checkpoints } else { "other checkpoints" };
    let run = Run { checkpoints, ..run.from(&report.path) };
    let result = run.start().wait().unwrap();
    assert!(result.resumed_from.is_some(), "{what}");
    check(rows(&out), &what);
    assert!(Path::new(&report.path).join("_metadata").is_file(), "{what}: it is never deleted");
}

#[test]
fn stop_with_savepoint_and_a_start_from_it_come_to_the_output_of_an_undisturbed_run() {
    for backend in FILES {
        for parallelism in [[1, 1], [2, 3], [4, 2], [1, 4]] {
            stops_and_goes_on(*backend, SavepointFormat::Canonical, parallelism, true);
        }
        stops_and_goes_on(*backend, SavepointFormat::Native, [3, 3], true);
    }
}

#[test]
fn a_start_from_a_savepoint_in_another_checkpoint_folder_repeats_and_replaces_no_output() {
    stops_and_goes_on(Backend::Heap, SavepointFormat::Canonical, [2, 2], false);
}

#[test]
fn a_job_that_was_stopped_with_a_checkpoint_goes_on_by_itself_and_says_from_where() {
    for backend in FILES {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(folder.path(), *backend);
        let mut last = None;
        for round in 1..=3 {
            let job = run.start();
            wait_for(&job, STEP);
            let report = job.stop().unwrap();
            let status = job.clone();
            let result = job.wait().unwrap();
            assert_eq!(result.ending, JobEnding::Suspended { checkpoint: Some(report.id), kept: true });
            assert!(result.to_string().contains(&format!("stopped at checkpoint {}", report.id)), "{result}");
            assert_eq!(status.status(), JobStatus::Suspended);
            assert_eq!(result.resumed_from, last, "round {round}");
            last = Some(report.id);
        }
        let result = run.start().wait().unwrap();
        assert_eq!((result.resumed_from, result.ending), (last, JobEnding::Finished));
        check(rows(&folder.path().join("out")), "stopped three times");
    }
}

#[test]
fn a_job_in_memory_that_is_stopped_commits_its_output_and_says_that_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(folder.path(), Backend::Memory);
    let job = run.start();
    wait_for(&job, STEP);
    job.stop().unwrap();
    let result = job.wait().unwrap();
    assert!(matches!(result.ending, JobEnding::Suspended { kept: false, .. }), "{:?}", result.ending);
    assert!(result.to_string().contains("nothing is kept"), "{result}");
    assert_eq!(rows(&folder.path().join("out")).len() as u64, result.records_out);
}

/// Emits its key every millisecond, for ever.
struct Ticking;

impl KeyedProcess for Ticking {
    type Key = u64;
    type In = u64;
    type Out = u64;
    fn open(_: &mut States<Self>) -> Result<Self> {
        Ok(Self)
    }
    fn process(&mut self, _: u64, ctx: &mut Context<Self>) -> Result<()> {
        ctx.timers().on_processing_time(ctx.processing_time() + millis(1))
    }
    fn on_timer(&mut self, _: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        let key = *ctx.key();
        ctx.emit(key);
        ctx.timers().on_processing_time(ctx.processing_time() + millis(1))
    }
}

/// A sink whose commits take a while; it counts the records of its transactions.
#[derive(Clone, Default)]
struct Slow {
    written: u64,
    committed: Arc<AtomicU64>,
}

impl Sink<u64> for Slow {
    type Committable = u64;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>> {
        Ok(Box::new(self.clone()))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<u64>>> {
        let committed = self.committed.clone();
        Ok(Box::new(move |records: &u64| {
            std::thread::sleep(millis(100));
            committed.fetch_add(*records, SeqCst);
            Ok(())
        }))
    }
}

impl SinkWriter<u64, u64> for Slow {
    fn write(&mut self, batch: Batch<u64>) -> Result<()> {
        self.written += batch.values.len() as u64;
        Ok(())
    }
    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<u64>>> {
        Ok(Some(Prepared::done(std::mem::take(&mut self.written))))
    }
}

#[test]
fn behind_the_last_barrier_of_a_stop_no_timer_fires_and_no_source_is_read_while_output_is_committed() {
    for savepoint in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let run = Run { interval: Some(hours(24)), ..Run::new(folder.path(), Backend::Heap) };
        let (env, sink) = (run.environment(), Slow::default());
        let numbers =
            env.from_source("numbers", Generator::unbounded(|n| n % 50).records_per_second(5_000.0));
        let ticks = numbers.uid("numbers").key_by(|n| *n).process::<Ticking>().uid("ticks");
        ticks.map(|n| n).disable_chaining().sink_to("slow", sink.clone()).uid("slow");
        let job = env.execute_async("ticking").unwrap();
        wait_for(&job, 1_000);
        match savepoint {
            true => job.stop_with_savepoint(None, false, SavepointFormat::Canonical).unwrap(),
            false => job.stop().unwrap(),
        };
        let result = job.wait().unwrap();
        assert_eq!(
            result.records_out,
            sink.committed.load(SeqCst),
            "all that the sink has seen is committed"
        );
    }
}
