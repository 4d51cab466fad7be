//! [`CountTrigger`]: after each `n` records.

use stillstream_types::{Result, Timestamp};

use super::{Trigger, TriggerContext, TriggerResult};

/// Fires when a given number of records has come since it fired last, for each key and window. Not at the end
/// of the window: what came after the last firing is forgotten with it.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::testing::StreamDriver;
/// use stillstream::window::CountTrigger;
///
/// let mut driver = StreamDriver::new(|words: &DataStream<String>| {
///     words.key_by_ref(|word| word).window(Tumbling::of(hours(1))).trigger(CountTrigger::of(2)).count()
/// });
/// for word in ["a", "b", "a", "a", "a"] {
///     driver.record_at(word.into(), Timestamp::from_millis(0))?;
/// }
/// assert_eq!(driver.output(), [("a".to_string(), 2), ("a".to_string(), 4)]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountTrigger {
    most: u64,
}

impl CountTrigger {
    /// Fires with every `n` records; at least 1.
    pub const fn of(n: u64) -> Self {
        Self { most: n }
    }
}

impl<T> Trigger<T> for CountTrigger {
    /// Records since it fired last.
    type State = u64;

    fn on_element(
        &self,
        _: &T,
        _: Option<Timestamp>,
        count: &mut u64,
        _: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        *count += 1;
        if *count < self.most {
            return Ok(TriggerResult::Continue);
        }
        *count = 0;
        Ok(TriggerResult::Fire)
    }

    fn can_merge(&self) -> bool {
        true
    }

    fn on_merge(&self, count: &mut u64, merged: Vec<u64>, _: &mut TriggerContext<'_>) -> Result<()> {
        // a sum above the limit fires with the record that merged the windows
        *count = merged.iter().sum();
        Ok(())
    }

    fn validate(&self) -> Result<(), String> {
        match self.most {
            0 => Err("a count of 0 records: a count window or CountTrigger needs at least 1".into()),
            _ => Ok(()),
        }
    }
}
