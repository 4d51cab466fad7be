//! Holds threads until the test lets them go.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a test may wait before it is said to hang.
const DEADLINE: Duration = Duration::from_secs(30);

/// A gate that is closed at first. Clones are the same gate.
///
/// ```
/// use stillstream_testing::Gate;
/// let gate = Gate::new();
/// std::thread::scope(|scope| {
///     let held = scope.spawn(|| gate.pass());
///     gate.wait_for_arrival();
///     assert!(!held.is_finished());
///     gate.open();
/// });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    open: bool,
    arrived: u64,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the gate is open.
    pub fn pass(&self) {
        let mut state = self.state();
        state.arrived += 1;
        self.0.1.notify_all();
        while !state.open {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until a thread has come to the gate.
    ///
    /// # Panics
    /// When none came within 30 seconds.
    pub fn wait_for_arrival(&self) {
        let waiting = self.0.1.wait_timeout_while(self.state(), DEADLINE, |state| state.arrived == 0);
        let (_state, timeout) = waiting.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "no thread came to the gate within {DEADLINE:?}");
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.state().open = true;
        self.0.1.notify_all();
    }
}
