//! Tumbling and sliding windows: a table per window, no timer per key.
//!
//! The namespace of the state is the window's start, so that a window which fires is one walk over one table.
//! Which windows have fired follows from the watermark: all whose last moment it has reached.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use stillstream_runtime::backends::{NamespacedValue, NamespacedWalk};
use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output};
use stillstream_state::{Aggregate, Data, Key, KeyedBackend, NamespaceWalk, NamespacedValues, StateError};
use stillstream_types::{CheckpointId, KeyHash, Result, SnapshotForm, Timestamp};

use super::assigner::Aligned;
use super::shell::{Emit, Passing, SLICE, Settings, Shell, check_times, not_open};
use crate::operators::keyed_state::checkpoint_notices;
use crate::operators::records::{Keys, Records};

/// What is to be done about a window that is due.
enum Due {
    Fire { start: i64, purge: bool },
    Purge { start: i64 },
}

struct Open<K: Key, T, Acc: Data, R> {
    shell: Shell<K, T, R>,
    state: NamespacedValue<K, i64, Acc>,
    /// Nothing is due before this.
    next_due: i64,
    due: VecDeque<Due>,
    /// The window that is being emitted, by its start.
    walk: Option<NamespacedWalk<K, i64, Acc>>,
    slice: Vec<(KeyHash, K, Acc)>,
    passing: Passing,
}

type OpenOf<T, S, A, E> = Open<
    <S as KeySelector<T>>::Key,
    T,
    <A as Aggregate>::Acc,
    <E as Emit<<S as KeySelector<T>>::Key, <A as Aggregate>::Out>>::Result,
>;

pub(crate) struct AlignedWindows<T: Data, S: KeySelector<T>, A: Aggregate<In = T>, E: Emit<S::Key, A::Out>> {
    windows: Aligned,
    settings: Settings<T>,
    selector: Arc<S>,
    aggregate: Arc<A>,
    emit: Arc<E>,
    open: Option<OpenOf<T, S, A, E>>,
}

impl<T, S, A, E> AlignedWindows<T, S, A, E>
where
    T: Data,
    S: KeySelector<T>,
    A: Aggregate<In = T>,
    E: Emit<S::Key, A::Out>,
{
    pub fn new(
        windows: Aligned,
        settings: Settings<T>,
        selector: Arc<S>,
        aggregate: Arc<A>,
        emit: Arc<E>,
    ) -> Self {
        Self { windows, settings, selector, aggregate, emit, open: None }
    }
}

