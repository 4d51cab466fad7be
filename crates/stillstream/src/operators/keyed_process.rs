//! The operator under [`KeyedProcess`], [`CoProcess`] and [`BroadcastProcess`]: records, timers, state,
//! snapshots.

use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_runtime::backends::{KeyedStateBackend, Timers};
use stillstream_runtime::clock::Clock;
use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::metrics::Counters;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output, PendingTimers};
use stillstream_state::{
    Data, Key, KeyedBackend, OperatorStateBackend, StateError, TimeDomain, Timer, TimerService,
};
use stillstream_types::{CheckpointId, Error, ErrorKind, KeyHash, Result, SnapshotForm, Timestamp};

use super::expiry::Expiry;
use super::keyed_state::{checkpoint_notices, freeze, open_keyed, open_operator_state};
use crate::collector::Collector;
use crate::functions::{
    BroadcastContext, BroadcastProcess, BroadcastStates, CoProcess, KeyedContext, KeyedProcess, KeyedStates,
    RuntimeContext,
};
use crate::side_output::{SideCollectors, Sides};

/// Timers that fire before the operator lets others run; fewer where they are slow.
const SLICE: usize = 1024;

/// What differs between the kinds of keyed functions.
pub(crate) trait Logic: 'static {
    type Key: Key;
    type Out: Data;
    fn batch(
        &mut self,
        port: usize,
        batch: AnyBatch,
        call: &mut Call<'_, Self::Key, Self::Out>,
    ) -> Result<()>;
    fn timer(&mut self, at: Timestamp, context: &mut KeyedContext<'_, Self::Key, Self::Out>) -> Result<()>;
    /// Called once, before any record: for what keeps operator state of its own.
    fn opened(&mut self, context: &OpenContext, operator: &mut OperatorStateBackend) -> Result<()> {
        let _ = (context, operator);
        Ok(())
    }
    /// Event time has reached `watermark`; its timers have not fired yet.
    fn watermark(&mut self, watermark: Timestamp) {
        let _ = watermark;
    }
    /// Brings operator state up to date for a snapshot.
    fn save(&self) -> Result<()> {
        Ok(())
    }
    /// Called once, when all input is through.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What every call of one batch shares.
pub(crate) struct Call<'a, K: Key, O> {
    watermark: Timestamp,
    now_ms: i64,
    backend: &'a KeyedStateBackend<K>,
    event_timers: &'a Timers<K, ()>,
    processing_timers: &'a Timers<K, ()>,
    out: &'a mut Collector<O>,
    sides: &'a mut SideCollectors,
}

impl<K: Key, O: Data> Call<'_, K, O> {
    #[inline(always)]
    fn context<'b>(
        &'b mut self,
        key: &'b K,
        hash: KeyHash,
        time: Option<i64>,
        domain: Option<TimeDomain>,
    ) -> KeyedContext<'b, K, O> {
        KeyedContext {
            key,
            hash,
            time,
            domain,
            watermark: self.watermark,
            now_ms: self.now_ms,
            event_timers: self.event_timers,
            processing_timers: self.processing_timers,
            out: self.out,
            sides: self.sides,
        }
    }

    fn broadcast(&mut self, time: Option<i64>) -> BroadcastContext<'_, O> {
        BroadcastContext { time, watermark: self.watermark, out: self.out, sides: self.sides }
    }

    /// Calls `f` for each record of a keyed batch.
    pub fn each<T: Data, S: KeySelector<T, Key = K>>(
        &mut self,
        batch: AnyBatch,
        selector: &S,
        mut f: impl FnMut(T, &mut KeyedContext<'_, K, O>) -> Result<()>,
    ) -> Result<()> {
        let Batch { values, times, hashes } = batch.take::<T>()?;
        if hashes.len() != values.len() {
            return Err(Error::new(ErrorKind::Plan, "a keyed operator got records without key hashes"));
        }
        let backend = self.backend;
        // where the key is a part of the record, which the function takes, it is copied into memory that is
        // used again
        let mut place = None;
        for (i, record) in values.into_iter().enumerate() {
            backend.prefetch(&hashes, i);
            let key = selector.key_in(&record, &mut place);
            f(record, &mut self.context(key, hashes[i], times.get(i).copied(), None))?;
        }
        Ok(())
    }
}

/// Makes what is special of one parallel instance.
pub(crate) type MakeLogic<L> =
    Arc<dyn Fn(&mut KeyedStates<<L as Logic>::Key>, &mut OperatorStateBackend) -> Result<L> + Send + Sync>;

