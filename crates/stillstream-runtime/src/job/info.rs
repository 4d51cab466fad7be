//! What is known of a job before it runs and does not change: who it is, its plan and its settings, as data.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use stillstream_jobmaster::CheckpointConfig;
use stillstream_types::{JobId, OperatorId, RestartStrategy, Timestamp};

use super::checkpoint_storage::JobCheckpointStorage;
use super::settings::JobSettings;
use crate::clock::Clock;
use crate::plan::{Delivery, PhysicalPlan, Task};

/// A job, as it was submitted.
#[derive(Clone, Debug)]
pub struct JobInfo {
    /// Its id, which follows from its name.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// When this process accepted it.
    pub started_at: Timestamp,
    /// What runs.
    pub plan: JobPlan,
    /// The parallelism of operators that do not set their own.
    pub parallelism: u32,
    /// Worker threads of all processes together.
    pub workers: u32,
    /// Worker processes.
    pub processes: u32,
    /// When and how checkpoints are taken.
    pub checkpoint: CheckpointConfig,
    /// Where state lies while the job runs, under the name that `state.backend.type` has for it.
    pub state_backend: &'static str,
    /// The job's checkpoint directory; `None` if checkpoints end with the process.
    pub checkpoint_directory: Option<String>,
    /// What happens after a failure.
    pub restart: RestartStrategy,
    /// The snapshot that a person named to start from.
    pub from_snapshot: Option<String>,
    /// The settings that are not defaults, secrets hidden.
    pub configuration: BTreeMap<String, String>,
    /// Where the REST interface of the process answers, if there is one.
    pub rest_address: Option<SocketAddr>,
}

impl JobInfo {
    pub(super) fn new(
        settings: &JobSettings,
        physical: &PhysicalPlan,
        checkpoints: &dyn JobCheckpointStorage,
        clock: &dyn Clock,
    ) -> Self {
        let checkpointing = settings.checkpoint.interval.is_some();
        Self {
            plan: JobPlan::of(physical),
            workers: physical.workers,
            processes: settings.processes,
            checkpoint: settings.checkpoint.clone(),
            state_backend: settings.backend.name(),
            checkpoint_directory: checkpoints.is_durable().then(|| checkpoints.describe()),
            restart: settings.restart.unwrap_or_else(|| RestartStrategy::default_for(checkpointing)),
            started_at: Timestamp::from_millis(clock.now_ms()),
            ..Self::of_settings(settings)
        }
    }

    /// Of a job that does not run here: it has finished before, or another process runs it.
    pub(super) fn of_settings(settings: &JobSettings) -> Self {
        Self {
            id: JobId::from_name(&settings.name),
            name: settings.name.clone(),
            started_at: Timestamp::from_millis(0),
            plan: JobPlan::default(),
            parallelism: settings.parallelism,
            workers: 0,
            processes: settings.processes,
            checkpoint: settings.checkpoint.clone(),
            state_backend: "hashmap",
            checkpoint_directory: None,
            restart: settings.restart.unwrap_or(RestartStrategy::None),
            from_snapshot: settings.from_snapshot.clone(),
            configuration: settings.configuration.clone(),
            rest_address: settings.rest_address,
        }
    }
}

/// What runs: tasks in the order of the plan, inputs first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobPlan {
    /// The tasks. The number of a task is its place here, as in
    /// [`VertexId`](stillstream_types::VertexId).
    pub vertices: Vec<PlanVertex>,
}

/// A task: a chain of operators that run in one subtask together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanVertex {
    /// The id of the first operator of its chain, which is unique in the plan.
    pub id: OperatorId,
    /// Its operators' names, joined by arrows.
    pub name: std::sync::Arc<str>,
    /// How many subtasks it has.
    pub parallelism: u32,
    /// How many key groups its first operator has.
    pub max_parallelism: u32,
    /// Its operators, in the order in which records pass them.
    pub operators: Vec<PlanOperator>,
    /// The edges that enter it.
    pub inputs: Vec<PlanInput>,
    /// Whether one of its operators does nothing without watermarks.
    pub needs_event_time: bool,
}

/// An operator of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanOperator {
    /// The identity of its state.
    pub id: OperatorId,
    /// For people.
    pub name: std::sync::Arc<str>,
    /// What the id was made from, if the user gave one.
    pub uid: Option<String>,
}

/// An edge that enters a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanInput {
    /// The number of the task that sends.
    pub from: usize,
    /// How many subtasks it has.
    pub from_parallelism: u32,
    /// Which input of the operator it is; several edges with the same number are a union.
    pub port: usize,
    /// How records are dealt out.
    pub ship: ShipStrategy,
}

/// How an edge deals records out to subtasks, under Flink's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShipStrategy {
    /// Within the subtask.
    Forward,
    /// To all in turn.
    Rebalance,
    /// Every record to every subtask.
    Broadcast,
    /// By key group.
    Hash,
    /// To those of each subtask's share in turn.
    Rescale,
    /// To the first subtask.
    Global,
    /// By a partitioner of the job's own, or at random.
    Custom,
}

impl ShipStrategy {
    /// The name that Flink shows, as in `HASH`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "FORWARD",
            Self::Rebalance => "REBALANCE",
            Self::Broadcast => "BROADCAST",
            Self::Hash => "HASH",
            Self::Rescale => "RESCALE",
            Self::Global => "GLOBAL",
            Self::Custom => "CUSTOM",
        }
    }
}

impl JobPlan {
    pub(crate) fn of(physical: &PhysicalPlan) -> Self {
        Self { vertices: physical.tasks.iter().map(|task| PlanVertex::of(physical, task)).collect() }
    }
}

impl PlanVertex {
    fn of(physical: &PhysicalPlan, task: &Task) -> Self {
        let operator = |operator: &crate::plan::ChainedOperator| PlanOperator {
            id: operator.id,
            name: operator.name.clone(),
            uid: operator.uid.clone(),
        };
        let input = |input: &crate::plan::TaskInput| PlanInput {
            from: input.from_task,
            from_parallelism: input.from_parallelism,
            port: input.port,
            ship: match physical.tasks[input.from_task].outputs[input.from_output].delivery {
                Delivery::Local | Delivery::SameSubtask => ShipStrategy::Forward,
                Delivery::Rebalance => ShipStrategy::Rebalance,
                Delivery::Broadcast => ShipStrategy::Broadcast,
                Delivery::Key(..) => ShipStrategy::Hash,
                Delivery::Rescale => ShipStrategy::Rescale,
                Delivery::Global => ShipStrategy::Global,
                Delivery::Partition(_) => ShipStrategy::Custom,
            },
        };
        let first = task.chain.first();
        Self {
            // a chain has at least one operator
            id: first.map_or(OperatorId([0; 16]), |first| first.id),
            name: task.name.clone(),
            parallelism: task.parallelism,
            max_parallelism: first.map_or(task.parallelism, |first| first.key_groups.max_parallelism()),
            operators: task.chain.iter().map(operator).collect(),
            inputs: task.inputs.iter().map(input).collect(),
            needs_event_time: task.needs_event_time,
        }
    }
}
