//! Values with a time to live; reducing and aggregating state are values with a function.

use std::rc::Rc;
use std::sync::Arc;

use super::{Rule, Stamped};
use crate::kinds::{CurrentKey, ValueStore};
use crate::{Data, StateError};

/// A store of values over one of stamped values.
pub(super) struct ExpiringValue<V> {
    pub store: Rc<dyn ValueStore<Stamped<V>>>,
    pub rule: Arc<Rule>,
}

/// A read within a function that looks at the same state finds the store held: what it would tidy up is left
/// to the next read. Says whether it was done.
pub(super) fn unless_in_use(result: Result<(), StateError>) -> Result<bool, StateError> {
    match result {
        Ok(()) => Ok(true),
        Err(StateError::InUse { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

impl<V: Data> ValueStore<V> for ExpiringValue<V> {
    fn get(&self, key: CurrentKey<'_>) -> Result<Option<V>, StateError> {
        let mut found = None;
        self.read(key, &mut |value| found = value.cloned())?;
        Ok(found)
    }

    fn read(&self, key: CurrentKey<'_>, f: &mut dyn FnMut(Option<&V>)) -> Result<(), StateError> {
        let (now, config) = (self.rule.access(), &self.rule.config);
        let cutoff = self.rule.cutoff_at(now);
        let (mut expired, mut touched) = (false, None);
        self.store.read(key, &mut |stamped| {
            let Some(stamped) = stamped else { return f(None) };
            expired = stamped.touched <= cutoff;
            if !expired && stamped.touched < now && config.touches_on_read() {
                touched = Some(Stamped { touched: now, value: stamped.value.clone() });
            }
            f((!expired || config.shows_expired()).then_some(&stamped.value));
        })?;
        if expired && unless_in_use(self.store.clear(key))? {
            self.rule.met_expired(1);
        }
        if let Some(touched) = touched {
            unless_in_use(self.store.set(key, touched))?;
        }
        Ok(())
    }

    fn set(&self, key: CurrentKey<'_>, value: V) -> Result<(), StateError> {
        self.store.set(key, Stamped { touched: self.rule.access(), value })
    }

    fn update(
        &self,
        key: CurrentKey<'_>,
        init: &mut dyn FnMut() -> V,
        f: &mut dyn FnMut(&mut V),
    ) -> Result<(), StateError> {
        let now = self.rule.access();
        let cutoff = self.rule.cutoff_at(now);
        // both need it, and at most one of them runs it
        let init = std::cell::RefCell::new(init);
        self.store.update(
            key,
            &mut || Stamped { touched: now, value: (init.borrow_mut())() },
            &mut |stamped| {
                if stamped.touched <= cutoff && !self.rule.config.shows_expired() {
                    stamped.value = (init.borrow_mut())();
                    self.rule.met_expired(1);
                }
                stamped.touched = now;
                f(&mut stamped.value);
            },
        )
    }

    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError> {
        self.rule.access();
        self.store.clear(key)
    }
}
