//! Scheduling an operator from another thread.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use timely::scheduling::SyncActivator;

/// Schedules one operator. May be cloned and used on any thread, also after the operator is gone.
#[derive(Clone)]
pub struct Waker(Arc<Mutex<Option<SyncActivator>>>);

impl Waker {
    pub(crate) fn new(activator: SyncActivator) -> Self {
        Self(Arc::new(Mutex::new(Some(activator))))
    }

    /// A waker that wakes nothing: for tests that drive an operator by hand.
    pub fn idle() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }

    /// Schedules the operator soon.
    pub fn wake(&self) {
        let mut activator = self.0.lock();
        if activator.as_ref().is_some_and(|a| a.activate().is_err()) {
            *activator = None; // the worker is gone
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}
