//! RECOVER: how long a failure in the process interrupts a job.
//!
//! The interruption ends with the first record out of the restarted job. What follows is `replay_ms`: records
//! that were read after the last checkpoint are read again; how many is a matter of when that was, here the
//! moment before.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use stillstream::connect::{SourceContext, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};

use super::steady;
use crate::machine::{Moment, now};
use crate::measurement::Measurement;
use crate::records::{keyed, warm_up};
use crate::settings::Settings;

/// What happened when, from the failure on.
#[derive(Default)]
struct Timeline {
    /// The next record fails.
    armed: AtomicBool,
    failed: OnceLock<Instant>,
    /// The index of the record that failed.
    failed_at: AtomicU64,
    /// All workers have dropped the old dataflow, and build a new one.
    rebuilt: OnceLock<Instant>,
    /// A source has its position back, and is about to read.
    reading: OnceLock<Instant>,
    /// The first record that came out of restored state.
    out: OnceLock<Instant>,
    /// The first one that had not been there before the failure.
    new: OnceLock<Instant>,
}

impl Timeline {
    fn mark(&self, event: &OnceLock<Instant>, after: &OnceLock<Instant>) {
        if after.get().is_some() {
            event.get_or_init(now);
        }
    }

    fn between(from: &OnceLock<Instant>, to: &OnceLock<Instant>) -> Result<f64> {
        match (from.get(), to.get()) {
            (Some(from), Some(to)) => Ok(to.saturating_duration_since(*from).as_secs_f64() * 1e3),
            _ => Err(Error::msg("the job did not fail and recover as it was told to")),
        }
    }
}

/// A source that writes down when it is made and assigned.
struct Observed<S> {
    source: S,
    times: Arc<Timeline>,
}

struct Reader<T, S> {
    reader: Box<dyn SplitReader<T, S>>,
    times: Arc<Timeline>,
}

impl<S: SplitSource> SplitSource for Observed<S> {
    type Item = S::Item;
    type Split = S::Split;
    fn splits(&self) -> Result<Vec<S::Split>> {
        self.source.splits()
    }
    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<S::Item, S::Split>>> {
        self.times.mark(&self.times.rebuilt, &self.times.failed);
        Ok(Box::new(Reader { reader: self.source.reader(context)?, times: self.times.clone() }))
    }
}

impl<T: 'static, S: 'static> SplitReader<T, S> for Reader<T, S> {
    fn assign(&mut self, splits: Vec<S>) -> Result<()> {
        self.reader.assign(splits)
    }
    fn poll(&mut self, max_records: usize, out: &mut Batch<T>) -> Result<SourceStatus> {
        self.times.mark(&self.times.reading, &self.times.rebuilt);
        self.reader.poll(max_records, out)
    }
    fn positions(&self) -> Vec<S> {
        self.reader.positions()
    }
}

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let (keys, dir, times) = (settings.keys, settings.scratch()?, Arc::new(Timeline::default()));
    let mut env = settings.checkpointed(dir.path());
    env.enable_checkpointing(Duration::from_secs(365 * 24 * 3_600))
        .set_restart_strategy(RestartStrategy::fixed_delay(1, Duration::ZERO));
    let out = Discard::new();
    let source = Observed { source: Generator::unbounded(|seq| seq), times: times.clone() };
    let (failing, finding) = (times.clone(), times.clone());
    env.from_source("numbers", source)
        .uid("numbers")
        .try_map(move |seq| {
            if failing.armed.load(Relaxed) && failing.armed.swap(false, Relaxed) {
                failing.failed_at.store(seq, Relaxed);
                failing.failed.get_or_init(now);
                return Err(Error::msg("told to fail"));
            }
            let (key, value) = keyed(seq, keys);
            Ok((key, value, seq))
        })
        .key_by(|record| record.0)
        .map_with_state("sum", |sum: &mut u64, (key, value, seq)| {
            *sum += value;
            (key, *sum, seq)
        })
        .uid("sum")
        .inspect(move |record| {
            if finding.new.get().is_none() && finding.rebuilt.get().is_some() {
                finding.out.get_or_init(now);
                if record.2 > finding.failed_at.load(Relaxed) {
                    finding.new.get_or_init(now);
                }
            }
        })
        .sink_to("discard", out.clone());
    let job = env.execute_async("benchmark")?;
    steady::wait_for(&job, &|| out.count(), warm_up(keys))?;
    job.trigger_checkpoint()?;
    let (checkpoints, from) = (steady::completed(&job), Moment::at(out.count()));
    times.armed.store(true, Relaxed);
    let recovered = job.wait_until(Duration::from_secs(60), |_| times.new.get().is_some());
    let span = Moment::at(out.count()) - from;
    steady::stop(job)?;
    if !recovered {
        return Err(Error::new(ErrorKind::Timeout, "no new record came within a minute of the failure"));
    }
    let t = &times;
    Ok(Measurement::of("RECOVER", settings, span)
        .checkpoints(&checkpoints)
        .figure("recovery_ms", Timeline::between(&t.failed, &t.out)?)
        .figure("recovery_stop_ms", Timeline::between(&t.failed, &t.rebuilt)?)
        .figure("recovery_restore_ms", Timeline::between(&t.rebuilt, &t.reading)?)
        .figure("recovery_first_ms", Timeline::between(&t.reading, &t.out)?)
        .figure("replay_ms", Timeline::between(&t.out, &t.new)?))
}
