//! [`DeltaTrigger`]: when a record differs enough.

use std::fmt;

use stillstream_state::Data;
use stillstream_types::{Result, Timestamp};

use super::{Trigger, TriggerContext, TriggerResult};

/// Fires when a record differs by more than a threshold from the one that made it fire last, or from the
/// first one.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::testing::StreamDriver;
/// use stillstream::window::DeltaTrigger;
///
/// // (car, metres): each time a car has gone more than 50 metres
/// let mut driver = StreamDriver::new(|cars: &DataStream<(String, u64)>| {
///     let metres = |before: &(String, u64), now: &(String, u64)| (now.1 - before.1) as f64;
///     let far = DeltaTrigger::of(50.0, metres);
///     cars.key_by_ref(|car| &car.0).window(GlobalWindows::create()).trigger(far).reduce(|_, last| last)
/// });
/// for metres in [0, 30, 51, 90, 102, 200] {
///     driver.record(("a".into(), metres))?;
/// }
/// let far: Vec<u64> = driver.output().into_iter().map(|car| car.1).collect();
/// assert_eq!(far, [51, 102, 200]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct DeltaTrigger<F> {
    threshold: f64,
    delta: F,
}

impl<F> fmt::Debug for DeltaTrigger<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaTrigger").field("threshold", &self.threshold).finish_non_exhaustive()
    }
}

impl<F> DeltaTrigger<F> {
    /// `delta` tells how far the second record is from the first one.
    pub const fn of<T>(threshold: f64, delta: F) -> Self
    where
        F: Fn(&T, &T) -> f64 + Send + Sync + 'static,
    {
        Self { threshold, delta }
    }
}

impl<T: Data, F: Fn(&T, &T) -> f64 + Send + Sync + 'static> Trigger<T> for DeltaTrigger<F> {
    /// The record that the next ones are compared with.
    type State = Option<T>;

    fn on_element(
        &self,
        record: &T,
        _: Option<Timestamp>,
        last: &mut Option<T>,
        _: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        let result = match last {
            Some(last) if (self.delta)(last, record) > self.threshold => TriggerResult::Fire,
            Some(_) => return Ok(TriggerResult::Continue),
            None => TriggerResult::Continue,
        };
        *last = Some(record.clone());
        Ok(result)
    }
}
