//! The compaction filter: a compaction leaves out what has expired.
//!
//! It looks at whole values only. An item that was appended to a list is an operand of a merge until a
//! compaction has put the list together; the next one then finds it in a value. What it leaves out becomes a
//! deletion, so no older version comes back.
//!
//! Newer versions of an entry may lie in memory tables or in the hot entries in front of the database: they
//! hide the one that the filter sees, whatever becomes of it.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rust_rocksdb::compaction_filter::CompactionFilter;
use rust_rocksdb::compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory};
use rust_rocksdb::{CompactionDecision, Options};
use stillstream_config::CompactionStyle;
use stillstream_data::Key;
use stillstream_state::StateError;
use stillstream_state::StateMeta;
use stillstream_state::ttl::{Rule, Sift, Sifted};

use crate::backend::RocksDbKeyedStateBackend;
use crate::options::RocksDbOptions;

const NAME: &CStr = c"stillstream.ttl";

/// Where the filters of a state find its rule. It is not known before the program registers the state, which
/// a restored database has already.
type Slot = Arc<OnceLock<Arc<Rule>>>;

/// The rules of a database's states.
#[derive(Debug, Default)]
pub(crate) struct Filters(Mutex<BTreeMap<String, Slot>>);

impl Filters {
    fn slot(&self, state: &str) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slots.entry(state.into()).or_default().clone()
    }

    /// From now on compactions filter by this rule.
    pub fn set(&self, state: &str, rule: &Arc<Rule>) {
        if rule.config.compaction().is_some() {
            // the first registration's is that of all later ones
            let _ = self.slot(state).set(rule.clone());
        }
    }

    /// Adds to the options of a state's column family what a time to live needs.
    pub fn apply(&self, meta: &StateMeta, given: &RocksDbOptions, options: &mut Options) {
        let Some(sift) = Sift::with_maps_apart(meta) else { return };
        let (slot, query_time_after) = (self.slot(&meta.name), given.ttl_query_time_after);
        options.set_compaction_filter_factory(Factory { slot, sift, query_time_after });
        if given.compaction != Some(CompactionStyle::Fifo) {
            // with first in, first out it would delete whole files, whatever lives in them
            options.set_periodic_compaction_seconds(given.ttl_periodic_compaction.as_secs());
        }
    }
}

/// States with a time to live.
impl<K: Key> RocksDbKeyedStateBackend<K> {
    /// A registered state has a time to live: from now on compactions know it.
    pub(crate) fn expires<S>(&self, name: &str, rule: &Arc<Rule>, state: Rc<S>) -> Result<Rc<S>, StateError> {
        if let Some((_, known)) = self.registered.get(name) {
            known.family.database().filters.set(name, rule);
            let age = rule.config.compaction().and_then(|cleanup| cleanup.periodic);
            if let Some(age) = age.filter(|_| self.tuning.options.compaction != Some(CompactionStyle::Fifo)) {
                known.family.compact_periodically(age)?;
            }
        }
        Ok(state)
    }
}

/// Makes a filter for each compaction.
struct Factory {
    slot: Slot,
    sift: Sift,
    query_time_after: u64,
}

impl CompactionFilterFactory for Factory {
    type Filter = Filter;

    fn create(&mut self, _: CompactionFilterContext) -> Filter {
        let rule = self.slot.get().cloned();
        let own = rule.as_ref().and_then(|rule| rule.config.compaction()?.query_time_after);
        let query_time_after = own.unwrap_or(self.query_time_after).max(1);
        Filter {
            rule,
            sift: self.sift.clone(),
            query_time_after,
            until: 0,
            cutoff: 0,
            removed: 0,
            rest: Vec::new(),
        }
    }

    fn name(&self) -> &CStr {
        NAME
    }
}

/// Filters the entries of one compaction, on one thread.
struct Filter {
    rule: Option<Arc<Rule>>,
    sift: Sift,
    query_time_after: u64,
    /// Entries until the time is asked for again.
    until: u64,
    cutoff: i64,
    removed: u64,
    /// What is left of a list.
    rest: Vec<u8>,
}

impl Drop for Filter {
    fn drop(&mut self) {
        if let Some(rule) = &self.rule {
            rule.by_compaction.fetch_add(self.removed, Relaxed);
        }
    }
}

impl CompactionFilter for Filter {
    fn filter(&mut self, _: u32, _: &[u8], value: &[u8]) -> CompactionDecision {
        let Some(rule) = &self.rule else { return CompactionDecision::Keep };
        if self.until == 0 {
            self.until = self.query_time_after;
            self.cutoff = rule.cutoff();
        }
        self.until -= 1;
        match self.sift.sift(value, self.cutoff, &mut self.rest) {
            Ok(Sifted::All) => CompactionDecision::Keep,
            Ok(Sifted::Nothing(parts)) => {
                self.removed += parts;
                CompactionDecision::Remove
            }
            Ok(Sifted::Less(parts)) => {
                self.removed += parts;
                // SAFETY: RocksDB copies the bytes when this call returns
                // (`rocksdb_compactionfilter_t::Filter` assigns them to a string of its own), and this filter
                // writes to them in its next call only. No other caller is there: the type is private to this
                // file.
                let rest = unsafe { std::mem::transmute::<&[u8], &'static [u8]>(&self.rest) };
                CompactionDecision::Change(rest)
            }
            // whoever reads it is told
            Err(_) => CompactionDecision::Keep,
        }
    }

    fn name(&self) -> &CStr {
        NAME
    }
}
