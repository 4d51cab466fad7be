//! State with a time to live, as its operator sees it: the sweep after each batch, and the counts.

use std::sync::Arc;

use stillstream_runtime::metrics::Counters;
use stillstream_state::KeyedBackend;

/// Counts what has expired, for the job's counters.
pub(crate) struct Expiry {
    counters: Arc<Counters>,
    /// For each state with a time to live the counter's name, and what was told so far.
    told: Vec<(String, u64)>,
}

impl Expiry {
    /// For the states that a backend has now; `operator`: its name. None if no state has a time to live.
    pub fn of(backend: &impl KeyedBackend, operator: &str, counters: &Arc<Counters>) -> Option<Self> {
        let told: Vec<(String, u64)> =
            backend.expired_entries().map(|(state, _)| (format!("{operator}.{state}.expired"), 0)).collect();
        (!told.is_empty()).then(|| Self { counters: counters.clone(), told })
    }

    /// Lets the sweep go on, and counts.
    pub fn sweep(&mut self, backend: &impl KeyedBackend) {
        backend.sweep_expired();
        // in the same order: no state is registered once the function is open
        for ((name, told), (_, expired)) in self.told.iter_mut().zip(backend.expired_entries()) {
            let total = expired.total();
            self.counters.add(name, total.saturating_sub(*told));
            *told = total;
        }
    }
}
