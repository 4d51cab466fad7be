//! [`Timer`] and [`TimeDomain`]: timers as keyed state.

use stillstream_types::{KeyHash, Timestamp};

use super::StateKind;

/// Which clock a timer follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeDomain {
    /// The watermark.
    EventTime,
    /// The wall clock.
    ProcessingTime,
}

impl TimeDomain {
    /// The name under which a timer service is stored: Flink's `_timer_state/event_..`.
    pub(crate) fn state_name(self, service: &str) -> String {
        match self {
            Self::EventTime => format!("_timer_state/event_{service}"),
            Self::ProcessingTime => format!("_timer_state/processing_{service}"),
        }
    }

    pub(crate) fn kind(self) -> StateKind {
        match self {
            Self::EventTime => StateKind::EventTimers,
            Self::ProcessingTime => StateKind::ProcessingTimers,
        }
    }
}

/// A timer: at this time, for this key and namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timer<K, N> {
    /// When it is due.
    pub time: Timestamp,
    /// The key's hash.
    pub hash: KeyHash,
    /// The key.
    pub key: K,
    /// The namespace: `()`, or the window.
    pub namespace: N,
}
