//! Makes the process die, or a step fail, at a named place.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use stillstream_types::crash::{Crash, CrashHook, install};

use crate::gate::Gate;

/// What happens at a crash point.
#[derive(Clone, Debug)]
enum Action {
    Abort,
    Fail,
    Wait(Gate),
}

/// One point, one pass, one action.
#[derive(Clone, Debug)]
pub struct CrashRule {
    point: String,
    pass: u64,
    action: Action,
}

impl CrashRule {
    /// The process ends at the `pass`-th pass (from 1) without any clean-up, as if it were killed.
    pub fn abort(point: &str, pass: u64) -> Self {
        Self { point: point.into(), pass, action: Action::Abort }
    }

    /// The step fails at that pass.
    pub fn fail(point: &str, pass: u64) -> Self {
        Self { point: point.into(), pass, action: Action::Fail }
    }

    /// The thread waits at the gate at that pass, and then goes on.
    pub fn wait(point: &str, pass: u64, gate: Gate) -> Self {
        Self { point: point.into(), pass, action: Action::Wait(gate) }
    }
}

impl FromStr for CrashRule {
    type Err = String;

    /// `point`, `point:pass`, or `point:pass:abort` or `:fail`; abort at the first pass unless said
    /// otherwise.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |reason| {
            format!("crash rule `{text}`: {reason}; expected `point:pass:abort` or `point:pass:fail`")
        };
        let mut parts = text.trim().split(':');
        let point = parts.next().filter(|point| !point.is_empty()).ok_or_else(|| bad("it names no point"))?;
        let pass = match parts.next().map(str::parse) {
            None => 1,
            Some(Ok(pass)) if pass > 0 => pass,
            Some(_) => return Err(bad("the pass is not a number from 1")),
        };
        let rule = match parts.next() {
            None | Some("abort") => Self::abort(point, pass),
            Some("fail") => Self::fail(point, pass),
            Some(_) => return Err(bad("the action is not known")),
        };
        if parts.next().is_some() { Err(bad("it has too many parts")) } else { Ok(rule) }
    }
}

/// Crash points that are armed as long as this value lives. They are armed for the whole process: tests that
/// use them in one process must not run at the same time.
///
/// ```
/// use stillstream_testing::{CrashPoints, CrashRule};
/// use stillstream_types::crash::crash_point;
///
/// let armed = CrashPoints::arm([CrashRule::fail("after-ack", 2)]);
/// assert!(crash_point("after-ack").is_ok());
/// let crash = crash_point("after-ack").unwrap_err();
/// assert_eq!(crash.to_string(), "crash point `after-ack` failed on purpose at pass 2");
/// assert_eq!(armed.passes("after-ack"), 2);
/// drop(armed);
/// assert!(crash_point("after-ack").is_ok());
/// ```
#[derive(Debug)]
#[must_use = "dropping it disarms the crash points"]
pub struct CrashPoints(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    rules: Vec<CrashRule>,
    passes: Mutex<HashMap<String, u64>>,
}

impl CrashPoints {
    /// The environment variable that [`from_env`](Self::from_env) reads.
    pub const VARIABLE: &'static str = "STILLSTREAM_CRASH";

    /// Arms these rules, in place of any before.
    pub fn arm(rules: impl IntoIterator<Item = CrashRule>) -> Self {
        let rules = Arc::new(Rules { rules: rules.into_iter().collect(), passes: Mutex::default() });
        install(Some(rules.clone()));
        Self(rules)
    }

    /// Arms the rules in `STILLSTREAM_CRASH`, separated by commas, as in `after-metadata:3:abort`. For the
    /// `main` of a test process; `None` if the variable is not set.
    ///
    /// # Errors
    /// With the rule that is malformed.
    pub fn from_env() -> Result<Option<Self>, String> {
        #[expect(clippy::disallowed_methods, reason = "this is the shell of a test process")]
        let Ok(text) = std::env::var(Self::VARIABLE) else { return Ok(None) };
        let rules = text.split(',').map(str::parse).collect::<Result<Vec<CrashRule>, _>>()?;
        Ok(Some(Self::arm(rules)))
    }

    /// How often the point was passed while armed.
    pub fn passes(&self, point: &str) -> u64 {
        self.0.passes.lock().unwrap_or_else(PoisonError::into_inner).get(point).copied().unwrap_or(0)
    }
}

impl Drop for CrashPoints {
    fn drop(&mut self) {
        install(None);
    }
}

impl CrashHook for Rules {
    fn pass(&self, point: &str) -> Result<(), Crash> {
        let pass = {
            let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
            let pass = passes.entry(point.to_owned()).or_insert(0);
            *pass += 1;
            *pass
        };
        match self.rules.iter().find(|rule| rule.point == point && rule.pass == pass).map(|rule| &rule.action)
        {
            None => Ok(()),
            Some(Action::Abort) => std::process::abort(),
            Some(Action::Fail) => Err(Crash { point: point.to_owned(), pass }),
            Some(Action::Wait(gate)) => {
                gate.pass();
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_from_text_and_malformed_ones_refused() {
        for good in ["after-ack", "after-ack:3", "after-ack:3:fail", " after-ack:1:abort"] {
            assert!(good.parse::<CrashRule>().is_ok(), "{good}");
        }
        for bad in ["", ":1", "a:0", "a:x", "a:1:explode", "a:1:fail:b"] {
            assert!(bad.parse::<CrashRule>().is_err(), "{bad}");
        }
    }
}
