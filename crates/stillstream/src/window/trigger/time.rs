//! [`EventTimeTrigger`] and [`ProcessingTimeTrigger`]: at the end of the window.

use stillstream_types::{Result, Timestamp};

use super::{Trigger, TriggerContext, TriggerResult};

/// Fires when the watermark passes the end of the window, and with each record that comes later, within the
/// allowed lateness. The trigger of event-time windows where no other is given; a [global
/// window](crate::window::GlobalWindows) fires by it at the end of the input.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::window::EventTimeTrigger;
/// let trigger = EventTimeTrigger::create();
/// # let _ = trigger;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventTimeTrigger(());

impl EventTimeTrigger {
    /// The trigger; it has no parameters.
    pub const fn create() -> Self {
        Self(())
    }
}

impl<T> Trigger<T> for EventTimeTrigger {
    type State = ();

    fn on_element(
        &self,
        _: &T,
        _: Option<Timestamp>,
        _: &mut (),
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        let last = ctx.window().last();
        if last <= ctx.watermark() {
            return Ok(TriggerResult::Fire);
        }
        ctx.register_event_time_timer(last);
        Ok(TriggerResult::Continue)
    }

    fn on_event_time(
        &self,
        at: Timestamp,
        _: &mut (),
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        Ok(if at == ctx.window().last() { TriggerResult::Fire } else { TriggerResult::Continue })
    }

    fn can_merge(&self) -> bool {
        true
    }

    fn on_merge(&self, _: &mut (), _: Vec<()>, ctx: &mut TriggerContext<'_>) -> Result<()> {
        // otherwise the record that merged them makes the window fire at once
        if ctx.window().last() > ctx.watermark() {
            ctx.register_event_time_timer(ctx.window().last());
        }
        Ok(())
    }

    fn clear(&self, _: &(), ctx: &mut TriggerContext<'_>) -> Result<()> {
        ctx.delete_event_time_timer(ctx.window().last());
        Ok(())
    }
}

/// Fires when the clock passes the end of the window. The trigger of processing-time windows where no other
/// is given.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::window::ProcessingTimeTrigger;
/// let trigger = ProcessingTimeTrigger::create();
/// # let _ = trigger;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessingTimeTrigger(());

impl ProcessingTimeTrigger {
    /// The trigger; it has no parameters.
    pub const fn create() -> Self {
        Self(())
    }
}

impl<T> Trigger<T> for ProcessingTimeTrigger {
    type State = ();

    fn on_element(
        &self,
        _: &T,
        _: Option<Timestamp>,
        _: &mut (),
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        ctx.register_processing_time_timer(ctx.window().last());
        Ok(TriggerResult::Continue)
    }

    fn on_processing_time(
        &self,
        _: Timestamp,
        _: &mut (),
        _: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        Ok(TriggerResult::Fire)
    }

    fn can_merge(&self) -> bool {
        true
    }

    fn on_merge(&self, _: &mut (), _: Vec<()>, ctx: &mut TriggerContext<'_>) -> Result<()> {
        if ctx.window().last() > ctx.processing_time() {
            ctx.register_processing_time_timer(ctx.window().last());
        }
        Ok(())
    }

    fn clear(&self, _: &(), ctx: &mut TriggerContext<'_>) -> Result<()> {
        ctx.delete_processing_time_timer(ctx.window().last());
        Ok(())
    }
}
