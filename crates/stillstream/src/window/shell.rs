//! What all window operators share: their settings, their results and late records, and the snapshot.

use std::sync::Arc;

use stillstream_runtime::backends::KeyedStateBackend;
use stillstream_runtime::metrics::Counters;
use stillstream_runtime::{AsyncSnapshot, OpenContext, Output};
use stillstream_state::{Data, Key, OperatorStateBackend};
use stillstream_types::{CheckpointId, Error, ErrorKind, KeyHash, Result, SnapshotForm, Timestamp};

use super::TimeWindow;
use super::event_clock::EventClock;
use crate::collector::Collector;
use crate::operators::keyed_state::{freeze, open_keyed, open_operator_state};
use crate::side_output::{OutputTag, SideCollectors, Sides};

/// Results that one call of `resume` emits at most.
pub(crate) const SLICE: usize = 1024;

/// What a job says about a window, its kind and aggregate aside.
pub(crate) struct Settings<T> {
    pub lateness: i64,
    pub late: Option<OutputTag<T>>,
    pub sides: Sides,
}

impl<T> Clone for Settings<T> {
    fn clone(&self) -> Self {
        Self { lateness: self.lateness, late: self.late, sides: self.sides.clone() }
    }
}

/// What one emits for a window: the user's function.
pub(crate) trait Emit<K, Out>: Send + Sync + 'static {
    type Result: Data;
    fn emit(
        &self,
        key: &K,
        window: TimeWindow,
        out: Out,
        results: &mut Collector<Self::Result>,
    ) -> Result<()>;
}

/// What is there once the operator is open: backends, counters, collectors.
pub(crate) struct Shell<K: Key, T, R> {
    name: Arc<str>,
    backend: KeyedStateBackend<K>,
    operator: OperatorStateBackend,
    /// How far event time is for this operator: what is late is told from it.
    pub clock: EventClock,
    lateness: i64,
    late: Option<OutputTag<T>>,
    late_count: u64,
    late_name: String,
    in_no_window_count: u64,
    in_no_window_name: String,
    counters: Arc<Counters>,
    sides: SideCollectors,
    results: Collector<R>,
}

impl<K: Key, T: Data, R: Data> Shell<K, T, R> {
    pub fn open(context: &OpenContext, settings: &Settings<T>) -> Result<Self> {
        let backend = open_keyed(context)?;
        let mut operator = open_operator_state(context)?;
        let clock = EventClock::open(&mut operator, context)?;
        Ok(Self {
            name: context.name.clone(),
            backend,
            operator,
            clock,
            lateness: settings.lateness,
            late: settings.late,
            late_count: 0,
            late_name: format!("{}.late", context.name),
            in_no_window_count: 0,
            in_no_window_name: format!("{}.in_no_window", context.name),
            counters: context.counters.clone(),
            sides: settings.sides.open(),
            results: Collector::default(),
        })
    }

    pub fn backend(&mut self) -> &mut KeyedStateBackend<K> {
        &mut self.backend
    }

    /// When a window is forgotten, by its last moment.
    #[inline(always)]
    pub fn purge_at(&self, last: i64) -> i64 {
        last.saturating_add(self.lateness)
    }

    /// Whether a key's window with this last moment has been forgotten.
    #[inline(always)]
    pub fn is_late(&self, last: i64, hash: KeyHash) -> bool {
        let now = self.clock.at(hash);
        now > i64::MIN && self.purge_at(last) <= now
    }

    /// Whether a key's window with this last moment has fired, be it before the restore.
    #[inline(always)]
    pub fn has_fired(&self, last: i64, hash: KeyHash) -> bool {
        let now = self.clock.at(hash);
        now > i64::MIN && last <= now
    }

    /// A record whose windows are all forgotten: counted, and emitted into the late output if there is one.
    pub fn late(&mut self, value: T, time: i64) -> Result<()> {
        self.late_count += 1;
        match &self.late {
            Some(tag) => self.sides.emit(tag, value, Some(time)),
            None => Ok(()),
        }
    }

    /// A record between two windows: the slide is above the size.
    pub fn in_no_window(&mut self) {
        self.in_no_window_count += 1;
    }

    /// What a window function emits into.
    pub fn outputs(&mut self) -> (&mut Collector<R>, &mut SideCollectors) {
        (&mut self.results, &mut self.sides)
    }

    #[inline(always)]
    pub fn result<Out>(
        &mut self,
        emit: &impl Emit<K, Out, Result = R>,
        key: &K,
        window: TimeWindow,
        out: Out,
    ) -> Result<()> {
        self.results.set_time(Some(window.last().as_millis()));
        emit.emit(key, window, out, &mut self.results)
    }

    /// Hands on results, late records and their count.
    pub fn flush(&mut self, out: &mut Output) {
        self.results.flush(out);
        self.sides.flush(out);
        self.counters.add(&self.late_name, std::mem::take(&mut self.late_count));
        self.counters.add(&self.in_no_window_name, std::mem::take(&mut self.in_no_window_count));
    }

    pub fn snapshot(&mut self, id: CheckpointId, form: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        self.clock.save()?;
        freeze(&mut self.backend, Some(&self.operator), &self.name, id, form).map(Some)
    }
}

/// Records without event time are in no window.
pub(crate) fn check_times(records: usize, times: &[i64]) -> Result<()> {
    match records == times.len() {
        true => Ok(()),
        false => Err(no_times()),
    }
}

pub(crate) fn no_times() -> Error {
    Error::new(
        ErrorKind::Plan,
        "the records have no event time, so no window can hold them: add \
         `.watermarks(WatermarkStrategy::bounded_out_of_orderness(..).timestamp(|record| ..))` to the stream before \
         `key_by`",
    )
}

/// The operator is used before it was opened: a mistake of the runtime, not of the job.
pub(crate) fn not_open() -> Error {
    Error::new(ErrorKind::Plan, "the window is used before it was opened")
}

/// Watermarks that come in while nothing is emitted, and what to pass on at the end of an emission.
#[derive(Default)]
pub(crate) struct Passing(Option<Timestamp>);

impl Passing {
    pub fn hold(&mut self, watermark: Timestamp) {
        self.0 = self.0.max(Some(watermark));
    }

    /// Whether there is one to pass on.
    pub fn holds(&self) -> bool {
        self.0.is_some()
    }

    pub fn release(&mut self, out: &mut Output) {
        if let Some(watermark) = self.0.take() {
            out.watermark(watermark);
        }
    }
}
