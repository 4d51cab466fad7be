//! [`Registry`]: the states of one backend by name.

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::{StateError, StateMeta};

/// The registered states of a backend, in the order of their names: of each, what the backend needs to know
/// of it (`S`) with its types out of sight, and the state itself for the next registration under its name.
pub struct Registry<S>(BTreeMap<String, Registered<S>>);

struct Registered<S> {
    meta: StateMeta,
    state: S,
    typed: Rc<dyn Any>,
}

impl<S> std::fmt::Debug for Registry<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.values().map(|known| &known.meta)).finish()
    }
}

impl<S> Default for Registry<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S> Registry<S> {
    /// The state that was registered under this name before.
    ///
    /// # Errors
    /// If it was registered with another kind or other types.
    pub fn find<T: 'static>(&self, meta: &StateMeta) -> Result<Option<Rc<T>>, StateError> {
        let Some(known) = self.0.get(&meta.name) else { return Ok(None) };
        match known.typed.clone().downcast::<T>() {
            Ok(state) if known.meta == *meta => Ok(Some(state)),
            _ => Err(StateError::NameTaken {
                name: meta.name.clone(),
                registered: known.meta.to_string(),
                wanted: meta.to_string(),
            }),
        }
    }

    /// Registers a state that [`find`](Self::find) did not find.
    pub fn add<T: 'static>(&mut self, meta: StateMeta, typed: &Rc<T>, state: S) {
        let typed: Rc<dyn Any> = typed.clone();
        self.0.insert(meta.name.clone(), Registered { meta, state, typed });
    }

    /// The state under a name.
    pub fn get(&self, name: &str) -> Option<(&StateMeta, &S)> {
        self.0.get(name).map(|known| (&known.meta, &known.state))
    }

    /// Whether there is a state under this name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// All states in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&StateMeta, &S)> {
        self.0.values().map(|known| (&known.meta, &known.state))
    }

    /// All states in the order of their names, without what describes them.
    #[inline]
    pub fn states(&self) -> impl Iterator<Item = &S> {
        self.0.values().map(|known| &known.state)
    }
}
