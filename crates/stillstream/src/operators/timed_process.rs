//! The operator under [`Process`] and [`ConnectedProcess`]: operator state, and timers of processing time.

use std::collections::BTreeSet;
use std::sync::Arc;

use stillstream_runtime::clock::Clock;
use stillstream_runtime::metrics::Counters;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output, PendingTimers};
use stillstream_state::{Data, OperatorListState, OperatorStateBackend, StateError};
use stillstream_types::{
    CheckpointId, Error, ErrorKind, OperatorSubtaskState, Result, SnapshotForm, Timestamp,
};

use super::keyed_state::open_operator_state;
use crate::collector::Collector;
use crate::functions::{
    ConnectedProcess, OperatorStates, Process, ProcessContext, RuntimeContext, TimedContext,
};
use crate::side_output::{SideCollectors, Sides};

/// Timers that fire before the operator lets others run; fewer where they are slow.
const SLICE: usize = 1024;

/// What differs between functions of one stream and of two.
pub(crate) trait TimedLogic: 'static {
    type Out: Data;
    fn batch(&mut self, port: usize, batch: AnyBatch, call: &mut TimedCall<'_, Self::Out>) -> Result<()>;
    fn timer(&mut self, at: Timestamp, ctx: &mut TimedContext<'_, Self::Out>) -> Result<()>;
    fn close(&mut self) -> Result<()>;
}

/// What every call of one batch shares.
pub(crate) struct TimedCall<'a, O> {
    watermark: Timestamp,
    now_ms: i64,
    out: &'a mut Collector<O>,
    sides: &'a mut SideCollectors,
    timers: &'a mut BTreeSet<i64>,
}

impl<O: Data> TimedCall<'_, O> {
    fn context(&mut self, time: Option<i64>) -> TimedContext<'_, O> {
        let (watermark, now_ms) = (self.watermark, self.now_ms);
        let call = ProcessContext { time, watermark, now_ms, out: self.out, sides: self.sides };
        TimedContext { call, timers: self.timers }
    }

    fn each<T: Data>(
        &mut self,
        batch: AnyBatch,
        mut f: impl FnMut(T, &mut TimedContext<'_, O>) -> Result<()>,
    ) -> Result<()> {
        let Batch { values, times, .. } = batch.take::<T>()?;
        let mut values = values.into_iter().enumerate();
        values.try_for_each(|(i, record)| f(record, &mut self.context(times.get(i).copied())))
    }
}

