//! Operator state over many restores: split lists, union lists and broadcast copies stay as long as they are.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use stillstream::connect::{SourceContext, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};
use stillstream_storage::{RetainedCheckpoint, StorageOptions};

use crate::program::*;

/// More than there are subtasks, and no multiple of their number.
const SPLITS: u64 = 27;
const PARALLELISM: u32 = 8;

/// Splits of numbers that never end; a position is how many of them were read.
#[derive(Clone, Default)]
struct Splits(Arc<Mutex<Vec<(u64, u64)>>>);

struct Reader {
    assigned: Splits,
    splits: Vec<(u64, u64)>,
    context: SourceContext,
}

impl SplitSource for Splits {
    type Item = u64;
    type Split = (u64, u64);
    fn splits(&self) -> Result<Vec<(u64, u64)>> {
        Ok((0..SPLITS).map(|split| (split, 0)).collect())
    }
    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<u64, (u64, u64)>>> {
        let (assigned, context) = (self.clone(), context.clone());
        Ok(Box::new(Reader { assigned, splits: Vec::new(), context }))
    }
}

impl SplitReader<u64, (u64, u64)> for Reader {
    fn assign(&mut self, splits: Vec<(u64, u64)>) -> Result<()> {
        self.assigned.0.lock().unwrap().extend(&splits);
        self.splits = splits;
        Ok(())
    }
    fn poll(&mut self, _: usize, out: &mut Batch<u64>) -> Result<SourceStatus> {
        for (split, position) in &mut self.splits {
            out.push(*split, None);
            *position += 1;
        }
        Ok(SourceStatus::Idle { until_ms: Some(self.context.clock.now_ms() + 1) })
    }
    fn positions(&self) -> Vec<(u64, u64)> {
        self.splits.clone()
    }
}

/// Keeps each rule that it hears of, in every subtask.
struct Rules {
    known: BroadcastState<u64, u64>,
}

impl BroadcastProcess for Rules {
    type Key = u64;
    type In = u64;
    type Rule = u64;
    type Out = u64;
    fn open(_: &mut KeyedStates<u64>, broadcasts: &mut BroadcastStates) -> Result<Self> {
        Ok(Self { known: broadcasts.map("rules")? })
    }
    fn process(&mut self, _: u64, _: &mut KeyedContext<u64, u64>) -> Result<()> {
        Ok(())
    }
    fn process_broadcast(&mut self, rule: u64, _: &mut BroadcastContext<u64>) -> Result<()> {
        Ok(self.known.put(rule, rule)?)
    }
}

/// How many entries each state of the operators has, over all subtasks, by operator and state.
fn entries(path: &Path) -> BTreeMap<String, usize> {
    let opened = RetainedCheckpoint::open(path.to_str().unwrap(), &StorageOptions::default()).unwrap();
    let mut found = BTreeMap::new();
    for operator in &opened.metadata().operators {
        for handle in operator.subtasks.values().flat_map(|subtask| &subtask.operator) {
            for (name, entry) in &handle.states {
                *found.entry(format!("{} {name}", operator.name)).or_default() += entry.offsets.len();
            }
        }
    }
    found
}

#[test]
fn operator_state_that_is_restored_thirty_times_neither_grows_nor_loses_anything() {
    let place = Place::new();
    let (mut from, mut before): (Option<std::path::PathBuf>, BTreeMap<u64, u64>) = Default::default();
    let (mut counted, mut sizes) = (Vec::new(), Vec::new());
    for round in 0..=30 {
        let mut env = place.env();
        env.set_parallelism(PARALLELISM);
        if let Some(from) = &from {
            env.restore_from(from.to_str().unwrap());
        }
        let splits = Splits::default();
        let rules = env.from_collection(0..10u64).uid("rule source");
        env.from_source("splits", splits.clone())
            .uid("splits")
            .key_by(|split| *split)
            .connect_broadcast(&rules)
            .process::<Rules>()
            .uid("rules")
            .discard();
        let taken = take(&env, "lists", 2 * SPLITS);
        let assigned = splits.0.lock().unwrap().clone();
        assert_eq!(assigned.len() as u64, SPLITS, "round {round}: each split has one reader");
        let now: BTreeMap<u64, u64> = assigned.into_iter().collect();
        assert_eq!(now.len() as u64, SPLITS, "round {round}: a split has two readers");
        // nobody reads again what was read before the checkpoint
        let later = before.iter().all(|(split, position)| now[split] >= *position);
        let read = |positions: &BTreeMap<u64, u64>| positions.values().sum::<u64>();
        assert!(later && read(&now) >= read(&before), "round {round}: {before:?} {now:?}");
        assert!(round == 0 || read(&now) > 0, "round {round}: {now:?}");
        before = now;
        counted.push(entries(&taken));
        sizes.push(std::fs::metadata(taken.join("_metadata")).unwrap().len());
        from = Some(taken);
    }
    // the first checkpoint may have been taken before all rules had come
    let last = &counted[30];
    assert!(last.values().any(|count| *count as u64 == SPLITS), "{last:?}");
    assert!(last.values().any(|count| *count == 10 * PARALLELISM as usize), "{last:?}");
    assert!(counted[2..].iter().all(|counts| counts == last), "{counted:?}");
    let (least, most) = (sizes[2..].iter().min().unwrap(), sizes[2..].iter().max().unwrap());
    assert!(most * 100 <= least * 105, "{sizes:?}");
}
