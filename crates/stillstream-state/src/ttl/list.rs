//! Lists whose items have a time to live each.

use std::rc::Rc;
use std::sync::Arc;

use super::value::unless_in_use;
use super::{Rule, Stamped};
use crate::StateError;
use crate::kinds::{CurrentKey, ListStore};

/// A store of lists over one of lists of stamped items.
pub(super) struct ExpiringList<V> {
    pub store: Rc<dyn ListStore<Stamped<V>>>,
    pub rule: Arc<Rule>,
}

impl<V: Clone> ListStore<V> for ExpiringList<V> {
    fn get(&self, key: CurrentKey<'_>) -> Result<Vec<V>, StateError> {
        let (now, config) = (self.rule.access(), &self.rule.config);
        let cutoff = self.rule.cutoff_at(now);
        let items = self.store.get(key)?;
        let live = items.iter().filter(|item| item.touched > cutoff);
        let expired = items.len() - live.clone().count();
        let touches = config.touches_on_read() && live.clone().any(|item| item.touched < now);
        if expired > 0 || touches {
            let stamp = |item: &Stamped<V>| match touches {
                true => Stamped { touched: now, value: item.value.clone() },
                false => item.clone(),
            };
            if unless_in_use(self.store.update(key, live.map(stamp).collect()))? {
                self.rule.met_expired(expired as u64);
            }
        }
        let seen = items.into_iter().filter(|item| item.touched > cutoff || config.shows_expired());
        Ok(seen.map(|item| item.value).collect())
    }

    fn add_all(&self, key: CurrentKey<'_>, values: &mut dyn Iterator<Item = V>) -> Result<(), StateError> {
        let touched = self.rule.access();
        self.store.add_all(key, &mut values.map(|value| Stamped { touched, value }))
    }

    fn update(&self, key: CurrentKey<'_>, values: Vec<V>) -> Result<(), StateError> {
        let touched = self.rule.access();
        self.store.update(key, values.into_iter().map(|value| Stamped { touched, value }).collect())
    }

    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError> {
        self.rule.access();
        self.store.clear(key)
    }
}
