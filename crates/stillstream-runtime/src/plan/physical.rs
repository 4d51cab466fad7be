//! What runs: tasks, each a chain of operators, joined by edges.

use std::sync::Arc;
use std::time::Duration;

use stillstream_types::{KeyGroups, OperatorId, VertexId};

use super::{NodeBody, SplitterFactory};

/// How an edge delivers.
#[derive(Clone)]
pub(crate) enum Delivery {
    /// Within the worker.
    Local,
    /// To the subtask of the same number, which may run on another worker.
    SameSubtask,
    Rebalance,
    Rescale,
    Global,
    Broadcast,
    Key(SplitterFactory, KeyGroups),
    Partition(SplitterFactory),
}

/// Which workers run the subtasks of a task: one after another from `first` on, and behind the last worker
/// the first one again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placement {
    pub first: u32,
    pub workers: u32,
}

impl Placement {
    /// The worker that runs a subtask.
    pub fn worker_of(&self, subtask: usize) -> usize {
        (self.first as usize + subtask) % self.workers as usize
    }

    /// The number of the subtask that a worker runs, where the task has so many. Processes have one number of
    /// threads each, so there may be more workers than subtasks: those behind the last one have a number that
    /// no subtask has.
    pub fn subtask_of(&self, worker: usize) -> usize {
        if worker >= self.workers as usize {
            return worker;
        }
        (worker + (self.workers - self.first) as usize) % self.workers as usize
    }
}

/// An edge that leaves a task.
#[derive(Clone)]
pub(crate) struct TaskOutput {
    pub edge: u32,
    /// Index in the chain of the operator that feeds it.
    pub owner: usize,
    pub side: Option<u32>,
    pub delivery: Delivery,
    pub to_parallelism: u32,
    /// Where the consumer's subtasks run.
    pub to: Placement,
}

/// An edge that enters a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskInput {
    pub edge: u32,
    pub from_task: usize,
    pub from_output: usize,
    /// How many subtasks send on it.
    pub from_parallelism: u32,
    /// Where they run.
    pub from: Placement,
    pub port: usize,
}

/// What the program says of an operator itself; the rest are defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets {
    pub parallelism: bool,
    pub max_parallelism: bool,
}

/// One operator of a chain.
#[derive(Clone)]
pub(crate) struct ChainedOperator {
    pub id: OperatorId,
    pub name: Arc<str>,
    pub uid: Option<String>,
    pub key_groups: KeyGroups,
    pub sets: Sets,
    /// It keeps state and has no uid.
    pub needs_uid: bool,
    pub body: NodeBody,
    /// Edges that its output can reach, its own chain's later operators included.
    pub reach: Arc<[u32]>,
}

/// A chain of operators that run in one subtask together.
#[derive(Clone)]
pub(crate) struct Task {
    pub vertex: VertexId,
    pub name: Arc<str>,
    pub parallelism: u32,
    pub placement: Placement,
    /// How long what it emits may wait for more, where one of its operators says so.
    pub buffer_timeout: Option<Option<Duration>>,
    pub chain: Vec<ChainedOperator>,
    pub inputs: Vec<TaskInput>,
    pub outputs: Vec<TaskOutput>,
    /// Whether one of its operators does nothing without watermarks.
    pub needs_event_time: bool,
}

impl Task {
    pub fn is_source(&self) -> bool {
        self.inputs.is_empty()
    }
}

/// A plan that can be run.
#[derive(Clone)]
pub(crate) struct PhysicalPlan {
    pub tasks: Vec<Task>,
    pub edges: usize,
    /// Workers needed: the largest parallelism.
    pub workers: u32,
    /// Operators that need watermarks, with the sources from which records come to them without any.
    pub without_watermarks: Vec<(String, Vec<String>)>,
}
