//! [`DefaultTrigger`]: what fires a window where no trigger is given.

use stillstream_types::{Result, Timestamp};

use super::{EventTimeTrigger, ProcessingTimeTrigger, Trigger, TriggerContext, TriggerResult};

/// The trigger of a window where no other is given: at the end of the window, by its own time. A
/// [global window](crate::window::GlobalWindows) has none, unless it was made to fire at the end of the
/// input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefaultTrigger(pub(crate) Fires);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fires {
    EventTime,
    ProcessingTime,
    Never,
}

const EVENT_TIME: EventTimeTrigger = EventTimeTrigger::create();
const PROCESSING_TIME: ProcessingTimeTrigger = ProcessingTimeTrigger::create();

impl<T> Trigger<T> for DefaultTrigger {
    type State = ();

    fn on_element(
        &self,
        record: &T,
        timestamp: Option<Timestamp>,
        state: &mut (),
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        match self.0 {
            Fires::EventTime => EVENT_TIME.on_element(record, timestamp, state, ctx),
            Fires::ProcessingTime => PROCESSING_TIME.on_element(record, timestamp, state, ctx),
            Fires::Never => Ok(TriggerResult::Continue),
        }
    }

    fn on_event_time(
        &self,
        at: Timestamp,
        state: &mut (),
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        match self.0 {
            Fires::EventTime => Trigger::<T>::on_event_time(&EVENT_TIME, at, state, ctx),
            _ => Ok(TriggerResult::Continue),
        }
    }

    fn on_processing_time(
        &self,
        at: Timestamp,
        state: &mut (),
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        match self.0 {
            Fires::ProcessingTime => Trigger::<T>::on_processing_time(&PROCESSING_TIME, at, state, ctx),
            _ => Ok(TriggerResult::Continue),
        }
    }

    fn can_merge(&self) -> bool {
        true
    }

    fn on_merge(&self, state: &mut (), merged: Vec<()>, ctx: &mut TriggerContext<'_>) -> Result<()> {
        match self.0 {
            Fires::EventTime => Trigger::<T>::on_merge(&EVENT_TIME, state, merged, ctx),
            Fires::ProcessingTime => Trigger::<T>::on_merge(&PROCESSING_TIME, state, merged, ctx),
            Fires::Never => Ok(()),
        }
    }

    fn clear(&self, state: &(), ctx: &mut TriggerContext<'_>) -> Result<()> {
        match self.0 {
            Fires::EventTime => Trigger::<T>::clear(&EVENT_TIME, state, ctx),
            Fires::ProcessingTime => Trigger::<T>::clear(&PROCESSING_TIME, state, ctx),
            Fires::Never => Ok(()),
        }
    }

    fn validate(&self) -> Result<(), String> {
        match self.0 {
            Fires::Never => Err(
                "a global window never fires without a trigger: add `.trigger(..)` after `.window(..)`, or \
                 make it by `GlobalWindows::create_with_end_of_stream_trigger()`"
                    .into(),
            ),
            _ => Ok(()),
        }
    }
}
