//! The sink of a job, without the job: its subtasks, driven by hand.

use std::sync::Arc;
use std::time::Duration;

use stillstream_kafka::sink::{Delivery, KafkaSink};
use stillstream_runtime::connect::{CommitPolicy, SinkOperator};
use stillstream_runtime::testing::redistribute;
use stillstream_runtime::{Batch, OpenContext, Operator, Output};
use stillstream_state::MemorySnapshotStore;
use stillstream_types::{CheckpointId, JobId, OperatorSubtaskState, Result, SnapshotForm};

use crate::topic::{Topic, wait_until};

/// A completed checkpoint.
#[derive(Clone)]
pub struct Checkpoint {
    pub id: u64,
    pub states: Vec<OperatorSubtaskState>,
}

/// The subtasks of one attempt.
pub struct Attempt {
    pub subtasks: Vec<SinkOperator<u64, KafkaSink<u64>>>,
}

pub fn sink(topic: &Topic, prefix: &str) -> KafkaSink<u64> {
    KafkaSink::to_topic(&topic.name)
        .brokers(&topic.brokers)
        .value(|n: &u64| n.to_string())
        .delivery(Delivery::ExactlyOnce)
        .transactional_id_prefix(prefix)
}

/// How a job begins.
pub struct Begin<'a> {
    pub job: &'a str,
    pub generation: u64,
    pub parallelism: usize,
    pub from: Option<&'a Checkpoint>,
}

impl Begin<'_> {
    /// Opens the subtasks, and waits until what was restored is committed.
    pub fn open(self, sink: KafkaSink<u64>) -> Result<Attempt> {
        let Self { job, generation, parallelism, from } = self;
        let sink = Arc::new(sink);
        let states = from.map(|from| redistribute(&from.states, parallelism));
        let mut subtasks = Vec::new();
        for subtask in 0..parallelism {
            let mut context = OpenContext::for_test("sink", subtask as u32, parallelism as u32);
            context.job = JobId::from_name(job);
            context.generation = generation;
            if let (Some(from), Some(states)) = (from, &states) {
                context =
                    context.restored_for_test(generation, CheckpointId(from.id), states[subtask].clone());
            }
            let policy = CommitPolicy { first_pause: Duration::from_millis(50), ..CommitPolicy::default() };
            let mut operator = SinkOperator::new(sink.clone(), policy);
            operator.open(&mut context)?;
            subtasks.push(operator);
        }
        let mut attempt = Attempt { subtasks };
        attempt.await_commits()?;
        Ok(attempt)
    }
}

impl Attempt {
    fn await_commits(&mut self) -> Result<()> {
        for subtask in &mut self.subtasks {
            let mut result = Ok(None);
            wait_until("commits come to their end", || {
                result = subtask.commits_under_way();
                !matches!(result, Ok(Some(_)))
            });
            result?;
        }
        Ok(())
    }

    /// Waits until a subtask takes records.
    pub fn await_ready(&mut self, subtask: usize) -> Result<()> {
        let mut result = Ok(false);
        wait_until("the sink takes records", || {
            result = self.subtasks[subtask].ready(&mut Output::default());
            !matches!(result, Ok(false))
        });
        result.map(drop)
    }

    /// Writes numbers, dealt out over the subtasks.
    pub fn write(&mut self, numbers: std::ops::Range<u64>) -> Result<()> {
        let parallelism = self.subtasks.len();
        for subtask in 0..parallelism {
            let of = |n: &u64| *n as usize % parallelism == subtask;
            let values: Vec<u64> = numbers.clone().filter(of).collect();
            if values.is_empty() {
                continue;
            }
            self.await_ready(subtask)?;
            self.subtasks[subtask].process(0, Batch::new(values).into(), &mut Output::default())?;
        }
        Ok(())
    }

    /// A checkpoint that nobody is told of yet.
    pub fn snapshot(&mut self, id: u64) -> Result<Checkpoint> {
        let store = MemorySnapshotStore::default();
        let mut states = Vec::new();
        for subtask in &mut self.subtasks {
            let rest = subtask.snapshot(CheckpointId(id), SnapshotForm::Checkpoint)?;
            states.push(rest.map_or_else(|| Ok(OperatorSubtaskState::default()), |rest| rest(&store))?);
        }
        Ok(Checkpoint { id, states })
    }

    /// Tells all of a completed checkpoint, and waits for the commits.
    pub fn complete(&mut self, id: u64) -> Result<()> {
        self.subtasks.iter_mut().try_for_each(|subtask| subtask.checkpoint_complete(CheckpointId(id)))?;
        self.await_commits()
    }

    /// The process is gone: nothing of it cleans up after itself.
    pub fn die(self) {
        std::mem::forget(self);
    }
}

/// Numbers as a reader reads them, sorted.
pub fn sorted(texts: Vec<String>) -> Vec<u64> {
    let mut numbers: Vec<u64> = texts.iter().map(|text| text.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}