impl<K, T, Acc, R> Open<K, T, Acc, R>
where
    K: stillstream_state::Key,
    T: Data,
    Acc: Data,
    R: Data,
{
    /// Whether the operator's own watermark has fired a window with this last moment.
    fn has_fired(&self, last: i64) -> bool {
        let now = self.shell.clock.watermark();
        now > i64::MIN && last <= now
    }

    /// When something is next to be done about a window with this last moment.
    fn due_at(&self, last: i64) -> i64 {
        match self.has_fired(last) {
            true => self.shell.purge_at(last),
            false => last,
        }
    }

    /// The first window that starts at `from` or later.
    fn window_from(&self, from: Option<i64>) -> Result<Option<i64>> {
        match from {
            Some(from) => self.state.namespace_from(from).map_err(StateError::into_error),
            None => Ok(None),
        }
    }

    /// Finds what is due at `to`, in the order of event time. Looks at the windows that are due and at the
    /// next one, however many are open: those that have fired come first, the oldest of them are to be
    /// forgotten; then those that fire.
    fn plan(&mut self, windows: &Aligned, to: i64) -> Result<()> {
        let mut due = Vec::new();
        self.next_due = i64::MAX;
        let mut from = Some(i64::MIN);
        while let Some(start) = self.window_from(from)? {
            let last = windows.last(start);
            if !self.has_fired(last) {
                break;
            }
            let purge_at = self.shell.purge_at(last);
            if purge_at > to {
                self.next_due = purge_at;
                // the others that have fired are forgotten later than this one
                from = Some(self.shell.clock.watermark().saturating_sub(windows.size).max(start));
                break;
            }
            due.push((purge_at, Due::Purge { start }));
            from = start.checked_add(1);
        }
        while let Some(start) = self.window_from(from)? {
            let last = windows.last(start);
            if last > to {
                self.next_due = self.next_due.min(last);
                break;
            }
            if !self.has_fired(last) {
                let purge_at = self.shell.purge_at(last);
                let purge = purge_at <= to;
                due.push((last, Due::Fire { start, purge }));
                if !purge {
                    self.next_due = self.next_due.min(purge_at);
                }
            }
            from = start.checked_add(1);
        }
        // a firing comes before its purge, even at the same moment: the sort is stable
        due.sort_by_key(|(at, _)| *at);
        self.due.extend(due.into_iter().map(|(_, due)| due));
        Ok(())
    }

    /// The oldest window of a batch whose records all belong to the same windows, if none of those has fired.
    fn common(&self, windows: &Aligned, times: &[i64]) -> Option<i64> {
        let (least, most) = times.iter().fold((i64::MAX, i64::MIN), |(a, b), t| (a.min(*t), b.max(*t)));
        let latest = windows.latest(least);
        if times.is_empty() || !self.shell.clock.is_even() || latest != windows.latest(most) {
            return None;
        }
        let (mut oldest, mut start) = (None, latest);
        while windows.last(start) >= most {
            oldest = Some(start);
            start = start.checked_sub(windows.slide)?;
        }
        // the next older window must take none of them, not only some
        oldest.filter(|oldest| windows.last(start) < least && !self.has_fired(windows.last(*oldest)))
    }

    /// The records of each window that still takes some, the windows ascending; those that are late; and how
    /// many are neither, since they lie between two windows.
    fn sort(
        &self,
        windows: &Aligned,
        times: &[i64],
        hashes: &[KeyHash],
    ) -> (BTreeMap<i64, Vec<u32>>, Vec<u32>, usize) {
        let (mut sorted, mut late, mut in_none) = (BTreeMap::<i64, Vec<u32>>::new(), Vec::new(), 0);
        for (i, time) in times.iter().enumerate() {
            let latest = windows.latest(*time);
            let mut start = latest;
            // with a slide above the size a record can be in no window, which alone does not make it late
            if windows.last(latest) < *time {
                match self.shell.is_late(*time, hashes[i]) {
                    true => late.push(i as u32),
                    false => in_none += 1,
                }
            }
            // windows that end after the record; the latest is the last to be forgotten
            while windows.last(start) >= *time {
                if self.shell.is_late(windows.last(start), hashes[i]) {
                    if start == latest {
                        late.push(i as u32);
                    }
                    break;
                }
                sorted.entry(start).or_default().push(i as u32);
                match start.checked_sub(windows.slide) {
                    Some(before) => start = before,
                    None => break,
                }
            }
        }
        (sorted, late, in_none)
    }
}

