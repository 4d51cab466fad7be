//! Tests of functions without a cluster: one operator, driven by hand, with a clock that only the test moves.
//!
//! A driver runs the same operator that a job runs: state, timers and snapshots are the real ones. After
//! Kafka Streams' `TopologyTestDriver`.
//!
//! | driver | drives |
//! |---|---|
//! | [`KeyedProcessDriver`] | a [`KeyedProcess`] |
//! | [`StreamDriver`] | what any method of a stream makes: a window, for example |
//! | [`ConnectedDriver`] | what is made of two streams |

mod driven;
mod stream_driver;

pub use stream_driver::{ConnectedDriver, StreamDriver};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::clock::ManualClock;
use stillstream_runtime::exchange::{KeySelector, OwnedKey};
use stillstream_runtime::{Batch, Emission, OpenContext, Operator, Output};
use stillstream_state::{Data, MemorySnapshotStore};
use stillstream_types::{
    CheckpointId, Error, ErrorKind, KeyGroups, OperatorSubtaskState, Result, SnapshotForm, Timestamp,
};

use crate::functions::{KeyedProcess, KeyedStates};
use crate::operators::keyed_process::{KeyedOperator, OneInput};
use crate::side_output::{OutputTag, Sides};

type KeyOf<F> = OwnedKey<Box<dyn Fn(&<F as KeyedProcess>::In) -> <F as KeyedProcess>::Key + Send + Sync>>;

/// What a snapshot of a driver holds.
#[derive(Clone, Debug)]
pub struct DriverSnapshot(Vec<OperatorSubtaskState>);

impl DriverSnapshot {
    /// How many bytes of state: a test can see by it that nothing is left behind.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(OperatorSubtaskState::len).sum()
    }
}

/// Drives one [`KeyedProcess`].
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::testing::KeyedProcessDriver;
///
/// struct Count { seen: ValueState<u64> }
/// impl KeyedProcess for Count {
///     type Key = String;
///     type In = String;
///     type Out = (String, u64);
///     fn open(states: &mut States<Self>) -> Result<Self> {
///         Ok(Self { seen: states.value("seen")? })
///     }
///     fn process(&mut self, _: String, ctx: &mut Context<Self>) -> Result<()> {
///         self.seen.update(ctx, || 0, |seen| *seen += 1)?;
///         ctx.timers().on_processing_time(ctx.processing_time() + minutes(1))?;
///         Ok(())
///     }
///     fn on_timer(&mut self, _: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
///         let seen = self.seen.get(ctx)?.unwrap_or(0);
///         ctx.emit((ctx.key().clone(), seen));
///         Ok(())
///     }
/// }
///
/// let mut driver = KeyedProcessDriver::<Count>::new(|word| word.clone());
/// driver.record("a".into())?;
/// driver.record("a".into())?;
/// assert!(driver.output().is_empty());
///
/// let snapshot = driver.snapshot()?;
/// let mut restored = KeyedProcessDriver::<Count>::new(|word| word.clone()).restored(snapshot);
/// restored.advance_clock(minutes(1))?;
/// assert_eq!(restored.output(), [("a".to_string(), 2)]);
/// # Ok::<(), Error>(())
/// ```
pub struct KeyedProcessDriver<F: KeyedProcess> {
    operator: KeyedOperator<OneInput<F, KeyOf<F>>>,
    selector: Arc<KeyOf<F>>,
    sides: Sides,
    clock: Arc<ManualClock>,
    restored: Option<DriverSnapshot>,
    opened: bool,
    out: Output,
    main: Vec<F::Out>,
    side: Vec<(u32, stillstream_runtime::AnyBatch)>,
    checkpoints: u64,
}

impl<F: KeyedProcess> fmt::Debug for KeyedProcessDriver<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedProcessDriver").field("opened", &self.opened).finish_non_exhaustive()
    }
}

fn groups() -> KeyGroups {
    KeyGroups::new(KeyGroups::default_max_parallelism(1))
}

impl<F: KeyedProcess> KeyedProcessDriver<F> {
    /// A driver of the function that `F::open` makes. `key` finds the key of a record. The clock stands
    /// at 1970.
    pub fn new(key: impl Fn(&F::In) -> F::Key + Send + Sync + 'static) -> Self {
        Self::with(key, F::open)
    }

    /// A driver of the function that `open` makes.
    pub fn with(
        key: impl Fn(&F::In) -> F::Key + Send + Sync + 'static,
        open: impl Fn(&mut KeyedStates<F::Key>) -> Result<F> + Send + Sync + 'static,
    ) -> Self {
        let selector: Arc<KeyOf<F>> = Arc::new(OwnedKey(Box::new(key)));
        let sides = Sides::new();
        let operator = OneInput::<F, KeyOf<F>>::operator(Arc::new(open), selector.clone(), sides.clone());
        Self {
            operator,
            selector,
            sides,
            clock: Arc::default(),
            restored: None,
            opened: false,
            out: Output::default(),
            main: Vec::new(),
            side: Vec::new(),
            checkpoints: 0,
        }
    }

    /// Starts from a snapshot. Before the first record.
    pub fn restored(mut self, snapshot: DriverSnapshot) -> Self {
        self.restored = Some(snapshot);
        self
    }

    /// Keeps what the function emits into a side output, for [`side`](Self::side). Before the first record.
    pub fn reading<T: Data>(self, tag: &OutputTag<T>) -> Self {
        // a tag that is read as two types is reported when it is read
        let _ = self.sides.declare(tag, "process");
        self
    }