/// What exists once the operator is open.
struct Opened<L: Logic> {
    logic: L,
    states: KeyedStates<L::Key>,
    broadcasts: OperatorStateBackend,
    event_timers: Timers<L::Key, ()>,
    processing_timers: Timers<L::Key, ()>,
    sides: SideCollectors,
    expiry: Option<Expiry>,
    clock: Arc<dyn Clock>,
    name: Arc<str>,
    counters: Arc<Counters>,
}

pub(crate) struct KeyedOperator<L: Logic> {
    make: MakeLogic<L>,
    sides: Sides,
    uses_operator_state: bool,
    opened: Option<Opened<L>>,
    out: Collector<L::Out>,
    watermark: Timestamp,
    /// A watermark whose timers are firing.
    due: Option<Timestamp>,
    pending_timers: PendingTimers,
    /// The input has ended: what is set for processing time from now on does not fire.
    ended: bool,
    /// Timers of processing time that fire because the input has ended.
    last_timers: Option<std::vec::IntoIter<Timer<L::Key, ()>>>,
}

impl<L: Logic> KeyedOperator<L> {
    pub fn new(make: MakeLogic<L>, sides: Sides, uses_operator_state: bool) -> Self {
        Self {
            make,
            sides,
            uses_operator_state,
            opened: None,
            out: Collector::default(),
            watermark: Timestamp::MIN,
            due: None,
            pending_timers: PendingTimers::Drop,
            ended: false,
            last_timers: None,
        }
    }

    /// Timers of processing time that are set when the input ends never fire: that is counted, and said once.
    fn count_dropped(&mut self) -> Result<()> {
        let Some(opened) = &self.opened else { return Ok(()) };
        let dropped = opened.processing_timers.len().map_err(StateError::into_error)? as u64;
        if dropped > 0 {
            let name = &opened.name;
            opened.counters.add(&format!("{name}.timers_dropped"), dropped);
            tracing::warn!(
                "`{name}`: the input has ended, and {dropped} timers of processing time that are still set are dropped; set \
                 stillstream.timers.at-end-of-input to `fire` or `await` to keep them"
            );
        }
        Ok(())
    }

    /// Fires a slice of the timers of processing time that were set when the input ended; says whether there
    /// are more.
    fn fire_last(&mut self, out: &mut Output) -> Result<bool> {
        let room = out.room().min(SLICE);
        let mut last = match self.last_timers.take() {
            Some(last) => last,
            None => self.call(out, |_, call| {
                let mut all = Vec::new();
                while let Some(timer) =
                    call.processing_timers.pop_due(Timestamp::MAX).map_err(StateError::into_error)?
                {
                    all.push(timer);
                }
                Ok(all.into_iter())
            })?,
        };
        self.call(out, |logic, call| {
            last.by_ref().take(room).try_for_each(|timer| {
                let domain = Some(TimeDomain::ProcessingTime);
                logic.timer(timer.time, &mut call.context(&timer.key, timer.hash, None, domain))
            })
        })?;
        let more = last.len() > 0;
        self.last_timers = Some(last);
        Ok(more)
    }

