//! [`Rule`]: what the time to live of one state means at a moment; and the clock and the counts that go with
//! it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::StateTtlConfig;
use crate::StateError;

/// Tells the processing time by which state expires: milliseconds since 1970.
#[derive(Clone)]
pub struct StateClock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl StateClock {
    /// A clock that asks this function, from any thread. It must not panic.
    pub fn new(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_ms))
    }

    /// The machine's clock: what a backend has until it is given another.
    #[expect(
        clippy::disallowed_methods,
        reason = "for backends outside of a job; a job gives them its own clock"
    )]
    pub fn system() -> Self {
        use std::time::{SystemTime, UNIX_EPOCH};
        Self::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64))
    }

    /// The time now.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        (self.0)()
    }
}

impl fmt::Debug for StateClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateClock")
    }
}

/// How many values, list items and map entries of a state were removed because they had expired, by what
/// removed them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpiredEntries {
    /// By a read or an update that met them.
    pub on_access: u64,
    /// By the sweep through state in memory.
    pub by_sweep: u64,
    /// By compactions in RocksDB. Older versions of a value that lie in other files count too.
    pub by_compaction: u64,
}

impl ExpiredEntries {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.on_access + self.by_sweep + self.by_compaction
    }
}

/// The time to live of one state. Compactions read it on RocksDB's threads.
#[derive(Debug)]
pub struct Rule {
    /// What the program has set.
    pub config: StateTtlConfig,
    ttl_ms: i64,
    clock: StateClock,
    on_access: AtomicU64,
    /// Parts that a sweep has removed so far.
    pub by_sweep: AtomicU64,
    /// Parts that compactions have removed so far.
    pub by_compaction: AtomicU64,
    /// Since the last sweep.
    accesses: AtomicU64,
}

impl Rule {
    /// The time of an access of the state.
    #[inline]
    pub fn access(&self) -> i64 {
        // only the worker counts: no need for one step
        self.accesses.store(self.accesses.load(Relaxed) + 1, Relaxed);
        self.clock.now_ms()
    }

    /// An access has met and removed so many.
    pub fn met_expired(&self, n: u64) {
        self.on_access.fetch_add(n, Relaxed);
    }

    /// The number of accesses since this was last asked.
    pub fn take_accesses(&self) -> u64 {
        self.accesses.swap(0, Relaxed)
    }

    /// What was last touched at this time or earlier has expired at `now`.
    #[inline]
    pub fn cutoff_at(&self, now: i64) -> i64 {
        now.saturating_sub(self.ttl_ms)
    }

    /// [`cutoff_at`](Self::cutoff_at) the present.
    pub fn cutoff(&self) -> i64 {
        self.cutoff_at(self.clock.now_ms())
    }

    /// What was removed so far.
    pub fn expired(&self) -> ExpiredEntries {
        ExpiredEntries {
            on_access: self.on_access.load(Relaxed),
            by_sweep: self.by_sweep.load(Relaxed),
            by_compaction: self.by_compaction.load(Relaxed),
        }
    }
}

/// The rules of a backend's states.
#[derive(Debug)]
pub struct Rules {
    /// Tells the time by which state expires.
    pub clock: StateClock,
    by_state: BTreeMap<String, Arc<Rule>>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { clock: StateClock::system(), by_state: BTreeMap::new() }
    }
}

impl Rules {
    /// The rule of a state for this configuration: the one that it has, or a new one, to be
    /// [kept](Self::keep) when the state is registered.
    pub fn rule(&self, name: &str, config: &StateTtlConfig) -> Result<Arc<Rule>, StateError> {
        let ttl_ms = config.checked(name)?;
        match self.by_state.get(name) {
            Some(known) if known.config == *config => Ok(known.clone()),
            Some(known) => Err(StateError::NameTaken {
                name: name.into(),
                registered: format!("state with {:?}", known.config),
                wanted: format!("state with {config:?}"),
            }),
            None => Ok(Arc::new(Rule {
                config: config.clone(),
                ttl_ms,
                clock: self.clock.clone(),
                on_access: AtomicU64::new(0),
                by_sweep: AtomicU64::new(0),
                by_compaction: AtomicU64::new(0),
                accesses: AtomicU64::new(0),
            })),
        }
    }

    /// Keeps the rule of a state that is registered now, unless it has one.
    pub fn keep(&mut self, name: &str, rule: &Arc<Rule>) {
        self.by_state.entry(name.into()).or_insert_with(|| rule.clone());
    }

    /// The rule of a state, if it has a time to live.
    pub fn get(&self, name: &str) -> Option<&Arc<Rule>> {
        self.by_state.get(name)
    }

    /// What has expired so far, by state.
    pub fn expired(&self) -> impl Iterator<Item = (&str, ExpiredEntries)> {
        self.by_state.iter().map(|(name, rule)| (name.as_str(), rule.expired()))
    }
}