/// Makes a function.
pub(crate) type OpenTimed<L> = Arc<dyn Fn(&mut OperatorStates<'_>) -> Result<L> + Send + Sync>;

struct Opened<L> {
    logic: L,
    backend: OperatorStateBackend,
    /// The timers, as of the last snapshot.
    saved: OperatorListState<i64>,
    sides: SideCollectors,
    clock: Arc<dyn Clock>,
    name: Arc<str>,
    counters: Arc<Counters>,
}

pub(crate) struct TimedOperator<L: TimedLogic> {
    open: OpenTimed<L>,
    sides: Sides,
    opened: Option<Opened<L>>,
    out: Collector<L::Out>,
    watermark: Timestamp,
    timers: BTreeSet<i64>,
    pending_timers: PendingTimers,
    /// The input has ended: what is set from now on does not fire.
    ended: bool,
}

fn not_open() -> Error {
    Error::new(ErrorKind::Plan, "the operator is not open")
}

impl<L: TimedLogic> TimedOperator<L> {
    pub fn new(open: OpenTimed<L>, sides: Sides) -> Self {
        Self {
            open,
            sides,
            opened: None,
            out: Collector::default(),
            watermark: Timestamp::MIN,
            timers: BTreeSet::new(),
            pending_timers: PendingTimers::Drop,
            ended: false,
        }
    }

    fn call(
        &mut self,
        out: &mut Output,
        f: impl FnOnce(&mut L, &mut TimedCall<'_, L::Out>) -> Result<()>,
    ) -> Result<()> {
        let opened = self.opened.as_mut().ok_or_else(not_open)?;
        let mut call = TimedCall {
            watermark: self.watermark,
            now_ms: opened.clock.now_ms(),
            out: &mut self.out,
            sides: &mut opened.sides,
            timers: &mut self.timers,
        };
        f(&mut opened.logic, &mut call)?;
        self.out.flush(out);
        opened.sides.flush(out);
        Ok(())
    }

    /// Fires timers up to a time, at most a slice of them.
    fn fire(&mut self, up_to: i64, out: &mut Output) -> Result<()> {
        let room = out.room().min(SLICE);
        self.call(out, |logic, call| {
            for _ in 0..room {
                let Some(due) = call.timers.first().copied().filter(|due| *due <= up_to) else { break };
                call.timers.remove(&due);
                logic.timer(Timestamp::from_millis(due), &mut call.context(None))?;
            }
            Ok(())
        })
    }

    /// Timers that are set when the input ends are dropped: that is counted, and said once.
    fn drop_timers(&mut self) {
        let dropped = std::mem::take(&mut self.timers).len() as u64;
        if let (Some(opened), 1..) = (&self.opened, dropped) {
            let name = &opened.name;
            opened.counters.add(&format!("{name}.timers_dropped"), dropped);
            tracing::warn!(
                "`{name}`: the input has ended, and {dropped} timers of processing time that are still set are dropped; set \
                 stillstream.timers.at-end-of-input to `fire` or `await` to keep them"
            );
        }
    }
}

impl<L: TimedLogic> Operator for TimedOperator<L> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let mut backend = open_operator_state(context)?;
        let saved = backend.list::<i64>("_timers-processing").map_err(StateError::into_error)?;
        self.timers = saved.get().map_err(StateError::into_error)?.into_iter().collect();
        let runtime = RuntimeContext::of(context);
        let logic = (self.open)(&mut OperatorStates { backend: &mut backend, runtime })?;
        self.pending_timers = context.pending_timers;
        self.opened = Some(Opened {
            logic,
            backend,
            saved,
            sides: self.sides.open(),
            clock: context.clock.clone(),
            name: context.name.clone(),
            counters: context.counters.clone(),
        });
        Ok(())
    }

    fn process(&mut self, port: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        self.call(out, |logic, call| logic.batch(port, batch, call))
    }

    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }

    fn end_of_input(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        let again = match (self.pending_timers, self.timers.first()) {
            (PendingTimers::Drop, _) => {
                self.drop_timers();
                None
            }
            (_, None) => None,
            (PendingTimers::Fire, Some(_)) => {
                // those that a timer sets when it fires here are dropped: they could go on for ever
                let set = self.timers.clone();
                let last = set.last().copied().unwrap_or(i64::MAX);
                self.fire(last, out)?;
                let rest = self.timers.intersection(&set).next().is_some();
                if !rest {
                    self.drop_timers();
                }
                rest.then_some(now_ms)
            }
            (PendingTimers::Await, Some(next)) => Some((*next).max(now_ms.saturating_add(1))),
        };
        self.ended = again.is_none();
        Ok(again)
    }

    fn processing_time(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        if self.ended {
            return Ok(None);
        }
        self.fire(now_ms, out)?;
        Ok(Some(self.timers.first().map_or(i64::MAX, |next| (*next).max(now_ms))))
    }

    fn snapshot(&mut self, _: CheckpointId, _: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        let opened = self.opened.as_mut().ok_or_else(not_open)?;
        let timers = self.timers.iter().copied().collect();
        opened.saved.update(timers).map_err(StateError::into_error)?;
        let (frozen, name) = (opened.backend.freeze().map_err(StateError::into_error)?, opened.name.clone());
        Ok(Some(Box::new(move |store| {
            let operator = frozen.write(store, &name).map_err(StateError::into_error)?;
            Ok(OperatorSubtaskState { operator, ..OperatorSubtaskState::default() })
        })))
    }

    fn finish(&mut self) -> Result<()> {
        self.opened.as_mut().map_or(Ok(()), |opened| opened.logic.close())
    }
}

/// A [`Process`].
pub(crate) struct OneStream<F>(pub F);

impl<F: Process> TimedLogic for OneStream<F> {
    type Out = F::Out;

    fn batch(&mut self, _: usize, batch: AnyBatch, call: &mut TimedCall<'_, F::Out>) -> Result<()> {
        call.each::<F::In>(batch, |record, ctx| self.0.process(record, ctx))
    }

    fn timer(&mut self, at: Timestamp, ctx: &mut TimedContext<'_, F::Out>) -> Result<()> {
        self.0.on_timer(at, ctx)
    }

    fn close(&mut self) -> Result<()> {
        self.0.close()
    }
}

/// A [`ConnectedProcess`].
pub(crate) struct TwoStreams<F>(pub F);

impl<F: ConnectedProcess> TimedLogic for TwoStreams<F> {
    type Out = F::Out;

    fn batch(&mut self, port: usize, batch: AnyBatch, call: &mut TimedCall<'_, F::Out>) -> Result<()> {
        match port {
            0 => call.each::<F::In1>(batch, |record, ctx| self.0.process1(record, ctx)),
            _ => call.each::<F::In2>(batch, |record, ctx| self.0.process2(record, ctx)),
        }
    }

    fn timer(&mut self, at: Timestamp, ctx: &mut TimedContext<'_, F::Out>) -> Result<()> {
        self.0.on_timer(at, ctx)
    }

    fn close(&mut self) -> Result<()> {
        self.0.close()
    }
}
