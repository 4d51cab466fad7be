//! What runs: tasks, each a chain of operators, joined by edges.

use std::sync::Arc;

use stillstream_types::{KeyGroups, OperatorId, VertexId};

use super::{NodeBody, SplitterFactory};

/// How an edge delivers.
#[derive(Clone)]
pub(crate) enum Delivery {
    Local,
    Rebalance,
    Broadcast,
    Key(SplitterFactory, KeyGroups),
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
}

/// An edge that enters a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskInput {
    pub edge: u32,
    pub from_task: usize,
    pub from_output: usize,
    /// How many subtasks send on it.
    pub from_parallelism: u32,
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
