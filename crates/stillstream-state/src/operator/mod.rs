//! Operator state: it belongs to a subtask, not to a key. Always in memory (Flink's
//! `DefaultOperatorStateBackend`).
//!
//! A state is a list of items. When a job is restored, the items of all subtasks are dealt out anew: evenly
//! for a list, everything to everybody for a union list, one copy to everybody for a broadcast state. The
//! restore planner does that; this backend takes what it is given.

mod broadcast;
mod list;
mod snapshot;

pub use broadcast::BroadcastState;
pub use list::OperatorListState;
pub use snapshot::{FrozenOperatorState, RestoredOperatorState};

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{OperatorStateHandle, RedistributionMode, SubtaskIndex};

use crate::StateError;
use crate::data::{Compatibility, Data, DecodeError, Key, Schema};
use crate::kinds::MapEntries;
use snapshot::{FrozenItems, RestoredItems};

/// One registered state, its item type out of sight.
trait OperatorState {
    /// A copy of all items, to be encoded elsewhere.
    fn freeze(&self) -> Result<Box<dyn FrozenItems>, StateError>;
    /// Takes one stored item in; `migrate` is the stored schema if it is not the type's own.
    fn load(&self, item: &mut &[u8], migrate: Option<&Schema>) -> Result<(), DecodeError>;
}

struct Registered {
    mode: RedistributionMode,
    schema: Schema,
    state: Rc<dyn OperatorState>,
    typed: Rc<dyn Any>,
}

/// The operator state of one operator in one subtask.
///
/// ```
/// use stillstream_state::{MemorySnapshotStore, OperatorStateBackend};
/// use stillstream_types::SubtaskIndex;
///
/// let mut backend = OperatorStateBackend::new(SubtaskIndex(0));
/// let offsets = backend.list::<(u32, u64)>("offsets")?;
/// offsets.update(vec![(0, 17), (1, 4)])?;
///
/// let store = MemorySnapshotStore::default();
/// let handles = backend.freeze()?.write(&store, "offsets")?;
/// let mut again = OperatorStateBackend::new(SubtaskIndex(0));
/// again.restore(&handles, &store)?;
/// assert_eq!(again.list::<(u32, u64)>("offsets")?.get()?, [(0, 17), (1, 4)]);
/// # Ok::<(), stillstream_state::StateError>(())
/// ```
pub struct OperatorStateBackend {
    subtask: SubtaskIndex,
    registered: BTreeMap<String, Registered>,
    restored: RestoredOperatorState,
}

impl fmt::Debug for OperatorStateBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorStateBackend")
            .field("subtask", &self.subtask)
            .field("states", &self.registered.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl OperatorStateBackend {
    /// An empty backend of this subtask.
    pub fn new(subtask: SubtaskIndex) -> Self {
        Self { subtask, registered: BTreeMap::new(), restored: RestoredOperatorState::default() }
    }

    /// A list whose items are dealt out evenly on restore.
    pub fn list<T: Data>(&mut self, name: &str) -> Result<OperatorListState<T>, StateError> {
        self.register(name, RedistributionMode::Split, T::schema(), list::Items::<T>::new)
            .map(OperatorListState)
    }

    /// A list of which every subtask gets all items on restore. It must then keep its own part and drop the
    /// rest, or the state grows with every restore.
    pub fn union_list<T: Data>(&mut self, name: &str) -> Result<OperatorListState<T>, StateError> {
        self.register(name, RedistributionMode::Union, T::schema(), list::Items::<T>::new)
            .map(OperatorListState)
    }

    /// A map that is equal in all subtasks; each gets one copy on restore.
    pub fn broadcast<K: Key, V: Data>(&mut self, name: &str) -> Result<BroadcastState<K, V>, StateError> {
        let schema = MapEntries::<K, V>::schema();
        self.register(name, RedistributionMode::Broadcast, schema, broadcast::Entries::<K, V>::new)
            .map(BroadcastState)
    }

    fn register<S: OperatorState + 'static>(
        &mut self,
        name: &str,
        mode: RedistributionMode,
        schema: Schema,
        make: impl FnOnce(&str) -> S,
    ) -> Result<Rc<S>, StateError> {
        if let Some(known) = self.registered.get(name) {
            return match known.typed.clone().downcast::<S>() {
                Ok(state) if known.mode == mode && known.schema == schema => Ok(state),
                _ => Err(StateError::NameTaken {
                    name: name.into(),
                    registered: describe(known.mode, &known.schema),
                    wanted: describe(mode, &schema),
                }),
            };
        }
        let state = Rc::new(make(name));
        let registered = Registered { mode, schema, state: state.clone(), typed: state.clone() };
        for part in self.restored.states.get(name).into_iter().flatten() {
            load(name, &registered, part)?;
        }
        self.restored.states.remove(name);
        self.registered.insert(name.into(), registered);
        Ok(state)
    }

    /// The synchronous part of a snapshot: copies of all items.
    pub fn freeze(&self) -> Result<FrozenOperatorState, StateError> {
        let mut frozen = FrozenOperatorState::default();
        for (name, known) in &self.registered {
            frozen.add(name, known.mode, known.schema.to_bytes(), known.state.freeze()?);
        }
        for (name, parts) in &self.restored.states {
            // every subtask has all items of a union list: carried by each, they would multiply with each
            // restore
            let mine = |part: &&RestoredItems| {
                part.mode != RedistributionMode::Union || self.subtask == SubtaskIndex(0)
            };
            for part in parts.iter().filter(mine) {
                frozen.add(name, part.mode, part.schema.to_bytes(), Box::new(part.clone()));
            }
        }
        Ok(frozen)
    }

    /// Reads the items that the handles name, then takes them over. Blocks: where that must not be, call
    /// [`RestoredOperatorState::read`] elsewhere and [`take_over`](Self::take_over) here.
    pub fn restore(
        &mut self,
        handles: &[OperatorStateHandle],
        store: &dyn SnapshotStore,
    ) -> Result<(), StateError> {
        self.take_over(RestoredOperatorState::read(handles, store)?)
    }

    /// Takes over what was read. States that are registered are filled now, others when they are registered.
    pub fn take_over(&mut self, restored: RestoredOperatorState) -> Result<(), StateError> {
        for (name, parts) in restored.states {
            match self.registered.get(&name) {
                Some(known) => parts.iter().try_for_each(|part| load(&name, known, part))?,
                None => self.restored.states.entry(name).or_default().extend(parts),
            }
        }
        Ok(())
    }

    /// Names of states that came from a snapshot and are not registered. They go unchanged into the next
    /// snapshots.
    pub fn unregistered(&self) -> Vec<String> {
        self.restored.states.keys().cloned().collect()
    }
}

