//! What a job does while the target of its sink is away.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use stillstream::connect::{
    Committer, Prepared, Sink, SinkContext, SinkWriter, SourceContext, SplitReader, SplitSource,
};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId, SourceStatus};

/// A target that is away until the job has written for five checkpoints.
#[derive(Clone, Default)]
struct Target(Arc<Seen>);

#[derive(Default)]
struct Seen {
    prepared: Mutex<Vec<u64>>,
    refused: Mutex<u32>,
    committed: Mutex<Vec<(u64, Vec<u64>)>>,
    back: AtomicBool,
}

impl Sink<u64> for Target {
    type Committable = (u64, Vec<u64>);
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, Self::Committable>>> {
        Ok(Box::new(Writer(self.clone(), Vec::new())))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<Self::Committable>>> {
        let seen = self.0.clone();
        Ok(Box::new(move |committable: &(u64, Vec<u64>)| {
            if seen.prepared.lock().unwrap().len() < 5 {
                *seen.refused.lock().unwrap() += 1;
                return Err(Error::msg("the target is away"));
            }
            seen.back.store(true, SeqCst);
            seen.committed.lock().unwrap().push(committable.clone());
            Ok(())
        }))
    }
}

struct Writer(Target, Vec<u64>);

impl SinkWriter<u64, (u64, Vec<u64>)> for Writer {
    fn write(&mut self, batch: Batch<u64>) -> Result<()> {
        self.1.extend(batch.values);
        Ok(())
    }
    fn prepare(&mut self, id: CheckpointId) -> Result<Option<Prepared<(u64, Vec<u64>)>>> {
        self.0.0.prepared.lock().unwrap().push(id.0);
        Ok(Some(Prepared::done((id.0, std::mem::take(&mut self.1)))))
    }
}

/// Counts up until the target is back.
struct Numbers(Target);
struct Reader(Target, Vec<u64>);

impl SplitSource for Numbers {
    type Item = u64;
    type Split = u64;
    fn splits(&self) -> Result<Vec<u64>> {
        Ok(vec![0])
    }
    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<u64, u64>>> {
        Ok(Box::new(Reader(self.0.clone(), Vec::new())))
    }
}

impl SplitReader<u64, u64> for Reader {
    fn assign(&mut self, splits: Vec<u64>) -> Result<()> {
        self.1 = splits;
        Ok(())
    }
    fn poll(&mut self, _: usize, out: &mut Batch<u64>) -> Result<SourceStatus> {
        let Some(next) = self.1.first_mut() else { return Ok(SourceStatus::Ended) };
        out.values.push(*next);
        *next += 1;
        Ok(match self.0.0.back.load(SeqCst) {
            true => SourceStatus::Ended,
            // soon: what counts here are checkpoints, not records
            false => SourceStatus::Idle { until_ms: Some(0) },
        })
    }
    fn positions(&self) -> Vec<u64> {
        self.1.clone()
    }
}

#[test]
fn a_target_that_is_away_costs_a_delay_while_records_and_checkpoints_go_on() {
    let target = Target::default();
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(1).enable_checkpointing(millis(10)).set_restart_strategy(RestartStrategy::none());
    env.from_source("numbers", Numbers(target.clone()))
        .uid("numbers")
        .sink_to("target", target.clone())
        .uid("target");
    let result = env.execute("commits").unwrap();
    assert_eq!(result.restarts, 0);
    assert!(*target.0.refused.lock().unwrap() > 0);
    let committed = target.0.committed.lock().unwrap();
    assert!(committed.is_sorted_by_key(|(checkpoint, _)| *checkpoint), "{committed:?}");
    let records: Vec<u64> = committed.iter().flat_map(|(_, records)| records).copied().collect();
    assert!(records.iter().copied().eq(0..records.len() as u64), "{records:?}");
    assert!(committed.len() >= 5, "checkpoints were completed while the target was away: {committed:?}");
}

#[test]
fn a_target_that_stays_away_fails_the_job_with_the_name_of_the_sink() {
    struct Away;
    impl Sink<u64> for Away {
        type Committable = u64;
        fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>> {
            Ok(Box::new(Nothing))
        }
        fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<u64>>> {
            Ok(Box::new(|_: &u64| Err(Error::msg("no route to host"))))
        }
    }
    struct Nothing;
    impl SinkWriter<u64, u64> for Nothing {
        fn write(&mut self, _: Batch<u64>) -> Result<()> {
            Ok(())
        }
        fn prepare(&mut self, id: CheckpointId) -> Result<Option<Prepared<u64>>> {
            Ok(Some(Prepared::done(id.0)))
        }
    }
    for checkpoints in [true, false] {
        let mut env = StreamExecutionEnvironment::new();
        env.set_parallelism(1).set_restart_strategy(RestartStrategy::none());
        env.configuration_mut().set_text("sink.committer.retries", "1").unwrap();
        if checkpoints {
            env.enable_checkpointing(millis(10));
        }
        env.from_collection(vec![1u64, 2, 3]).sink_to("orders", Away).uid("orders");
        let error = env.execute("away").unwrap_err().to_string();
        for part in ["`orders`", "failed 2 times", "sink.committer.retries: 1", "no route to host"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
