//! Measuring a running job: after its start, before its end.

use std::collections::BTreeMap;
use std::thread::sleep;

use stillstream::prelude::*;
use stillstream::{CheckpointStatus, CheckpointSummary};

use crate::machine::{Moment, Span, now};
use crate::settings::Settings;

/// How long a job may take to get where it is measured.
const PATIENCE: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(1);

/// Waits until `count` of the job has reached `records`.
pub fn wait_for(job: &JobClient, count: &dyn Fn() -> u64, records: u64) -> Result<()> {
    wait_until(&|| job.status().is_terminal(), count, records)
}

/// Waits until `count` has reached `records`, or `ended` says that it never will.
pub fn wait_until(ended: &dyn Fn() -> bool, count: &dyn Fn() -> u64, records: u64) -> Result<()> {
    let begun = now();
    while count() < records {
        if ended() {
            return Err(Error::msg(format!("the job ended after {} of {records} records", count())));
        }
        if begun.elapsed() > PATIENCE {
            let text = format!("only {} of {records} records went through in {PATIENCE:?}", count());
            return Err(Error::new(ErrorKind::Timeout, text));
        }
        sleep(STEP);
    }
    Ok(())
}

/// What a job did while it was measured.
pub struct Steady {
    /// Records and times.
    pub span: Span,
    /// Checkpoints that were triggered and completed meanwhile.
    pub checkpoints: Vec<CheckpointSummary>,
}

/// Watches a job for the time that the settings say, after `warm_up` records.
pub fn watch(settings: &Settings, job: &JobClient, count: &dyn Fn() -> u64, warm_up: u64) -> Result<Steady> {
    wait_for(job, count, warm_up)?;
    let before = job.checkpoint_statistics().counts.triggered;
    let (begun, from) = (now(), Moment::at(count()));
    let mut checkpoints = BTreeMap::new();
    while begun.elapsed() < settings.measure {
        sleep(STEP * 20);
        checkpoints.extend(completed(job).into_iter().map(|checkpoint| (checkpoint.id, checkpoint)));
    }
    let span = Moment::at(count()) - from;
    if job.status().is_terminal() {
        return Err(Error::msg(format!("job `{}` ended while it was measured", job.name())));
    }
    checkpoints.retain(|id, _| id.0 > before);
    Ok(Steady { span, checkpoints: checkpoints.into_values().collect() })
}

/// Those of the newest checkpoints that were completed.
pub fn completed(job: &JobClient) -> Vec<CheckpointSummary> {
    let history = job.checkpoint_statistics().history;
    history.into_iter().filter(|checkpoint| checkpoint.status == CheckpointStatus::Completed).collect()
}

/// Ends a job that would go on for ever.
pub fn stop(job: JobClient) -> Result<()> {
    job.cancel();
    match job.wait() {
        Err(error) if error.kind() == ErrorKind::Cancelled => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

/// Runs the job that `env` holds: watched for a while, or for a fixed number of records from start to end.
pub fn run(
    settings: &Settings,
    env: &StreamExecutionEnvironment,
    count: &dyn Fn() -> u64,
    warm_up: u64,
) -> Result<Steady> {
    if settings.records.is_some() {
        let from = Moment::at(count());
        env.execute("benchmark")?;
        return Ok(Steady { span: Moment::at(count()) - from, checkpoints: Vec::new() });
    }
    let job = env.execute_async("benchmark")?;
    let steady = watch(settings, &job, count, warm_up);
    let stopped = stop(job);
    let steady = steady?;
    stopped.map(|()| steady)
}
