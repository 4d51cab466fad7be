//! SNAPSHOT: what one checkpoint of a large state costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Instant;

use stillstream::Batch;
use stillstream::connect::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use stillstream::prelude::*;

use super::steady;
use crate::machine::{Moment, Span, forget_peak, now, peak_resident_bytes, resident_bytes, thread_cpu};
use crate::measurement::{Measurement, quantile, sorted};
use crate::records::{keyed, warm_up};
use crate::settings::Settings;

/// Checkpoints in one run.
const CHECKPOINTS: usize = 3;

/// What one worker did, as its sink sees it.
#[derive(Default)]
struct Worker {
    records: AtomicU64,
    cpu_ns: AtomicU64,
    /// The longest time between two batches.
    gap_ns: AtomicU64,
    /// The most CPU time that the worker used between two batches: the gap less the time when others had the
    /// core.
    busy_ns: AtomicU64,
}

/// A sink that drops records and writes down what its worker does.
#[derive(Clone, Default)]
struct Watch(Arc<Vec<Worker>>);

/// What all workers did so far.
#[derive(Clone, Copy)]
struct Work {
    records: f64,
    cpu_ns: f64,
}

impl Watch {
    fn of(workers: u32) -> Self {
        Self(Arc::new((0..workers).map(|_| Worker::default()).collect()))
    }

    fn sum(&self, figure: impl Fn(&Worker) -> &AtomicU64) -> u64 {
        self.0.iter().map(|worker| figure(worker).load(Relaxed)).sum()
    }

    fn records(&self) -> u64 {
        self.sum(|worker| &worker.records)
    }

    fn work(&self) -> Work {
        Work { records: self.records() as f64, cpu_ns: self.sum(|worker| &worker.cpu_ns) as f64 }
    }

    /// The longest of all workers since the last call, in milliseconds: between two batches, and busy between
    /// two.
    fn take_longest(&self) -> (f64, f64) {
        let longest = |figure: fn(&Worker) -> &AtomicU64| {
            let longest = self.0.iter().map(|worker| figure(worker).swap(0, Relaxed)).max();
            longest.unwrap_or_default() as f64 / 1e6
        };
        (longest(|worker| &worker.gap_ns), longest(|worker| &worker.busy_ns))
    }
}

struct Writer {
    watch: Watch,
    subtask: usize,
    last: Option<(Instant, Duration)>,
}

impl<T: Data> Sink<T> for Watch {
    type Committable = ();
    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<T, ()>>> {
        Ok(Box::new(Writer { watch: self.clone(), subtask: context.subtask.0 as usize, last: None }))
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<()>>> {
        Ok(Box::new(|_: &()| Ok(())))
    }
}

impl<T: Data> SinkWriter<T, ()> for Writer {
    fn write(&mut self, batch: Batch<T>) -> Result<()> {
        let (at, cpu) = (now(), thread_cpu());
        let Some(worker) = self.watch.0.get(self.subtask) else { return Ok(()) };
        if let Some((last_at, last_cpu)) = self.last {
            worker.gap_ns.fetch_max((at - last_at).as_nanos() as u64, Relaxed);
            worker.busy_ns.fetch_max(cpu.saturating_sub(last_cpu).as_nanos() as u64, Relaxed);
        }
        self.last = Some((at, cpu));
        worker.records.fetch_add(batch.len() as u64, Relaxed);
        worker.cpu_ns.store(cpu.as_nanos() as u64, Relaxed);
        Ok(())
    }
    fn prepare(&mut self, _: stillstream::CheckpointId) -> Result<Option<Prepared<()>>> {
        Ok(None)
    }
}

/// One checkpoint, as seen from outside.
struct Seen {
    span: Span,
    lost_ms: f64,
    gap_ms: f64,
    busy_ms: f64,
    peak_bytes: f64,
}

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let (keys, dir, empty) = (settings.keys, settings.scratch()?, resident_bytes()? as f64);
    let mut env = settings.checkpointed(dir.path());
    env.enable_checkpointing(Duration::from_secs(365 * 24 * 3_600));
    let watch = Watch::of(settings.workers);
    env.from_source("numbers", Generator::unbounded(move |seq| keyed(seq, keys)))
        .uid("numbers")
        .key_by(|record| record.0)
        .map_with_state("sum", |sum: &mut u64, (key, value)| {
            *sum += value;
            (key, *sum)
        })
        .uid("sum")
        .sink_to("watch", watch.clone());
    let job = env.execute_async("benchmark")?;
    let measured = measure(settings, &job, &watch, empty);
    steady::stop(job)?;
    measured
}

fn measure(settings: &Settings, job: &JobClient, watch: &Watch, empty: f64) -> Result<Measurement> {
    let per_key = |bytes: f64| (bytes - empty) / settings.keys as f64;
    let between = |a: Work, b: Work| (b.cpu_ns - a.cpu_ns, b.records - a.records);
    // without a checkpoint
    steady::wait_for(job, &|| watch.records(), warm_up(settings.keys))?;
    watch.take_longest();
    let (from, work) = (Moment::at(watch.records()), watch.work());
    sleep(settings.measure);
    let steady = Moment::at(watch.records()) - from;
    let (cpu, records) = between(work, watch.work());
    let ns_a_record = cpu / records.max(1.0);
    let usual = watch.take_longest();
    let bytes = resident_bytes()? as f64;
    // during checkpoints
    let mut seen = Vec::new();
    for _ in 0..CHECKPOINTS {
        forget_peak()?;
        watch.take_longest();
        let (from, work) = (Moment::at(watch.records()), watch.work());
        job.trigger_checkpoint()?;
        let span = Moment::at(watch.records()) - from;
        let (cpu, records) = between(work, watch.work());
        let (gap_ms, busy_ms) = watch.take_longest();
        let lost_ms = (cpu - records * ns_a_record) / 1e6 / f64::from(settings.workers);
        seen.push(Seen { span, lost_ms, gap_ms, busy_ms, peak_bytes: peak_resident_bytes()? as f64 });
        sleep(Duration::from_millis(300));
    }
    let median = |f: &dyn Fn(&Seen) -> f64| quantile(&sorted(seen.iter().map(f)), 0.5);
    let worst = |f: &dyn Fn(&Seen) -> f64| quantile(&sorted(seen.iter().map(f)), 1.0);
    let rate = |span: &Span| span.records as f64 / span.wall.as_secs_f64().max(1e-9);
    let usual_rate = rate(&steady).max(1.0);
    Ok(Measurement::of("SNAPSHOT", settings, steady)
        .checkpoints(&steady::completed(job))
        .figure("bytes_per_key", per_key(bytes))
        .figure("peak_bytes_per_key", per_key(worst(&|seen| seen.peak_bytes)))
        .figure("lost_ms_a_worker", median(&|seen| seen.lost_ms))
        .figure("throughput_during", median(&|seen| rate(&seen.span) / usual_rate))
        .figure("longest_wait_ms", worst(&|seen| seen.gap_ms))
        .figure("longest_wait_ms_without", usual.0)
        .figure("longest_busy_ms", worst(&|seen| seen.busy_ms))
        .figure("longest_busy_ms_without", usual.1))
}
