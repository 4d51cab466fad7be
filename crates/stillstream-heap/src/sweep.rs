//! The sweep: a cursor that goes through a table in memory, some entries at a time, and removes what has
//! expired.
//!
//! So keys that are never read again go away too, and their memory is used again.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use stillstream_data::Key;
use stillstream_state::ttl::{Expire, Rule};
use stillstream_table::Fate;

use crate::keyed::KeyedTable;

/// At least so many entries are looked at, if there are accesses at all: a page of small entries.
const LEAST: u64 = 128;

/// One state that is swept, its types out of sight.
pub(crate) trait Sweep {
    /// Looks at some more entries, as many as the accesses since the last call allow.
    fn sweep(&self);
}

/// The place that the sweep of one table has reached.
pub(crate) struct Sweeper<K, V> {
    pub table: Rc<KeyedTable<K, V>>,
    pub rule: Arc<Rule>,
    at: Cell<u64>,
}

impl<K, V> Sweeper<K, V> {
    pub fn new(table: Rc<KeyedTable<K, V>>, rule: Arc<Rule>) -> Self {
        Self { table, rule, at: Cell::new(0) }
    }
}

impl<K: Key, V: Expire> Sweep for Sweeper<K, V> {
    fn sweep(&self) {
        let (accesses, Some(each)) = (self.rule.take_accesses(), self.rule.config.swept_per_access()) else {
            return;
        };
        // held by the user's function: there is another batch
        let Ok(mut cells) = self.table.cells_mut() else { return };
        if accesses == 0 || cells.len() == 0 {
            return;
        }
        let (cutoff, mut removed, mut at) = (self.rule.cutoff(), 0, self.at.get());
        let most = accesses.saturating_mul(each.into()).max(LEAST);
        cells.sweep(
            &mut at,
            usize::try_from(most).unwrap_or(usize::MAX),
            |_, value| {
                let (expired, live) = value.expired(cutoff);
                removed += expired;
                match (expired, live) {
                    (0, _) => Fate::Stays,
                    (_, 0) => Fate::Goes,
                    _ => Fate::Changes,
                }
            },
            |value| value.trim(cutoff),
        );
        self.at.set(at);
        self.rule.by_sweep.fetch_add(removed, Relaxed);
    }
}
