//! [`PurgingTrigger`]: purges whenever another one fires.

use stillstream_types::{Result, Timestamp};

use super::{Trigger, TriggerContext, TriggerResult};

/// Fires as another trigger does, and forgets each time what the window held: each record goes into one
/// result.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::window::{ContinuousEventTimeTrigger, PurgingTrigger};
///
/// /// Clicks of each hour of the day, not of the day so far.
/// fn by_hour(clicks: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
///     clicks
///         .key_by_ref(|click| &click.0)
///         .window(Tumbling::of(days(1)))
///         .trigger(PurgingTrigger::of(ContinuousEventTimeTrigger::of(hours(1))))
///         .count()
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PurgingTrigger<Tr>(Tr);

impl<Tr> PurgingTrigger<Tr> {
    /// Purges whenever `trigger` fires.
    pub const fn of(trigger: Tr) -> Self {
        Self(trigger)
    }
}

fn purging(result: TriggerResult) -> TriggerResult {
    if result.is_fire() { TriggerResult::FireAndPurge } else { result }
}

impl<T, Tr: Trigger<T>> Trigger<T> for PurgingTrigger<Tr> {
    type State = Tr::State;

    fn on_element(
        &self,
        record: &T,
        timestamp: Option<Timestamp>,
        state: &mut Tr::State,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        self.0.on_element(record, timestamp, state, ctx).map(purging)
    }

    fn on_event_time(
        &self,
        at: Timestamp,
        state: &mut Tr::State,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        self.0.on_event_time(at, state, ctx).map(purging)
    }

    fn on_processing_time(
        &self,
        at: Timestamp,
        state: &mut Tr::State,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        self.0.on_processing_time(at, state, ctx).map(purging)
    }

    fn can_merge(&self) -> bool {
        self.0.can_merge()
    }

    fn on_merge(
        &self,
        state: &mut Tr::State,
        merged: Vec<Tr::State>,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<()> {
        self.0.on_merge(state, merged, ctx)
    }

    fn clear(&self, state: &Tr::State, ctx: &mut TriggerContext<'_>) -> Result<()> {
        self.0.clear(state, ctx)
    }

    fn validate(&self) -> Result<(), String> {
        self.0.validate()
    }
}
