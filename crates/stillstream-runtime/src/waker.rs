//! Scheduling an operator from another thread.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use timely::scheduling::SyncActivator;

/// Schedules one operator. May be cloned and used on any thread, also after the operator is gone.
#[derive(Clone)]
pub struct Waker(Arc<Mutex<Wakes>>);

/// What is woken.
enum Wakes {
    Operator(SyncActivator),
    ByHand(Box<dyn Fn() + Send + Sync>),
    Nothing,
}

impl Waker {
    pub(crate) fn new(activator: SyncActivator) -> Self {
        Self(Arc::new(Mutex::new(Wakes::Operator(activator))))
    }

    /// A waker that calls `f`: for a driver that runs an operator by hand and waits for others.
    pub fn by_hand(f: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(Mutex::new(Wakes::ByHand(Box::new(f)))))
    }

    /// A waker that wakes nothing: for tests that drive an operator by hand.
    pub fn idle() -> Self {
        Self(Arc::new(Mutex::new(Wakes::Nothing)))
    }

    /// Schedules the operator soon.
    pub fn wake(&self) {
        let mut wakes = self.0.lock();
        match &*wakes {
            Wakes::Operator(activator) if activator.activate().is_err() => *wakes = Wakes::Nothing, // the worker is gone
            Wakes::ByHand(f) => f(),
            Wakes::Operator(_) | Wakes::Nothing => {}
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}
