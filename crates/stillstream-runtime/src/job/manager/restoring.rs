//! What an attempt starts from: it is read and divided among the subtasks off this thread, and then handed to
//! the workers.

use stillstream_jobmaster::{
    AttemptSpec, JobEvent, OperatorInfo, RestoreFrom, RestoredState, TaskInfo, plan_restore,
};
use stillstream_types::{Generation, SubtaskId, SubtaskIndex, Timestamp};

use super::*;
use crate::job::enumerators::{EnumeratorSetup, Enumerators};

/// The operators of a plan, as checkpoints know them.
fn operators(physical: &PhysicalPlan) -> Vec<OperatorInfo> {
    physical.tasks.iter().flat_map(operators_of).collect()
}

fn operators_of(task: &crate::plan::Task) -> Vec<OperatorInfo> {
    let info = |operator: &crate::plan::ChainedOperator| OperatorInfo {
        id: operator.id,
        uid: operator.uid.clone(),
        name: operator.name.to_string(),
        parallelism: task.parallelism,
        max_parallelism: operator.key_groups.max_parallelism(),
    };
    task.chain.iter().map(info).collect()
}

/// The subtasks of a plan, as the engine knows them.
pub(crate) fn tasks(physical: &PhysicalPlan) -> Vec<TaskInfo> {
    let subtasks = |task: &crate::plan::Task| {
        let (operators, name) = (operators_of(task), task.name.to_string());
        let (vertex, is_source) = (task.vertex, task.is_source());
        let info = move |index| TaskInfo {
            id: SubtaskId { vertex, index: SubtaskIndex(index) },
            name: name.clone(),
            operators: operators.clone(),
            is_source,
        };
        (0..task.parallelism).map(info)
    };
    physical.tasks.iter().flat_map(subtasks).collect()
}

impl Manager {
    pub(super) fn read_snapshot(&mut self, generation: Generation, from: RestoreFrom) {
        let (checkpoints, operators) = (self.checkpoints.clone(), operators(&self.physical));
        let neighbours = self.state.neighbours.clone();
        self.io.run(move || {
            let read = || -> Result<Option<RestoredState>> {
                let (metadata, location) = match from {
                    RestoreFrom::Own(own) => checkpoints.read_own(&own)?,
                    RestoreFrom::Snapshot(location) => (checkpoints.read_foreign(&location)?, Some(location)),
                    RestoreFrom::Nothing => {
                        // for the line that says that the job starts empty
                        neighbours.get_or_init(|| checkpoints.neighbours());
                        return Ok(None);
                    }
                };
                let kind = |error| Error::wrap(ErrorKind::Configuration, error);
                // what is left behind was refused or allowed before the job was started
                let plan = plan_restore(&metadata, &operators, true).map_err(kind)?;
                let of = |states: Vec<_>| (0..).map(SubtaskIndex).zip(states).collect();
                let operators = plan.operators.into_iter().map(|(id, states)| (id, of(states))).collect();
                let (checkpoint, enumerators) = (metadata.id, plan.enumerators);
                Ok(Some(RestoredState { checkpoint, location, operators, enumerators }))
            };
            JobEvent::Restored { generation, result: read() }
        });
    }

    pub(super) fn deploy(&mut self, spec: AttemptSpec) -> Option<JobEvent> {
        self.say_start(spec.restored.as_deref());
        let at = Timestamp::from_millis(self.clock.now_ms());
        self.state.restored = spec.restored.as_deref().map(|restored| RestoredFrom {
            checkpoint: restored.checkpoint,
            location: restored.location.clone(),
            at,
        });
        self.shared.event_times.lock().clear();
        let generation = spec.generation;
        let setup = EnumeratorSetup {
            physical: &self.physical,
            stores: &self.stores,
            clock: &self.clock,
            counters: &self.counters,
            messages: self.io.answers(),
        };
        self.state.enumerators.end();
        let started = Enumerators::start(&setup, &spec).and_then(|enumerators| {
            self.state.enumerators = enumerators;
            self.fleet.start(spec)
        });
        let error = started.err()?;
        self.state.enumerators.end();
        Some(JobEvent::NotDeployed { generation, error })
    }
}
