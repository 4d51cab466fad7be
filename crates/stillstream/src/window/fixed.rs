//! Tumbling and sliding windows: one table of accumulators per window, and no timer.
//!
//! All keys of a window fire at the same time, so the window itself is the timer. Firing walks through its table in
//! slices; the watermark is passed on when the last slice is out. A barrier waits for a quiet chain, so a snapshot never
//! sees a window that has fired in part, and no batch arrives between two slices.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, OpenContext, Operator, Output};
use stillstream_state::heap::NamespaceWalk;
use stillstream_state::table::KeysIn;
use stillstream_state::{Data, KeyedStateBackend, NamespacedValue, OperatorStateBackend, StateError};
use stillstream_types::{CheckpointId, Error, ErrorKind, KeyHash, Result, Timestamp};

use super::assigner::Fixed;
use super::event_clock::EventClock;
use super::function::WindowLogic;
use super::keyed_batch::{KeyedBatch, distinct_keys};
use super::late::{LatePolicy, LateRecords};
use crate::collector::Collector;
use crate::operators::keyed_state::{freeze, open_keyed, open_operator_state};

/// Results of one slice.
pub(crate) const SLICE: usize = 1024;

/// What the watermark causes, window by window.
#[derive(Clone, Copy)]
enum Step {
    /// Emit the window's results, and forget it if `last`.
    Fire { start: i64, last: bool },
    /// Forget a window that was kept for late records.
    Forget { start: i64 },
}

/// Records of one batch that belong to one window.
struct Part {
    start: i64,
    records: Vec<u32>,
    hashes: Vec<KeyHash>,
}

struct Opened<K, T, A> {
    keyed: KeyedStateBackend<K>,
    operator: OperatorStateBackend,
    state: NamespacedValue<K, i64, A>,
    clock: EventClock,
    late: LateRecords<T>,
    /// Windows that hold something, by start, and whether they have fired.
    live: BTreeMap<i64, bool>,
    name: Arc<str>,
}

/// One parallel instance.
pub(crate) struct FixedWindows<T: Data, S: KeySelector<T>, L: WindowLogic<S::Key, T>> {
    windows: Fixed,
    lateness: i64,
    policy: LatePolicy<T>,
    selector: Arc<S>,
    logic: L,
    opened: Option<Opened<S::Key, T, L::Acc>>,
    steps: VecDeque<Step>,
    walk: Option<NamespaceWalk<S::Key, i64, L::Acc>>,
    /// A watermark that is passed on when the steps are done.
    due: Option<Timestamp>,
    out: Collector<L::Out>,
    // kept for their memory
    keys: Vec<S::Key>,
    parts: Vec<Part>,
    entries: Vec<(KeyHash, S::Key, L::Acc)>,
}

fn not_open() -> Error {
    Error::new(ErrorKind::Plan, "the operator is not open")
}