impl<T, S, A, E> Operator for AlignedWindows<T, S, A, E>
where
    T: Data,
    S: KeySelector<T>,
    A: Aggregate<In = T> + Send + Sync,
    E: Emit<S::Key, A::Out>,
{
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let mut shell = Shell::open(context, &self.settings)?;
        let state = shell.backend().namespaced("window-contents").map_err(StateError::into_error)?;
        self.open = Some(Open {
            shell,
            state,
            // the first watermark looks what was restored
            next_due: i64::MIN,
            due: VecDeque::new(),
            walk: None,
            slice: Vec::new(),
            passing: Passing::default(),
        });
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let Batch { values, times, hashes } = batch.take::<T>()?;
        check_times(values.len(), &times)?;
        let records = Records::new(values);
        let (windows, aggregate, selector) = (self.windows, &*self.aggregate, &*self.selector);
        // the usual case first: all records in the same windows, none of which has fired
        if let Some(oldest) = open.common(&windows, &times) {
            let latest = windows.latest(times[0]);
            let keys = Keys { records: &records, selector, chosen: None };
            let mut start = oldest;
            loop {
                let add = |i: usize, acc: &mut A::Acc| {
                    if let Some(value) = records.take(i, start == latest) {
                        aggregate.add(acc, value);
                    }
                };
                open.state
                    .update_batch(start, &hashes, &keys, || aggregate.create(), add)
                    .map_err(StateError::into_error)?;
                if start == latest {
                    break;
                }
                start += windows.slide;
            }
            open.next_due = open.next_due.min(windows.last(oldest));
            return Ok(());
        }

        let (sorted, late, in_none) = open.sort(&windows, &times, &hashes);
        (0..in_none).for_each(|_| open.shell.in_no_window());
        for (start, chosen) in sorted {
            let last = windows.last(start);
            open.next_due = open.next_due.min(open.due_at(last));
            // with ascending windows a record's latest one is its last use
            let is_last = |i: usize| windows.latest(times[i]) == start;
            // within the allowed lateness: a new result for each record
            let fired = |i: &u32| open.shell.has_fired(last, hashes[*i as usize]);
            let (again, chosen): (Vec<u32>, Vec<u32>) = match open.shell.clock.is_even() {
                true if open.has_fired(last) => (chosen, Vec::new()),
                true => (Vec::new(), chosen),
                false => chosen.into_iter().partition(fired),
            };
            if !again.is_empty() {
                for i in again {
                    let i = i as usize;
                    let Some(key) = records.key(selector, i) else { continue };
                    let Some(value) = records.take(i, is_last(i)) else { continue };
                    let result = open.state.update(
                        start,
                        hashes[i],
                        &key,
                        || aggregate.create(),
                        |acc| {
                            aggregate.add(acc, value);
                            aggregate.result(acc)
                        },
                    );
                    let window = windows.window(start);
                    open.shell.result(&*self.emit, &key, window, result.map_err(StateError::into_error)?)?;
                }
            }
            if chosen.is_empty() {
                continue;
            }
            let keys = Keys { records: &records, selector, chosen: Some(&chosen) };
            let own: Vec<KeyHash> = chosen.iter().map(|i| hashes[*i as usize]).collect();
            let add = |n: usize, acc: &mut A::Acc| {
                let i = keys.at(n);
                if let Some(value) = records.take(i, is_last(i)) {
                    aggregate.add(acc, value);
                }
            };
            open.state
                .update_batch(start, &own, &keys, || aggregate.create(), add)
                .map_err(StateError::into_error)?;
        }
        for i in late {
            if let Some(value) = records.take(i as usize, true) {
                open.shell.late(value, times[i as usize])?;
            }
        }
        open.shell.flush(out);
        Ok(())
    }

    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let to = watermark.as_millis().max(open.shell.clock.watermark());
        if to >= open.next_due {
            open.plan(&self.windows, to)?;
        }
        open.shell.clock.advance(to);
        open.passing.hold(watermark);
        if open.due.is_empty() && open.walk.is_none() {
            open.shell.clock.settle();
            open.passing.release(out);
        }
        Ok(())
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let mut room = out.room().min(SLICE);
        loop {
            if let Some(walk) = &mut open.walk {
                let start = walk.namespace();
                let more = walk.next_slice(room, &mut open.slice).map_err(StateError::into_error)?;
                room -= open.slice.len().min(room);
                let (window, last) = (self.windows.window(start), self.windows.last(start));
                for (hash, key, acc) in open.slice.drain(..) {
                    // a key group that was past this window before the restore has fired it
                    if !open.shell.clock.is_even() && open.shell.clock.floor(hash) >= last {
                        continue;
                    }
                    open.shell.result(&*self.emit, &key, window, self.aggregate.result(&acc))?;
                }
                if !more {
                    open.walk = None;
                }
            } else {
                match open.due.pop_front() {
                    Some(Due::Fire { start, purge: true }) => {
                        open.walk = Some(open.state.take_namespace(start).map_err(StateError::into_error)?);
                    }
                    Some(Due::Fire { start, purge: false }) => {
                        open.walk = Some(open.state.read_namespace(start).map_err(StateError::into_error)?);
                    }
                    Some(Due::Purge { start }) => {
                        open.state.remove_namespace(start).map_err(StateError::into_error)?;
                    }
                    None => break,
                }
            }
            if room == 0 && (open.walk.is_some() || !open.due.is_empty()) {
                open.shell.flush(out);
                return Ok(true);
            }
        }
        open.shell.flush(out);
        open.shell.clock.settle();
        open.passing.release(out);
        Ok(false)
    }

    fn snapshot(&mut self, id: CheckpointId, form: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        self.open.as_mut().ok_or_else(not_open)?.shell.snapshot(id, form)
    }

    checkpoint_notices!(open => shell.backend());
}
