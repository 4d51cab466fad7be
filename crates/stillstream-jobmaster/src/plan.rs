//! What the coordinator has to know of the running plan.

use stillstream_types::{OperatorId, SubtaskId};

/// One operator: whose state it is and how it is spread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperatorInfo {
    /// The identity of its state.
    pub id: OperatorId,
    /// The `uid` that the id was made from, if the user gave one.
    pub uid: Option<String>,
    /// For people.
    pub name: String,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups.
    pub max_parallelism: u32,
}

/// One subtask of the running attempt: a chain of operators that acknowledges as one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskInfo {
    /// Which subtask.
    pub id: SubtaskId,
    /// For people.
    pub name: String,
    /// The operators of its chain, the same for each subtask of a vertex.
    pub operators: Vec<OperatorInfo>,
    /// Whether it is triggered by the coordinator (all others get barriers from upstream).
    pub is_source: bool,
}