impl<T: Data, S: KeySelector<T>, L: WindowLogic<S::Key, T>> FixedWindows<T, S, L> {
    pub fn new(windows: Fixed, lateness: i64, policy: LatePolicy<T>, selector: Arc<S>, logic: L) -> Self {
        Self {
            windows,
            lateness,
            policy,
            selector,
            logic,
            opened: None,
            steps: VecDeque::new(),
            walk: None,
            due: None,
            out: Collector::default(),
            keys: Vec::new(),
            parts: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// When a window is forgotten.
    #[inline(always)]
    fn purged_at(&self, start: i64) -> i64 {
        self.windows.max_timestamp(start).saturating_add(self.lateness)
    }

    /// The window of all records, if they are in one and same, open window.
    fn common_window(&self, times: &[i64], clock: &EventClock) -> Option<i64> {
        if self.windows.size != self.windows.slide || !clock.is_even() {
            return None;
        }
        let (low, high) =
            times.iter().fold((i64::MAX, i64::MIN), |(low, high), time| (low.min(*time), high.max(*time)));
        let start = self.windows.last_start(low);
        let open = self.windows.max_timestamp(start) > clock.watermark();
        (open && high <= self.windows.max_timestamp(start)).then_some(start)
    }

    /// Deals the records out to their windows; returns in how many windows each one is, and those that are late.
    fn deal(&mut self, batch: &KeyedBatch<T, S::Key>, clock: &EventClock) -> (Vec<u32>, Vec<u32>) {
        self.parts.iter_mut().for_each(|part| {
            part.records.clear();
            part.hashes.clear();
        });
        let (mut uses, mut late) = (vec![0u32; batch.values.len()], Vec::new());
        let mut last = 0;
        for (i, (time, hash)) in batch.times.iter().zip(&batch.hashes).enumerate() {
            let watermark = clock.at(*hash);
            for start in self.windows.starts(*time) {
                if self.purged_at(start) <= watermark {
                    continue;
                }
                if self.parts.get(last).is_none_or(|part| part.start != start) {
                    last = match self.parts.iter().position(|part| part.start == start) {
                        Some(at) => at,
                        // a part that is not used in this batch can stand for another window
                        None => match self.parts.iter().position(|part| part.records.is_empty()) {
                            Some(at) => {
                                self.parts[at].start = start;
                                at
                            }
                            None => {
                                self.parts.push(Part { start, records: Vec::new(), hashes: Vec::new() });
                                self.parts.len() - 1
                            }
                        },
                    };
                }
                self.parts[last].records.push(i as u32);
                self.parts[last].hashes.push(*hash);
                uses[i] += 1;
            }
            // with a slide above the size a record may be in no window at all, which is not late
            if uses[i] == 0 && time.saturating_add(self.lateness) <= watermark {
                late.push(i as u32);
            }
        }
        (uses, late)
    }

    /// Records of several windows, or late ones.
    fn process_parts(
        &mut self,
        batch: KeyedBatch<T, S::Key>,
        opened: &mut Opened<S::Key, T, L::Acc>,
    ) -> Result<Vec<S::Key>> {
        let (mut uses, late) = self.deal(&batch, &opened.clock);
        let KeyedBatch { values, times, hashes, keys } = batch;
        let mut values: Vec<Option<T>> = values.into_iter().map(Some).collect();
        for i in late {
            if let Some(record) = values[i as usize].take() {
                opened.late.take(record, times[i as usize])?;
            }
        }
        let logic = &self.logic;
        let mut again = Vec::new();
        for part in self.parts.iter().filter(|part| !part.records.is_empty()) {
            let (start, end) = (part.start, self.windows.max_timestamp(part.start));
            opened.live.entry(start).or_insert(end <= opened.clock.watermark());
            opened
                .state
                .update_batch(
                    start,
                    &part.hashes,
                    &KeysIn(|n: usize| &keys[part.records[n] as usize]),
                    || logic.create(),
                    |n, acc| {
                        let i = part.records[n] as usize;
                        uses[i] -= 1;
                        let record = if uses[i] == 0 { values[i].take() } else { values[i].clone() };
                        if let Some(record) = record {
                            logic.add(acc, record);
                        }
                    },
                )
                .map_err(StateError::into_error)?;
            if self.lateness > 0 {
                let mut fired: Vec<u32> = part
                    .records
                    .iter()
                    .copied()
                    .filter(|i| end <= opened.clock.at(hashes[*i as usize]))
                    .collect();
                distinct_keys(&mut fired, &hashes, &keys);
                again.extend(fired.into_iter().map(|i| (start, i as usize)));
            }
        }
        again.sort_unstable();
        for (start, i) in again {
            let acc = opened.state.get(start, hashes[i], &keys[i]).map_err(StateError::into_error)?;
            if let Some(acc) = acc {
                self.out.set_time(Some(self.windows.max_timestamp(start)));
                self.logic.fire(&keys[i], self.windows.window(start), acc, &mut self.out)?;
            }
        }
        Ok(keys)
    }

    fn process_batch(
        &mut self,
        batch: AnyBatch,
        opened: &mut Opened<S::Key, T, L::Acc>,
        out: &mut Output,
    ) -> Result<()> {
        let batch = KeyedBatch::take(batch, &*self.selector, std::mem::take(&mut self.keys))?;
        if batch.values.is_empty() {
            return Ok(());
        }
        if let Some(start) = self.common_window(&batch.times, &opened.clock) {
            let KeyedBatch { values, hashes, keys, .. } = batch;
            let (logic, mut values) = (&self.logic, values.into_iter());
            opened.live.entry(start).or_insert(false);
            opened
                .state
                .update_batch(
                    start,
                    &hashes,
                    &keys,
                    || logic.create(),
                    |_, acc| {
                        // batches are updated in order
                        if let Some(record) = values.next() {
                            logic.add(acc, record);
                        }
                    },
                )
                .map_err(StateError::into_error)?;
            self.keys = keys;
            return Ok(());
        }
        self.keys = self.process_parts(batch, opened)?;
        opened.late.flush(out);
        self.out.flush(out);
        Ok(())
    }

    /// One slice of a firing; `false` when the window is done.
    fn fire_slice(
        &mut self,
        opened: &mut Opened<S::Key, T, L::Acc>,
        start: i64,
        last: bool,
        emitted: &mut usize,
    ) -> Result<bool> {
        let walk = match &mut self.walk {
            Some(walk) => walk,
            None => {
                // what owns memory is taken, the rest is copied: that is cheaper than removing it key by key
                let walk = match last && std::mem::needs_drop::<L::Acc>() {
                    true => opened.state.take_namespace(start),
                    false => opened.state.read_namespace(start),
                };
                self.walk.insert(walk.map_err(StateError::into_error)?)
            }
        };
        let mut entries = std::mem::take(&mut self.entries);
        let more = walk
            .next_slice(SLICE.saturating_sub(*emitted).max(1), &mut entries)
            .map_err(StateError::into_error)?;
        let (window, end) = (self.windows.window(start), self.windows.max_timestamp(start));
        *emitted += entries.len();
        self.out.set_time(Some(end));
        for (hash, key, acc) in entries.drain(..) {
            // a key group that was past this window before the restore has fired it
            if !opened.clock.is_even() && opened.clock.floor(hash) >= end {
                continue;
            }
            self.logic.fire(&key, window, acc, &mut self.out)?;
        }
        self.entries = entries;
        if !more {
            self.walk = None;
        }
        Ok(more)
    }

    fn work(&mut self, opened: &mut Opened<S::Key, T, L::Acc>, out: &mut Output) -> Result<bool> {
        let mut emitted = 0;
        while let Some(step) = self.steps.front().copied() {
            if emitted >= SLICE {
                self.out.flush(out);
                return Ok(true);
            }
            let forget = match step {
                Step::Fire { start, last } => {
                    if self.fire_slice(opened, start, last, &mut emitted)? {
                        continue;
                    }
                    last.then_some(start)
                }
                Step::Forget { start } => Some(start),
            };
            if let Some(start) = forget {
                opened.state.remove_namespace(start).map_err(StateError::into_error)?;
                opened.live.remove(&start);
            }
            self.steps.pop_front();
        }
        self.out.flush(out);
        opened.clock.settle();
        if let Some(watermark) = self.due.take() {
            out.watermark(watermark);
        }
        Ok(false)
    }
}

impl<T: Data, S: KeySelector<T>, L: WindowLogic<S::Key, T>> Operator for FixedWindows<T, S, L> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let mut keyed = open_keyed::<S::Key>(context)?;
        let mut operator = open_operator_state(context)?;
        let state = keyed.namespaced::<i64, L::Acc>("windows").map_err(StateError::into_error)?;
        let clock = EventClock::open(&mut operator, context)?;
        let namespaces = state.namespaces().map_err(StateError::into_error)?;
        let live = namespaces.into_iter().map(|start| (start, false)).collect();
        let late = LateRecords::open(&self.policy, &context.name, context.counters.clone());
        let name = context.name.clone();
        self.opened = Some(Opened { keyed, operator, state, clock, late, live, name });
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let mut opened = self.opened.take().ok_or_else(not_open)?;
        let result = self.process_batch(batch, &mut opened, out);
        self.opened = Some(opened);
        result
    }

    fn watermark(&mut self, watermark: Timestamp, _: &mut Output) -> Result<()> {
        let mut opened = self.opened.take().ok_or_else(not_open)?;
        let now = watermark.as_millis();
        opened.clock.advance(now);
        for (start, fired) in &mut opened.live {
            if self.windows.max_timestamp(*start) > now {
                break;
            }
            let (start, last) = (*start, self.purged_at(*start) <= now);
            if !std::mem::replace(fired, true) {
                self.steps.push_back(Step::Fire { start, last });
            } else if last {
                self.steps.push_back(Step::Forget { start });
            }
        }
        self.due = Some(watermark);
        self.opened = Some(opened);
        Ok(())
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        if self.due.is_none() {
            return Ok(false);
        }
        let mut opened = self.opened.take().ok_or_else(not_open)?;
        let result = self.work(&mut opened, out);
        self.opened = Some(opened);
        result
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Option<AsyncSnapshot>> {
        let Some(opened) = &mut self.opened else { return Ok(None) };
        opened.clock.save()?;
        freeze(&mut opened.keyed, Some(&opened.operator), &opened.name).map(Some)
    }
}
