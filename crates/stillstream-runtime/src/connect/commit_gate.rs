//! [`CommitGate`]: commits of an attempt that is over do not run beside those of the next one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A thread that waits looks at least this often whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct State {
    generation: u64,
    /// Grows with each new generation, also when that is started again with an old number.
    attempt: u64,
    /// Calls under way of the present attempt, and of earlier ones.
    present: usize,
    earlier: usize,
}

/// Which calls to a sink's committers are under way in this process.
///
/// A call cannot be interrupted, so one may outlive its attempt. The next attempt commits the same
/// transactions again and then aborts what is left over; a call of the old one that came after that could
/// bring back what was aborted. So a call waits until those of earlier attempts have returned, and is refused
/// once there is a later attempt.
#[derive(Default)]
pub(crate) struct CommitGate {
    state: Mutex<State>,
    returned: Condvar,
}

impl fmt::Debug for CommitGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitGate")
    }
}

impl CommitGate {
    /// A subtask of this generation is opened. Returns the pass to make calls with.
    pub fn open(self: &Arc<Self>, generation: u64) -> Pass {
        let mut state = self.state.lock();
        if state.attempt == 0 || state.generation != generation {
            state.attempt += 1;
            state.generation = generation;
            state.earlier += std::mem::take(&mut state.present);
        }
        Pass { gate: self.clone(), attempt: state.attempt }
    }
}

/// The right of one attempt to make calls.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    gate: Arc<CommitGate>,
    attempt: u64,
}

impl Pass {
    /// Whether calls of earlier attempts have not returned.
    pub fn has_to_wait(&self) -> bool {
        self.gate.state.lock().earlier > 0
    }

    /// Begins a call as soon as those of earlier attempts have returned; `None` if it is not `wanted` any
    /// more, or if there is a later attempt.
    pub fn enter(&self, wanted: impl Fn() -> bool) -> Option<Call> {
        let mut state = self.gate.state.lock();
        loop {
            if state.attempt != self.attempt || !wanted() {
                return None;
            }
            if state.earlier == 0 {
                state.present += 1;
                return Some(Call(self.clone()));
            }
            self.gate.returned.wait_for(&mut state, LOOK);
        }
    }
}

/// A call that is under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Call(Pass);

impl Drop for Call {
    fn drop(&mut self) {
        let Pass { gate, attempt } = &self.0;
        let mut state = gate.state.lock();
        let count = if state.attempt == *attempt { &mut state.present } else { &mut state.earlier };
        *count = count.saturating_sub(1);
        gate.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_those_of_earlier_attempts_and_is_refused_after_the_next_one_has_begun() {
        let gate = Arc::new(CommitGate::default());
        let first = gate.open(7);
        let (one, other) = (first.enter(|| true).unwrap(), gate.open(7).enter(|| true).unwrap());
        let second = gate.open(8);
        assert!(first.enter(|| true).is_none(), "the first attempt is over");
        assert!(second.has_to_wait());
        drop(one);
        assert!(second.has_to_wait());
        assert!(second.enter(|| false).is_none(), "whoever is not wanted does not wait");
        let waiting = std::thread::Builder::new().spawn(move || second.enter(|| true).is_some()).unwrap();
        drop(other);
        assert!(waiting.join().unwrap());
        assert!(!gate.open(8).has_to_wait(), "a call that has returned holds up nobody");
    }
}
