//! Which windows a record is in, whatever their kind.

use stillstream_state::TimeDomain;
use stillstream_types::{Error, ErrorKind, Result};

use crate::watermark::millis_of;
use crate::window::TimeWindow;
use crate::window::assigner::{Kind, Windows};
use crate::window::shell::no_times;

impl<T> Windows<T> {
    /// Puts a record's windows into `into`: the latest first.
    pub fn assign(
        &self,
        record: &T,
        time: Option<i64>,
        now_ms: i64,
        into: &mut Vec<TimeWindow>,
    ) -> Result<()> {
        into.clear();
        let at = |domain: &TimeDomain| match domain {
            TimeDomain::EventTime => time.ok_or_else(no_times),
            TimeDomain::ProcessingTime => Ok(now_ms),
        };
        match self {
            Self::Global { .. } => into.push(TimeWindow::GLOBAL),
            Self::Fixed(Kind::Session { gap }, domain) => {
                let start = at(domain)?;
                into.push(TimeWindow::of(start, start.saturating_add(*gap)));
            }
            Self::DynamicSession(gap, domain) => {
                let start = at(domain)?;
                let gap = gap(record);
                if millis_of(gap) == 0 {
                    return Err(Error::new(
                        ErrorKind::Plan,
                        format!("the gap of a session is {gap:?} for a record: a gap has at least 1 ms"),
                    ));
                }
                into.push(TimeWindow::of(start, start.saturating_add(millis_of(gap))));
            }
            Self::Fixed(Kind::Aligned(aligned), domain) => {
                let time = at(domain)?;
                let mut start = aligned.latest(time);
                while aligned.last(start) >= time {
                    into.push(aligned.window(start));
                    match start.checked_sub(aligned.slide) {
                        Some(before) => start = before,
                        None => break,
                    }
                }
            }
        }
        Ok(())
    }
}
