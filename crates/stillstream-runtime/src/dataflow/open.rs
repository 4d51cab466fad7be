//! Opening a subtask: its operators are made, told where they are, and given the state that they start from.

use std::sync::Arc;
use std::time::Duration;

use stillstream_jobmaster::RestoredState;
use stillstream_types::crash::crash_point;
use stillstream_types::file_access::FileAccess;
use stillstream_types::{CheckpointingMode, Error, JobId, OperatorId, Result};

use crate::backends::StateBackends;
use crate::catch::catch;
use crate::checkpoint::snapshot_pool::{SnapshotPool, SnapshotStores};
use crate::clock::Clock;
use crate::control::{AttemptSpec, ReportSink};
use crate::dataflow::attempt::WorkerAttempt;
use crate::dataflow::build::SubtaskInfo;
use crate::dataflow::chain::Chain;
use crate::dataflow::turn::TurnLimits;
use crate::flow::credits::FlowLimits;
use crate::metrics::{Counters, WorkerMetrics};
use crate::operator::{OpenContext, PendingTimers};
use crate::plan::{NodeBody, PhysicalPlan, Task};

/// Settings that every worker of a job has.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSettings {
    pub mode: CheckpointingMode,
    pub job: JobId,
    /// See [`OpenContext::checkpoint_storage`].
    pub checkpoint_storage: Arc<str>,
    pub file_access: FileAccess,
    pub checkpointing: bool,
    pub backend: StateBackends,
    pub flow: FlowLimits,
    pub turn: TurnLimits,
    pub pending_timers: PendingTimers,
    pub auto_watermark_interval: Option<Duration>,
    pub watermark_each_batch: bool,
    /// See [`JobSettings::longest_sleep`](crate::job::JobSettings::longest_sleep).
    pub longest_sleep: Duration,
}

/// What a worker needs to run an attempt.
pub(crate) struct WorkerContext {
    pub physical: Arc<PhysicalPlan>,
    pub settings: WorkerSettings,
    pub stores: Arc<dyn SnapshotStores>,
    pub pool: Arc<SnapshotPool>,
    pub reports: Arc<dyn ReportSink>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<WorkerMetrics>,
    pub counters: Arc<Counters>,
}

/// Opens the operators of a task in the order of the chain, each with its part of the restored state.
pub(crate) fn open_chain(
    context: &WorkerContext,
    attempt: &WorkerAttempt,
    spec: &AttemptSpec,
    task: &Task,
    info: &SubtaskInfo,
) -> Result<Chain> {
    let mut chain = Chain::new();
    let store =
        context.stores.reader(spec.restored.as_ref().and_then(|restored| restored.location.as_deref()))?;
    if spec.restored.is_some() {
        crash_point("during-restore")?;
    }
    for (at, operator) in task.chain.iter().enumerate() {
        let restored = |id: &OperatorId| {
            let state = spec.restored.as_ref()?.operators.get(id)?;
            state.get(&info.subtask.index).filter(|state| !state.is_empty()).cloned()
        };
        let mut open = OpenContext {
            name: operator.name.clone(),
            operator: operator.id,
            subtask: info.subtask.index,
            parallelism: task.parallelism,
            key_groups: operator.key_groups,
            restored: restored(&operator.id),
            restored_checkpoint: spec.restored.as_ref().map(|restored| restored.checkpoint),
            dry: false,
            store: store.clone(),
            backend: context.settings.backend.clone(),
            checkpointing: context.settings.checkpointing,
            job: context.settings.job,
            checkpoint_storage: context.settings.checkpoint_storage.clone(),
            file_access: context.settings.file_access,
            generation: spec.generation.0,
            clock: context.clock.clone(),
            waker: info.waker.clone(),
            pending_timers: context.settings.pending_timers,
            auto_watermark_interval: context.settings.auto_watermark_interval,
            watermark_each_batch: context.settings.watermark_each_batch,
            watermark_groups: attempt.flow.watermark_groups.clone(),
            counters: context.counters.clone(),
        };
        let last = at + 1 == task.chain.len();
        let (id, name, reach) = (operator.id, operator.name.clone(), operator.reach.clone());
        let named = |error: Error| {
            let what = format!("opening operator `{}` (subtask {})", operator.name, info.subtask.index);
            error.context(match spec.restored.as_deref() {
                Some(RestoredState { location: Some(location), .. }) => {
                    format!("{what} with its state from `{location}`")
                }
                Some(RestoredState { checkpoint, .. }) => {
                    format!("{what} with its state from checkpoint {checkpoint}")
                }
                None => what,
            })
        };
        match &operator.body {
            NodeBody::Source(factory) | NodeBody::SplitSource(factory, _) => {
                let source = catch("its code", || {
                    let mut source = factory()?;
                    source.open(&mut open)?;
                    Ok(source)
                });
                chain.add_source(id, name, reach, source.map_err(named)?, &task.outputs, last);
            }
            NodeBody::Operator(factory) => {
                let instance = catch("its code", || {
                    let mut instance = factory()?;
                    instance.open(&mut open)?;
                    Ok(instance)
                });
                chain.add_operator(id, name, reach, instance.map_err(named)?, &task.outputs, last);
            }
        }
    }
    Ok(chain)
}
