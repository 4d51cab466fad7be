//! Maps whose entries have a time to live each.

use std::rc::Rc;
use std::sync::Arc;

use super::value::unless_in_use;
use super::{Rule, Stamped};
use crate::StateError;
use crate::kinds::{CurrentKey, MapStore};

/// A store of maps over one of maps with stamped values.
pub(super) struct ExpiringMap<MK, MV> {
    pub store: Rc<dyn MapStore<MK, Stamped<MV>>>,
    pub rule: Arc<Rule>,
}

impl<MK: Clone, MV: Clone> ExpiringMap<MK, MV> {
    fn remove_expired(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<(), StateError> {
        if unless_in_use(self.store.remove(key, map_key))? {
            self.rule.met_expired(1);
        }
        Ok(())
    }

    /// Puts entries again that a read has touched.
    fn touch(&self, key: CurrentKey<'_>, now: i64, entries: Vec<(MK, MV)>) -> Result<(), StateError> {
        let stamped = entries.into_iter().map(|(map_key, value)| (map_key, Stamped { touched: now, value }));
        unless_in_use(self.store.put_all(key, &mut { stamped })).map(drop)
    }
}

impl<MK: Clone, MV: Clone> MapStore<MK, MV> for ExpiringMap<MK, MV> {
    fn get(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<Option<MV>, StateError> {
        let (now, config) = (self.rule.access(), &self.rule.config);
        let Some(Stamped { touched, value }) = self.store.get(key, map_key)? else { return Ok(None) };
        if touched <= self.rule.cutoff_at(now) {
            self.remove_expired(key, map_key)?;
            return Ok(config.shows_expired().then_some(value));
        }
        if touched < now && config.touches_on_read() {
            self.touch(key, now, vec![(map_key.clone(), value.clone())])?;
        }
        Ok(Some(value))
    }

    fn put_all(
        &self,
        key: CurrentKey<'_>,
        entries: &mut dyn Iterator<Item = (MK, MV)>,
    ) -> Result<(), StateError> {
        let touched = self.rule.access();
        self.store.put_all(key, &mut entries.map(|(map_key, value)| (map_key, Stamped { touched, value })))
    }

    fn remove(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<(), StateError> {
        self.rule.access();
        self.store.remove(key, map_key)
    }

    fn contains(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<bool, StateError> {
        Ok(self.get(key, map_key)?.is_some())
    }

    fn for_each(&self, key: CurrentKey<'_>, f: &mut dyn FnMut(&MK, &MV)) -> Result<(), StateError> {
        let (now, config) = (self.rule.access(), &self.rule.config);
        let cutoff = self.rule.cutoff_at(now);
        let (mut expired, mut touched) = (Vec::new(), Vec::new());
        self.store.for_each(key, &mut |map_key, stamped| {
            let is_expired = stamped.touched <= cutoff;
            if is_expired {
                expired.push(map_key.clone());
            } else if stamped.touched < now && config.touches_on_read() {
                touched.push((map_key.clone(), stamped.value.clone()));
            }
            if !is_expired || config.shows_expired() {
                f(map_key, &stamped.value);
            }
        })?;
        expired.iter().try_for_each(|map_key| self.remove_expired(key, map_key))?;
        match touched.is_empty() {
            true => Ok(()),
            false => self.touch(key, now, touched),
        }
    }

    fn is_empty(&self, key: CurrentKey<'_>) -> Result<bool, StateError> {
        if self.store.is_empty(key)? {
            self.rule.access();
            return Ok(true);
        }
        let mut is_empty = true;
        self.for_each(key, &mut |_, _| is_empty = false)?;
        Ok(is_empty)
    }

    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError> {
        self.rule.access();
        self.store.clear(key)
    }
}