    fn call<R>(
        &mut self,
        out: &mut Output,
        f: impl FnOnce(&mut L, &mut Call<'_, L::Key, L::Out>) -> Result<R>,
    ) -> Result<R> {
        let opened =
            self.opened.as_mut().ok_or_else(|| Error::new(ErrorKind::Plan, "the operator is not open"))?;
        let mut call = Call {
            watermark: self.watermark,
            now_ms: opened.clock.now_ms(),
            backend: &opened.states.backend,
            event_timers: &opened.event_timers,
            processing_timers: &opened.processing_timers,
            out: &mut self.out,
            sides: &mut opened.sides,
        };
        let result = f(&mut opened.logic, &mut call)?;
        self.out.flush(out);
        opened.sides.flush(out);
        if let Some(expiry) = &mut opened.expiry {
            expiry.sweep(&opened.states.backend);
        }
        Ok(result)
    }

    /// Fires timers that are due, at most a slice of them; says whether there are more.
    fn fire(&mut self, domain: TimeDomain, up_to: Timestamp, out: &mut Output) -> Result<bool> {
        let room = out.room().min(SLICE);
        self.call(out, |logic, call| {
            let timers = match domain {
                TimeDomain::EventTime => call.event_timers,
                TimeDomain::ProcessingTime => call.processing_timers,
            };
            for _ in 0..room {
                let due = timers.pop_due(up_to).map_err(StateError::into_error)?;
                let Some(timer) = due else { return Ok(false) };
                let time = (domain == TimeDomain::EventTime).then_some(timer.time.as_millis());
                logic.timer(timer.time, &mut call.context(&timer.key, timer.hash, time, Some(domain)))?;
            }
            Ok(timers.peek_next_time().is_some_and(|next| next <= up_to))
        })
    }
}

impl<L: Logic> Operator for KeyedOperator<L> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let backend = open_keyed::<L::Key>(context)?;
        let mut states = KeyedStates { backend, runtime: RuntimeContext::of(context) };
        let mut broadcasts = open_operator_state(context)?;
        let timers = |states: &mut KeyedStates<L::Key>, name, domain| {
            states.backend.timers::<()>(name, domain).map_err(StateError::into_error)
        };
        let event_timers = timers(&mut states, "_timers-event", TimeDomain::EventTime)?;
        let processing_timers = timers(&mut states, "_timers-processing", TimeDomain::ProcessingTime)?;
        let mut logic = (self.make)(&mut states, &mut broadcasts)?;
        logic.opened(context, &mut broadcasts)?;
        self.pending_timers = context.pending_timers;
        self.opened = Some(Opened {
            logic,
            expiry: Expiry::of(&states.backend, &context.name, &context.counters),
            states,
            broadcasts,
            event_timers,
            processing_timers,
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

    fn watermark(&mut self, watermark: Timestamp, _: &mut Output) -> Result<()> {
        self.watermark = watermark;
        self.due = Some(watermark);
        if let Some(opened) = &mut self.opened {
            opened.logic.watermark(watermark);
        }
        Ok(())
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        let Some(due) = self.due else { return Ok(false) };
        if self.fire(TimeDomain::EventTime, due, out)? {
            return Ok(true);
        }
        self.due = None;
        out.watermark(due);
        Ok(false)
    }

    fn end_of_input(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        let next = self.opened.as_ref().and_then(|opened| opened.processing_timers.peek_next_time());
        let again = match (self.pending_timers, next) {
            (PendingTimers::Drop, _) => {
                self.count_dropped()?;
                None
            }
            (PendingTimers::Fire, _) => self.fire_last(out)?.then_some(now_ms),
            // they fire as ever; one that is due does so before this is asked again
            (PendingTimers::Await, next) => next.map(|next| next.as_millis().max(now_ms.saturating_add(1))),
        };
        self.ended = again.is_none();
        Ok(again)
    }

    fn processing_time(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        if self.ended {
            return Ok(None);
        }
        let more = self.fire(TimeDomain::ProcessingTime, Timestamp::from_millis(now_ms), out)?;
        let next = self.opened.as_ref().and_then(|opened| opened.processing_timers.peek_next_time());
        Ok(Some(if more { now_ms } else { next.map_or(i64::MAX, Timestamp::as_millis) }))
    }

    fn snapshot(&mut self, id: CheckpointId, form: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        let Some(opened) = &mut self.opened else { return Ok(None) };
        // compactions have counted meanwhile
        if let Some(expiry) = &mut opened.expiry {
            expiry.sweep(&opened.states.backend);
        }
        opened.logic.save()?;
        let broadcasts = self.uses_operator_state.then_some(&opened.broadcasts);
        freeze(&mut opened.states.backend, broadcasts, &opened.name, id, form).map(Some)
    }

    checkpoint_notices!(opened => states.backend);

    fn finish(&mut self) -> Result<()> {
        let Some(Opened { expiry, states, logic, .. }) = &mut self.opened else { return Ok(()) };
        if let Some(expiry) = expiry {
            expiry.sweep(&states.backend);
        }
        logic.close()
    }
}

/// Makes a function.
type Open<F, K> = dyn Fn(&mut KeyedStates<K>) -> Result<F> + Send + Sync;

/// A [`KeyedProcess`].
pub(crate) struct OneInput<F, S> {
    function: F,
    selector: Arc<S>,
}

impl<F: KeyedProcess, S: KeySelector<F::In, Key = F::Key>> OneInput<F, S> {
    pub fn operator(open: Arc<Open<F, F::Key>>, selector: Arc<S>, sides: Sides) -> KeyedOperator<Self> {
        let make: MakeLogic<Self> =
            Arc::new(move |states, _| Ok(Self { function: open(states)?, selector: selector.clone() }));
        KeyedOperator::new(make, sides, false)
    }
}

impl<F: KeyedProcess, S: KeySelector<F::In, Key = F::Key>> Logic for OneInput<F, S> {
    type Key = F::Key;
    type Out = F::Out;

    fn batch(&mut self, _: usize, batch: AnyBatch, call: &mut Call<'_, F::Key, F::Out>) -> Result<()> {
        let function = &mut self.function;
        call.each::<F::In, S>(batch, &self.selector, |record, context| function.process(record, context))
    }

    fn timer(&mut self, at: Timestamp, context: &mut KeyedContext<'_, F::Key, F::Out>) -> Result<()> {
        self.function.on_timer(at, context)
    }

    fn close(&mut self) -> Result<()> {
        self.function.close()
    }
}

/// A [`CoProcess`].
pub(crate) struct TwoInputs<F, S1, S2> {
    function: F,
    first: Arc<S1>,
    second: Arc<S2>,
}

impl<F, S1, S2> TwoInputs<F, S1, S2>
where
    F: CoProcess,
    S1: KeySelector<F::In1, Key = F::Key>,
    S2: KeySelector<F::In2, Key = F::Key>,
{
    pub fn operator(
        open: Arc<Open<F, F::Key>>,
        first: Arc<S1>,
        second: Arc<S2>,
        sides: Sides,
    ) -> KeyedOperator<Self> {
        let make: MakeLogic<Self> = Arc::new(move |states, _| {
            Ok(Self { function: open(states)?, first: first.clone(), second: second.clone() })
        });
        KeyedOperator::new(make, sides, false)
    }
}

impl<F, S1, S2> Logic for TwoInputs<F, S1, S2>
where
    F: CoProcess,
    S1: KeySelector<F::In1, Key = F::Key>,
    S2: KeySelector<F::In2, Key = F::Key>,
{
    type Key = F::Key;
    type Out = F::Out;

    fn batch(&mut self, port: usize, batch: AnyBatch, call: &mut Call<'_, F::Key, F::Out>) -> Result<()> {
        let function = &mut self.function;
        match port {
            0 => call
                .each::<F::In1, S1>(batch, &self.first, |record, context| function.process1(record, context)),
            _ => call.each::<F::In2, S2>(batch, &self.second, |record, context| {
                function.process2(record, context)
            }),
        }
    }

    fn timer(&mut self, at: Timestamp, context: &mut KeyedContext<'_, F::Key, F::Out>) -> Result<()> {
        self.function.on_timer(at, context)
    }

    fn close(&mut self) -> Result<()> {
        self.function.close()
    }
}

/// Makes a [`BroadcastProcess`].
type OpenWithBroadcast<F> = dyn Fn(&mut KeyedStates<<F as BroadcastProcess>::Key>, &mut BroadcastStates<'_>) -> Result<F>
    + Send
    + Sync;

/// A [`BroadcastProcess`].
pub(crate) struct WithBroadcast<F, S> {
    function: F,
    selector: Arc<S>,
    types: PhantomData<fn() -> F>,
}

impl<F: BroadcastProcess, S: KeySelector<F::In, Key = F::Key>> WithBroadcast<F, S> {
    pub fn operator(open: Arc<OpenWithBroadcast<F>>, selector: Arc<S>, sides: Sides) -> KeyedOperator<Self> {
        let make: MakeLogic<Self> = Arc::new(move |states, backend| {
            let function = open(states, &mut BroadcastStates { backend })?;
            Ok(Self { function, selector: selector.clone(), types: PhantomData })
        });
        KeyedOperator::new(make, sides, true)
    }
}

impl<F: BroadcastProcess, S: KeySelector<F::In, Key = F::Key>> Logic for WithBroadcast<F, S> {
    type Key = F::Key;
    type Out = F::Out;

    fn batch(&mut self, port: usize, batch: AnyBatch, call: &mut Call<'_, F::Key, F::Out>) -> Result<()> {
        let function = &mut self.function;
        if port == 0 {
            return call.each::<F::In, S>(batch, &self.selector, |record, context| {
                function.process(record, context)
            });
        }
        let Batch { values, times, .. } = batch.take::<F::Rule>()?;
        for (i, rule) in values.into_iter().enumerate() {
            function.process_broadcast(rule, &mut call.broadcast(times.get(i).copied()))?;
        }
        Ok(())
    }

    fn timer(&mut self, at: Timestamp, context: &mut KeyedContext<'_, F::Key, F::Out>) -> Result<()> {
        self.function.on_timer(at, context)
    }

    fn close(&mut self) -> Result<()> {
        self.function.close()
    }
}
