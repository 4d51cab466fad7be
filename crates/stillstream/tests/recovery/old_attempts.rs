//! What a dead attempt has started has no effect after the next one has been opened.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use stillstream::connect::{
    Committer, Prepared, Sink, SinkContext, SinkWriter, SourceContext, SplitReader, SplitSource,
};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};
use stillstream_types::CheckpointId;

use crate::paced::Paced;

const RECORDS: u64 = 2_000;
const STEP: u64 = 100;

/// A server of transactions: prepared ones stay until somebody commits or aborts them.
#[derive(Default)]
struct Server {
    /// Transaction, and the checkpoint that it was prepared for.
    prepared: BTreeSet<(String, u64)>,
    committed: Vec<u64>,
    /// How many attempts have cleaned up after those before them.
    recovered: u64,
    /// A transaction is being prepared by an attempt that fails meanwhile.
    held: bool,
    /// The attempt has failed while it was.
    failed: bool,
}

type Shared = Arc<(Mutex<Server>, Condvar)>;

struct TwoPhase(Shared);

struct Writer {
    server: Shared,
    attempt: u64,
    records: Vec<u64>,
}

impl Sink<u64> for TwoPhase {
    type Committable = (String, u64, Vec<u64>);
    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<u64, Self::Committable>>> {
        let (server, attempt) = (self.0.clone(), context.generation);
        Ok(Box::new(Writer { server, attempt, records: Vec::new() }))
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<Self::Committable>>> {
        let server = self.0.clone();
        Ok(Box::new(move |(name, checkpoint, records): &Self::Committable| {
            let mut state = server.0.lock().unwrap();
            // one that is gone was committed before
            if state.prepared.remove(&(name.clone(), *checkpoint)) {
                state.committed.extend(records);
            }
            Ok(())
        }))
    }
}

impl SinkWriter<u64, (String, u64, Vec<u64>)> for Writer {
    fn write(&mut self, batch: Batch<u64>) -> Result<()> {
        self.records.extend(batch.values);
        Ok(())
    }

    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<(String, u64, Vec<u64>)>>> {
        if self.records.is_empty() {
            return Ok(None);
        }
        let name = format!("{}-{checkpoint}", self.attempt);
        let committable = (name.clone(), checkpoint.0, std::mem::take(&mut self.records));
        let server = self.server.clone();
        let make_durable = move || {
            let mut state = server.0.lock().unwrap();
            if checkpoint.0 >= 3 && !state.held {
                state.held = true;
                server.1.notify_all();
                // it takes its time; an attempt that opens meanwhile would clean up too early
                let next_attempt = |state: &mut Server| state.recovered == 1;
                state = server.1.wait_timeout_while(state, Duration::from_secs(3), next_attempt).unwrap().0;
            }
            state.prepared.insert((name.clone(), checkpoint.0));
            Ok(())
        };
        Ok(Some(Prepared { committable, make_durable: Some(Box::new(make_durable)) }))
    }

    fn recovered(&mut self, restored: Option<CheckpointId>) -> Result<()> {
        let mut state = self.server.0.lock().unwrap();
        state.prepared.retain(|(_, checkpoint)| restored.is_some_and(|restored| *checkpoint <= restored.0));
        state.recovered += 1;
        self.server.1.notify_all();
        Ok(())
    }
}

/// Fails once, while the transaction is held.
struct Failing<S>(S, Shared);

struct FailingReader<S>(Box<dyn SplitReader<u64, S>>, Shared);

impl<S: SplitSource<Item = u64>> SplitSource for Failing<S> {
    type Item = u64;
    type Split = S::Split;
    fn splits(&self) -> Result<Vec<S::Split>> {
        self.0.splits()
    }
    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<u64, S::Split>>> {
        Ok(Box::new(FailingReader(self.0.reader(context)?, self.1.clone())))
    }
}

impl<S: Data> SplitReader<u64, S> for FailingReader<S> {
    fn assign(&mut self, splits: Vec<S>) -> Result<()> {
        self.0.assign(splits)
    }
    fn poll(&mut self, max_records: usize, out: &mut Batch<u64>) -> Result<SourceStatus> {
        let mut state = self.1.0.lock().unwrap();
        if state.held && !state.failed {
            state.failed = true;
            return Err(Error::msg("told to"));
        }
        drop(state);
        self.0.poll(max_records, out)
    }
    fn positions(&self) -> Vec<S> {
        self.0.positions()
    }
    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        self.0.checkpoint_complete(id)
    }
}

#[test]
fn a_transaction_that_a_dead_attempt_is_still_preparing_is_aborted_by_the_next_one() {
    let server = Shared::default();
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(10))
        .set_restart_strategy(RestartStrategy::fixed_delay(1, Duration::ZERO));
    let numbers = Paced::new(Generator::new(RECORDS, |n| n), STEP, STEP);
    env.from_source("numbers", Failing(numbers, server.clone()))
        .uid("numbers")
        .sink_to("out", TwoPhase(server.clone()))
        .uid("out");
    let result = env.execute("old attempts").unwrap();
    assert_eq!(result.restarts, 1);
    let state = server.0.lock().unwrap();
    assert!(state.prepared.is_empty(), "nobody will ever commit or abort {:?}", state.prepared);
    let mut committed = state.committed.clone();
    committed.sort_unstable();
    assert_eq!(committed, (0..RECORDS).collect::<Vec<_>>());
}
