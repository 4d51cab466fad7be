//! Named places where a test may make the process die or a step fail.
//!
//! Code calls [`crash_point`] between steps whose order matters. Not armed, that is one relaxed atomic load.
//! A test arms it with [`install`]; `stillstream-testing` has the usual hooks.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

static ARMED: AtomicBool = AtomicBool::new(false);
static HOOK: RwLock<Option<Arc<dyn CrashHook>>> = RwLock::new(None);

/// What a crash point returns when a test makes it fail.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("crash point `{point}` failed on purpose at pass {pass}")]
pub struct Crash {
    /// Its name.
    pub point: String,
    /// Which pass it was, from 1.
    pub pass: u64,
}

impl From<Crash> for std::io::Error {
    fn from(crash: Crash) -> Self {
        std::io::Error::other(crash)
    }
}

/// Decides what happens at a crash point.
pub trait CrashHook: Send + Sync + fmt::Debug {
    /// Called at each pass of each point. May end the process, block, or return an error.
    fn pass(&self, point: &str) -> Result<(), Crash>;
}

/// A place where a test may make the process die or the step fail.
///
/// ```
/// use stillstream_types::crash::crash_point;
/// # fn main() -> Result<(), stillstream_types::crash::Crash> {
/// crash_point("after-ack")?;
/// # Ok(())
/// # }
/// ```
#[inline]
pub fn crash_point(point: &str) -> Result<(), Crash> {
    if ARMED.load(Ordering::Relaxed) { passed(point) } else { Ok(()) }
}

#[cold]
fn passed(point: &str) -> Result<(), Crash> {
    // cloned, so that a hook that blocks does not hold the lock
    let hook = HOOK.read().unwrap_or_else(PoisonError::into_inner).clone();
    hook.map_or(Ok(()), |hook| hook.pass(point))
}

/// Arms all crash points of this process, or disarms them with `None`. Returns the hook of before.
pub fn install(hook: Option<Arc<dyn CrashHook>>) -> Option<Arc<dyn CrashHook>> {
    let mut place = HOOK.write().unwrap_or_else(PoisonError::into_inner);
    ARMED.store(hook.is_some(), Ordering::SeqCst);
    std::mem::replace(&mut place, hook)
}
