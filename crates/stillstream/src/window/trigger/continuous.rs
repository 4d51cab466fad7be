//! [`ContinuousEventTimeTrigger`] and [`ContinuousProcessingTimeTrigger`]: early results at an interval.

use std::time::Duration;

use stillstream_types::{Result, Timestamp};

use super::{Trigger, TriggerContext, TriggerResult};
use crate::watermark::millis_of;

/// The timer that is set, as milliseconds.
type Next = Option<i64>;

fn earliest(merged: &[Next]) -> Next {
    merged.iter().flatten().min().copied()
}

fn check(interval: i64) -> Result<(), String> {
    match interval {
        0 => Err("a continuous trigger has an interval of less than 1 ms: give it at least 1".into()),
        _ => Ok(()),
    }
}

/// The end of the interval that a time lies in.
fn end_of_interval(time: i64, interval: i64) -> i64 {
    time.saturating_sub(time.rem_euclid(interval)).saturating_add(interval)
}

/// Fires whenever the watermark passes a multiple of an interval, as long as the window has records, and at
/// the end of the window.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::window::ContinuousEventTimeTrigger;
///
/// /// The count of the day so far, each hour.
/// fn so_far(clicks: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
///     clicks
///         .key_by_ref(|click| &click.0)
///         .window(Tumbling::of(days(1)))
///         .trigger(ContinuousEventTimeTrigger::of(hours(1)))
///         .count()
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContinuousEventTimeTrigger {
    interval: i64,
}

impl ContinuousEventTimeTrigger {
    /// Fires each interval of event time; whole milliseconds, at least 1.
    pub fn of(interval: Duration) -> Self {
        Self { interval: millis_of(interval) }
    }

    fn set(next: &mut Next, at: i64, ctx: &mut TriggerContext<'_>) {
        let at = at.min(ctx.window().last().as_millis());
        *next = Some(at);
        ctx.register_event_time_timer(Timestamp::from_millis(at));
    }
}

impl<T> Trigger<T> for ContinuousEventTimeTrigger {
    /// The next early firing.
    type State = Next;

    fn on_element(
        &self,
        _: &T,
        timestamp: Option<Timestamp>,
        next: &mut Next,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        let last = ctx.window().last();
        if last <= ctx.watermark() {
            return Ok(TriggerResult::Fire);
        }
        ctx.register_event_time_timer(last);
        if let (None, Some(time)) = (&next, timestamp) {
            Self::set(next, end_of_interval(time.as_millis(), self.interval), ctx);
        }
        Ok(TriggerResult::Continue)
    }

    fn on_event_time(
        &self,
        at: Timestamp,
        next: &mut Next,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        if at == ctx.window().last() {
            return Ok(TriggerResult::Fire);
        }
        if *next != Some(at.as_millis()) {
            return Ok(TriggerResult::Continue);
        }
        *next = None;
        // the global window has no last interval: at the end of the input it fires once more, not for ever
        let ended = ctx.window().is_global() && ctx.watermark() == Timestamp::MAX;
        if !ended {
            Self::set(next, at.as_millis().saturating_add(self.interval), ctx);
        }
        Ok(TriggerResult::Fire)
    }

    fn can_merge(&self) -> bool {
        true
    }

    fn on_merge(&self, next: &mut Next, merged: Vec<Next>, ctx: &mut TriggerContext<'_>) -> Result<()> {
        *next = earliest(&merged);
        if let Some(at) = *next {
            ctx.register_event_time_timer(Timestamp::from_millis(at));
        }
        Ok(())
    }

    fn clear(&self, next: &Next, ctx: &mut TriggerContext<'_>) -> Result<()> {
        ctx.delete_event_time_timer(ctx.window().last());
        if let Some(at) = next {
            ctx.delete_event_time_timer(Timestamp::from_millis(*at));
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), String> {
        check(self.interval)
    }
}

/// Fires whenever the clock passes a multiple of an interval, as long as the window has records.
///
/// A window of processing time also fires at its end. One of event time does not: what came after the last
/// interval is forgotten with it.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::window::ContinuousProcessingTimeTrigger;
///
/// /// The count of the day so far, each second of the clock.
/// fn so_far(clicks: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
///     clicks
///         .key_by_ref(|click| &click.0)
///         .window(Tumbling::of(days(1)).processing_time())
///         .trigger(ContinuousProcessingTimeTrigger::of(seconds(1)))
///         .count()
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContinuousProcessingTimeTrigger {
    interval: i64,
}

impl ContinuousProcessingTimeTrigger {
    /// Fires each interval of processing time; whole milliseconds, at least 1.
    pub fn of(interval: Duration) -> Self {
        Self { interval: millis_of(interval) }
    }

    fn set(next: &mut Next, after: i64, at: i64, ctx: &mut TriggerContext<'_>) {
        let last = ctx.window().last().as_millis();
        // the end of an event-time window can lie far back by the clock: the next timer is always later than
        // the last one
        let at = if last > after { at.min(last) } else { at };
        *next = Some(at);
        ctx.register_processing_time_timer(Timestamp::from_millis(at));
    }
}

impl<T> Trigger<T> for ContinuousProcessingTimeTrigger {
    /// The next firing.
    type State = Next;

    fn on_element(
        &self,
        _: &T,
        _: Option<Timestamp>,
        next: &mut Next,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        if next.is_none() {
            let now = ctx.processing_time().as_millis();
            Self::set(next, now, end_of_interval(now, self.interval), ctx);
        }
        Ok(TriggerResult::Continue)
    }

    fn on_processing_time(
        &self,
        at: Timestamp,
        next: &mut Next,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        let at = at.as_millis();
        if *next != Some(at) {
            return Ok(TriggerResult::Continue);
        }
        // where the clock has jumped, one firing stands for all that were missed
        let now = ctx.processing_time().as_millis().max(at);
        Self::set(next, now, end_of_interval(now, self.interval), ctx);
        Ok(TriggerResult::Fire)
    }

    fn can_merge(&self) -> bool {
        true
    }

    fn on_merge(&self, next: &mut Next, merged: Vec<Next>, ctx: &mut TriggerContext<'_>) -> Result<()> {
        *next = earliest(&merged);
        if let Some(at) = *next {
            ctx.register_processing_time_timer(Timestamp::from_millis(at));
        }
        Ok(())
    }

    fn clear(&self, next: &Next, ctx: &mut TriggerContext<'_>) -> Result<()> {
        if let Some(at) = next {
            ctx.delete_processing_time_timer(Timestamp::from_millis(*at));
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), String> {
        check(self.interval)
    }
}
