//! The operator behind [`DataStream::watermarks`](crate::DataStream::watermarks).

use std::sync::Arc;

use stillstream_runtime::clock::Clock;
use stillstream_runtime::flow::WatermarkHub;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, OpenContext, Operator, Output};
use stillstream_state::{Data, StateError};
use stillstream_types::{CheckpointId, Error, ErrorKind, OperatorSubtaskState, Result, Timestamp};

use super::{SavedTime, WatermarkStrategy};

/// How often an idle subtask looks how far the others are.
const FOLLOW_MS: i64 = 50;

/// What is there once the operator is open.
struct Open {
    name: Arc<str>,
    saved: SavedTime,
    hub: WatermarkHub,
    /// The number of this generator in the hub.
    number: u32,
    clock: Arc<dyn Clock>,
}

pub(crate) struct AssignWatermarks<T> {
    strategy: WatermarkStrategy<T>,
    open: Option<Open>,
    /// The largest event time so far.
    max: i64,
    /// The last watermark, the end of the input aside.
    emitted: i64,
    /// The restored watermark is still to be emitted again.
    again: bool,
    /// When the last record came, in processing time. Only kept if the strategy has idleness.
    last_record_ms: i64,
    idle: bool,
    ended: bool,
}

impl<T: Data> AssignWatermarks<T> {
    pub fn new(strategy: WatermarkStrategy<T>) -> Self {
        Self {
            strategy,
            open: None,
            max: i64::MIN,
            emitted: i64::MIN,
            again: false,
            last_record_ms: 0,
            idle: false,
            ended: false,
        }
    }

    fn report(&self) {
        let Some(open) = &self.open else { return };
        match self.ended {
            // one that has ended must not pull the idle ones to the end
            true => open.hub.report(open.number, Timestamp::MAX, true),
            false => open.hub.report(open.number, Timestamp::from_millis(self.emitted), self.idle),
        }
    }

    fn advance(&mut self, to: i64, out: &mut Output) {
        if to > self.emitted && !self.ended {
            self.emitted = to;
            out.watermark(Timestamp::from_millis(to));
        }
    }

    /// After a restore downstream starts without a watermark.
    fn emit_again(&mut self, out: &mut Output) {
        if std::mem::take(&mut self.again) && self.emitted > i64::MIN {
            out.watermark(Timestamp::from_millis(self.emitted));
        }
    }
}

impl<T: Data> Operator for AssignWatermarks<T> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let Some(delay) = self.strategy.delay else { return Ok(()) };
        let (saved, restored) = SavedTime::open(context, "max-event-time")?;
        if let Some(max) = restored {
            self.max = max;
            self.emitted = max.saturating_sub(delay).saturating_sub(1);
            self.again = true;
        }
        let hub = context.watermark_hub();
        let number = hub.register(self.strategy.idleness.is_some());
        self.last_record_ms = context.clock.now_ms();
        let (name, clock) = (context.name.clone(), context.clock.clone());
        self.open = Some(Open { name, saved, hub, number, clock });
        self.report();
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let mut batch = batch.take::<T>()?;
        match &self.strategy.times {
            Some(fill) => fill(&batch.values, &mut batch.times),
            None if batch.times.is_empty() && !batch.is_empty() => {
                return Err(Error::new(
                    ErrorKind::Plan,
                    "the records have no event time, and the WatermarkStrategy does not tell it: add \
                     `.timestamp(|record| ..)` to the strategy",
                ));
            }
            None => {}
        }
        self.emit_again(out);
        let max = batch.times.iter().copied().max().unwrap_or(i64::MIN);
        out.batch(batch);
        if let Some(delay) = self.strategy.delay {
            self.max = self.max.max(max);
            self.advance(self.max.saturating_sub(delay).saturating_sub(1), out);
            if let (Some(open), Some(_)) = (&self.open, self.strategy.idleness) {
                self.last_record_ms = open.clock.now_ms();
                self.idle = false;
            }
            self.report();
        }
        Ok(())
    }

    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        if watermark == Timestamp::MAX {
            self.ended = true;
            self.report();
            out.watermark(watermark);
        }
        Ok(())
    }

    fn processing_time(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        self.emit_again(out);
        let (Some(open), Some(after)) = (&self.open, self.strategy.idleness) else { return Ok(None) };
        if self.ended {
            return Ok(None);
        }
        let due = self.last_record_ms.saturating_add(after);
        if now_ms < due {
            return Ok(Some(due));
        }
        let hub = open.hub.clone();
        // said first: this subtask may itself be the slowest active one
        self.idle = true;
        self.report();
        if let Some(follow) = hub.active_watermark().filter(|follow| *follow != Timestamp::MAX) {
            self.advance(follow.as_millis(), out);
            self.report();
        }
        Ok(Some(now_ms.saturating_add(FOLLOW_MS)))
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Option<AsyncSnapshot>> {
        let (Some(open), Some(delay)) = (&self.open, self.strategy.delay) else { return Ok(None) };
        // an idle subtask may have gone further than its own records say
        let followed = match self.emitted {
            i64::MIN => i64::MIN,
            emitted => emitted.saturating_add(delay).saturating_add(1),
        };
        let (frozen, name) = (open.saved.freeze(self.max.max(followed))?, open.name.clone());
        Ok(Some(Box::new(move |store| {
            let operator = frozen.write(store, &name).map_err(StateError::into_error)?;
            Ok(OperatorSubtaskState { operator, ..OperatorSubtaskState::default() })
        })))
    }
}