    fn call(
        &mut self,
        f: impl FnOnce(&mut KeyedOperator<OneInput<F, KeyOf<F>>>, &mut Output) -> Result<()>,
    ) -> Result<()> {
        if !self.opened {
            let store = Arc::new(MemorySnapshotStore::default());
            let mut context = OpenContext::by_hand("process", 0, 1, groups(), store, self.clock.clone());
            context.restored = self.restored.take().and_then(|mut snapshot| snapshot.0.pop());
            self.operator.open(&mut context)?;
            self.opened = true;
        }
        f(&mut self.operator, &mut self.out)?;
        while self.operator.resume(&mut self.out)? {}
        for emission in self.out.drain() {
            match emission {
                Emission::Batch(batch) => self.main.extend(batch.take::<F::Out>()?.values),
                Emission::Side(side, batch) => self.side.push((side, batch)),
                Emission::Watermark(_) | Emission::Idle(_) | Emission::Split(_) => {}
            }
        }
        Ok(())
    }

    fn push(&mut self, record: F::In, times: Vec<i64>) -> Result<()> {
        let hash = {
            use stillstream_state::Key;
            self.selector.with_key(&record, |key| key.key_hash(groups()))
        };
        let batch = Batch { values: vec![record], times, hashes: vec![hash] };
        self.call(|operator, out| operator.process(0, batch.into(), out))
    }

    /// Hands a record without event time to the function.
    ///
    /// # Errors
    /// The function's own.
    pub fn record(&mut self, record: F::In) -> Result<()> {
        self.push(record, Vec::new())
    }

    /// Hands a record with an event time to the function.
    ///
    /// # Errors
    /// The function's own.
    pub fn record_at(&mut self, record: F::In, at: Timestamp) -> Result<()> {
        self.push(record, vec![at.as_millis()])
    }

    /// Moves event time on: fires event-time timers up to and including `watermark`, in order.
    ///
    /// # Errors
    /// The function's own.
    pub fn watermark(&mut self, watermark: Timestamp) -> Result<()> {
        self.call(|operator, out| operator.watermark(watermark, out))
    }

    /// Moves the clock on: fires processing-time timers that are due.
    ///
    /// # Errors
    /// The function's own.
    pub fn advance_clock(&mut self, by: Duration) -> Result<()> {
        self.clock.advance(by);
        let clock = self.clock.clone();
        self.call(|operator, out| {
            use stillstream_runtime::clock::Clock;
            let now = clock.now_ms();
            while operator.processing_time(now, out)?.is_some_and(|next| next <= now) {}
            Ok(())
        })
    }

    /// Takes what the function has emitted so far.
    pub fn output(&mut self) -> Vec<F::Out> {
        std::mem::take(&mut self.main)
    }

    /// Takes what the function has emitted into a side output so far; see [`reading`](Self::reading).
    ///
    /// # Errors
    /// If the side output was not announced, or is read as another type than it is emitted into.
    pub fn side<T: Data>(&mut self, tag: &OutputTag<T>) -> Result<Vec<T>> {
        let wrong = |message| Error::new(ErrorKind::Plan, message);
        let number = self.sides.declare(tag, "process").map_err(wrong)?;
        let (own, rest) =
            std::mem::take(&mut self.side).into_iter().partition::<Vec<_>, _>(|(side, _)| *side == number);
        self.side = rest;
        let mut records = Vec::new();
        for (_, batch) in own {
            records.extend(batch.take::<T>()?.values);
        }
        Ok(records)
    }

    /// Takes a snapshot of state and timers.
    ///
    /// # Errors
    /// If state cannot be written.
    pub fn snapshot(&mut self) -> Result<DriverSnapshot> {
        self.call(|_, _| Ok(()))?;
        self.checkpoints += 1;
        match self.operator.snapshot(CheckpointId(self.checkpoints), SnapshotForm::Checkpoint)? {
            Some(write) => Ok(DriverSnapshot(vec![write(&MemorySnapshotStore::default())?])),
            None => Ok(DriverSnapshot(Vec::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    const LATE: OutputTag<u64> = OutputTag::new("late");

    struct Sum {
        sum: ValueState<u64>,
    }

    impl KeyedProcess for Sum {
        type Key = u64;
        type In = u64;
        type Out = (u64, u64);
        fn open(states: &mut States<Self>) -> Result<Self> {
            Ok(Self { sum: states.value("sum")? })
        }
        fn process(&mut self, n: u64, ctx: &mut Context<Self>) -> Result<()> {
            match ctx.timestamp() {
                Some(at) if at <= ctx.watermark() => ctx.side(&LATE, n),
                Some(at) => {
                    self.sum.update(ctx, || 0, |sum| *sum += n)?;
                    ctx.timers().on_event_time(at)?;
                    Ok(())
                }
                None => Err(Error::msg("a record without time")),
            }
        }
        fn on_timer(&mut self, _: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
            let sum = self.sum.get(ctx)?.unwrap_or(0);
            ctx.emit((*ctx.key(), sum));
            Ok(())
        }
    }

    #[test]
    fn timers_fire_with_the_watermark_and_side_outputs_are_read() {
        let mut driver = KeyedProcessDriver::<Sum>::new(|n| n % 10).reading(&LATE);
        let at = Timestamp::from_millis;
        driver.record_at(3, at(100)).unwrap();
        driver.record_at(13, at(100)).unwrap();
        driver.watermark(at(99)).unwrap();
        assert!(driver.output().is_empty());
        driver.watermark(at(100)).unwrap();
        assert_eq!(driver.output(), [(3, 16)]);
        driver.record_at(23, at(50)).unwrap();
        assert_eq!(driver.side(&LATE).unwrap(), [23]);
        assert!(driver.record(1).unwrap_err().to_string().contains("without time"));
    }
}