fn describe(mode: RedistributionMode, schema: &Schema) -> String {
    match mode {
        RedistributionMode::Split => format!("operator list state of `{schema}`"),
        RedistributionMode::Union => format!("union list state of `{schema}`"),
        RedistributionMode::Broadcast => format!("broadcast state of `{schema}`"),
    }
}

/// How an operator state is dealt out, and the type of its items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperatorStateMeta {
    /// How its items are dealt out.
    pub mode: RedistributionMode,
    /// The type of an item; `map<K, V>` for broadcast state.
    pub schema: Schema,
}

impl fmt::Display for OperatorStateMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(self.mode, &self.schema))
    }
}

impl OperatorStateMeta {
    /// Whether stored items can be read as this state's: as they are, or with their own schema.
    ///
    /// # Errors
    /// [`StateError::Incompatible`] for the state `name`, if they cannot.
    pub fn check(&self, name: &str, stored: &Self) -> Result<Compatibility, StateError> {
        check(name, (self.mode, &self.schema), (stored.mode, &stored.schema))
    }
}

type Form<'a> = (RedistributionMode, &'a Schema);

fn check(name: &str, wanted: Form<'_>, stored: Form<'_>) -> Result<Compatibility, StateError> {
    let incompatible = |why: String| StateError::Incompatible {
        name: name.into(),
        stored: describe(stored.0, stored.1),
        wanted: describe(wanted.0, wanted.1),
        why,
    };
    if stored.0 != wanted.0 {
        return Err(incompatible("the way in which a state is dealt out can't change".into()));
    }
    match wanted.1.compatible_with(stored.1) {
        Compatibility::Incompatible(why) => Err(incompatible(why)),
        allowed => Ok(allowed),
    }
}

fn load(name: &str, known: &Registered, part: &RestoredItems) -> Result<(), StateError> {
    let migrate = match check(name, (known.mode, &known.schema), (part.mode, &part.schema))? {
        Compatibility::AsIs => None,
        _ => Some(&part.schema),
    };
    for (at, item) in part.items().enumerate() {
        let mut input = item;
        let result = known.state.load(&mut input, migrate).and_then(|()| match input {
            [] => Ok(()),
            rest => {
                Err(DecodeError::Invalid { what: "item", why: format!("{} bytes are left over", rest.len()) })
            }
        });
        result.map_err(|error| StateError::Malformed {
            path: part.path.to_string(),
            part: format!("item {at} of state `{name}`"),
            why: error.to_string(),
        })?;
    }
    Ok(())
}
