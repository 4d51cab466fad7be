//! Which states each operator of a plan has, found out without running it.
//!
//! One instance of each operator is opened on an empty backend in memory and asked for a snapshot, in whose
//! headers the states stand: so what is found is what a checkpoint would hold, for operators of users' own
//! too. Sources and sinks connect to nothing ([`OpenContext::dry`]). A function that reads files or calls
//! others in its own `open` does that here too.

use std::sync::Arc;

use stillstream_restore::{OperatorDescription, States, states_of};
use stillstream_state::{MemorySnapshotStore, StateError};
use stillstream_types::{CheckpointId, Result, SavepointFormat, SnapshotForm};

use super::{ChainedOperator, NodeBody, PhysicalPlan};
use crate::catch::catch;
use crate::clock::{Clock, SystemClock};
use crate::operator::{AsyncSnapshot, OpenContext};

/// Describes the operators of a plan, in its order. `failed` is told of each whose states cannot be found
/// out, with the reason.
pub(crate) fn describe(
    physical: &PhysicalPlan,
    mut failed: impl FnMut(stillstream_types::Error) -> Result<()>,
) -> Result<Vec<OperatorDescription>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let mut described = Vec::new();
    for task in &physical.tasks {
        for operator in &task.chain {
            let description = OperatorDescription {
                id: operator.id,
                uid: operator.uid.clone(),
                name: operator.name.to_string(),
                parallelism: task.parallelism,
                parallelism_is_set: operator.sets.parallelism,
                max_parallelism: operator.key_groups.max_parallelism(),
                max_parallelism_is_set: operator.sets.max_parallelism,
                needs_uid: operator.needs_uid,
                key: None,
                states: None,
            };
            described.push(match states(operator, task.parallelism, &clock) {
                Ok(states) => description.with_states(&states),
                Err(error) => {
                    let name = &operator.name;
                    failed(error.context(format!("opening operator `{name}` to see which states it has")))?;
                    description
                }
            });
        }
    }
    Ok(described)
}

fn states(operator: &ChainedOperator, parallelism: u32, clock: &Arc<dyn Clock>) -> Result<States> {
    let store = Arc::new(MemorySnapshotStore::unlimited());
    let (name, groups) = (&*operator.name, operator.key_groups);
    let mut context = OpenContext::by_hand(name, 0, parallelism, groups, store.clone(), clock.clone());
    (context.operator, context.dry) = (operator.id, true);
    let written = catch("its code", || {
        let snapshot = snapshot(&operator.body, &mut context)?;
        snapshot.map(|write| write(&*store)).transpose()
    })?;
    match written {
        None => Ok(States::default()),
        Some(written) => states_of([&written], &*store).map_err(StateError::into_error),
    }
}

fn snapshot(body: &NodeBody, context: &mut OpenContext) -> Result<Option<AsyncSnapshot>> {
    let (id, form) = (CheckpointId(1), SnapshotForm::Savepoint(SavepointFormat::Canonical));
    match body {
        NodeBody::Source(factory) | NodeBody::SplitSource(factory, _) => {
            let mut source = factory()?;
            source.open(context)?;
            source.snapshot(id, form)
        }
        NodeBody::Operator(factory) => {
            let mut operator = factory()?;
            operator.open(context)?;
            operator.snapshot(id, form)
        }
    }
}
