//! State with a time to live, beyond what each backend's conformance tests: who cleans up, and when.

mod golden;
mod sweep;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use stillstream_heap::HeapKeyedStateBackend;
use stillstream_state::{CurrentKey, ExpiredEntries, Key, KeyedBackend, StateClock, StateTtlConfig};
use stillstream_types::KeyGroups;

pub(crate) type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

pub(crate) fn groups() -> KeyGroups {
    KeyGroups::new(128)
}

pub(crate) fn at(key: &u64) -> CurrentKey<'_> {
    CurrentKey::new(key, key.key_hash(groups()))
}

pub(crate) fn ttl(ms: u64) -> StateTtlConfig {
    StateTtlConfig::new(Duration::from_millis(ms))
}

/// A clock that only the test moves.
#[derive(Clone, Default)]
pub(crate) struct TestClock {
    now: Arc<AtomicI64>,
}

impl TestClock {
    pub(crate) fn set(&self, now_ms: i64) {
        self.now.store(now_ms, SeqCst);
    }

    pub(crate) fn give(&self, backend: &mut HeapKeyedStateBackend<u64>) {
        let of_backend = self.clone();
        backend.set_clock(StateClock::new(move || of_backend.now.load(SeqCst)));
    }
}

pub(crate) fn expired(backend: &HeapKeyedStateBackend<u64>, name: &str) -> ExpiredEntries {
    backend
        .expired_entries()
        .find(|(state, _)| *state == name)
        .map(|(_, expired)| expired)
        .unwrap_or_default()
}
