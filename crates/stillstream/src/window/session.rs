//! Session windows: the sessions of a key in one value, and a timer for the earliest thing to do about them.

use std::sync::Arc;

use stillstream_runtime::backends::{KeyedValue, Timers};
use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output};
use stillstream_state::table::{KeyAt, KeysIn};
use stillstream_state::{
    Aggregate, Data, Key, KeyedBackend, KeyedValues, StateError, TimeDomain, Timer, TimerService,
};
use stillstream_types::{CheckpointId, KeyHash, Result, SnapshotForm, Timestamp};

use super::TimeWindow;
use super::key_sessions::KeySessions;
use super::shell::{Emit, Passing, SLICE, Settings, Shell, check_times, not_open};
use crate::operators::keyed_state::checkpoint_notices;
use crate::operators::records::{Keys, Records};

struct Open<K: Key, T, Acc: Data, R> {
    shell: Shell<K, T, R>,
    sessions: KeyedValue<K, KeySessions<Acc>>,
    /// For each session that has not fired one between its start and its last moment; for each key one at or
    /// before the earliest time at which a session that has fired is to be forgotten. Extending a session
    /// that has not fired leaves its timer where it is: when due, it moves on.
    timers: Timers<K, ()>,
    slice: Slice<K>,
    passing: Passing,
}

type OpenOf<T, S, A, E> = Open<
    <S as KeySelector<T>>::Key,
    T,
    <A as Aggregate>::Acc,
    <E as Emit<<S as KeySelector<T>>::Key, <A as Aggregate>::Out>>::Result,
>;

pub(crate) struct SessionWindows<T: Data, S: KeySelector<T>, A: Aggregate<In = T>, E: Emit<S::Key, A::Out>> {
    gap: i64,
    settings: Settings<T>,
    selector: Arc<S>,
    aggregate: Arc<A>,
    emit: Arc<E>,
    open: Option<OpenOf<T, S, A, E>>,
}

impl<T, S, A, E> SessionWindows<T, S, A, E>
where
    T: Data,
    S: KeySelector<T>,
    A: Aggregate<In = T>,
    E: Emit<S::Key, A::Out>,
{
    pub fn new(gap: i64, settings: Settings<T>, selector: Arc<S>, aggregate: Arc<A>, emit: Arc<E>) -> Self {
        Self { gap, settings, selector, aggregate, emit, open: None }
    }
}

/// When, the number of the timer in its slice, and what.
type Fired<Out> = (Timestamp, usize, TimeWindow, Out);

/// What is done for many keys at once; empty between calls.
struct Slice<K> {
    /// Timers to be registered.
    set: Vec<Timer<K, ()>>,
    /// Timers that fire.
    due: Vec<Timer<K, ()>>,
    hashes: Vec<KeyHash>,
    /// Keys, by the number of their timer, that have no session any more.
    done: Vec<usize>,
    /// Keys with many sessions, by the number of their first timer.
    crowded: Vec<usize>,
}

/// A key with more sessions than this is looked at once a slice, not for each of its timers.
const CROWDED: usize = 64;

/// The keys of a batch from one record on.
struct KeysFrom<'a, Ks>(&'a Ks, usize);

impl<K, Ks: KeyAt<K>> KeyAt<K> for KeysFrom<'_, Ks> {
    #[inline(always)]
    fn with<R>(&self, i: usize, f: impl FnOnce(&K) -> R) -> R {
        self.0.with(self.1 + i, f)
    }
}

impl<K: Key, T: Data, Acc: Data, R: Data> Open<K, T, Acc, R> {
    /// Adds records that are too new for their sessions to fire at once.
    fn add_all<A: Aggregate<In = T, Acc = Acc>>(
        &mut self,
        aggregate: &A,
        hashes: &[KeyHash],
        keys: &KeysFrom<'_, Keys<'_, T, impl KeySelector<T, Key = K>>>,
        span: impl Fn(usize) -> (i64, i64),
    ) -> Result<(), StateError> {
        let set = &mut self.slice.set;
        self.sessions.update_batch(hashes, keys, KeySessions::default, |i, sessions| {
            let (records, at) = (keys.0.records, keys.1 + i);
            let (start, end) = span(at);
            let merge = |acc: &mut Acc, other| aggregate.merge(acc, other);
            let (session, waiting) = sessions.join(start, end, || aggregate.create(), merge);
            // a session that has not fired has its timer
            let key = if waiting { None } else { records.key(keys.0.selector, at) };
            if let Some(value) = records.take(at, true) {
                aggregate.add(&mut session.3, value);
            }
            if let Some(key) = key {
                let time = Timestamp::from_millis(session.1.saturating_sub(1));
                set.push(Timer { time, hash: hashes[i], key, namespace: () });
            }
        })?;
        self.timers.set_all(set.drain(..))
    }

    /// Adds a record that is late, but not too late, and gives back its session's window and result if that
    /// fires at once.
    fn add_late<A: Aggregate<In = T, Acc = Acc>>(
        &mut self,
        aggregate: &A,
        hash: KeyHash,
        key: K,
        value: T,
        (start, end): (i64, i64),
    ) -> Result<Option<(TimeWindow, A::Out)>, StateError> {
        let shell = &self.shell;
        let (timer, fired) = self.sessions.update(hash, &key, KeySessions::default, |sessions| {
            let merge = |acc: &mut Acc, other| aggregate.merge(acc, other);
            let (session, waiting) = sessions.join(start, end, || aggregate.create(), merge);
            aggregate.add(&mut session.3, value);
            let last = session.1.saturating_sub(1);
            session.2 = shell.has_fired(last, hash);
            match session.2 {
                true => {
                    let window = TimeWindow::of(session.0, session.1);
                    (Some(shell.purge_at(last)), Some((window, aggregate.result(&session.3))))
                }
                false => ((!waiting).then_some(last), None),
            }
        })?;
        if let Some(at) = timer {
            let time = Timestamp::from_millis(at);
            self.timers.set(Timer { time, hash, key, namespace: () })?;
        }
        Ok(fired)
    }

    /// Does what the timers of the slice say: gives back what fires, in its order.
    ///
    /// The first timer of a key does all that is due up to the slice's last timer, in one pass over the key's
    /// sessions: so a key with many of them costs by slices, and not a pass for each.
    fn fire<A: Aggregate<Acc = Acc>>(&mut self, aggregate: &A) -> Result<Vec<Fired<A::Out>>, StateError> {
        let Slice { set, due, hashes, done, crowded } = &mut self.slice;
        let Some(last_due) = due.last().map(|timer| (timer.time, timer.hash)) else { return Ok(Vec::new()) };
        hashes.extend(due.iter().map(|timer| timer.hash));
        let (shell, mut fired) = (&self.shell, Vec::with_capacity(due.len()));
        self.sessions.update_batch(
            hashes,
            &KeysIn(|i: usize| &due[i].key),
            KeySessions::default,
            |i, sessions| {
                let timer = &due[i];
                if sessions.as_slice().len() > CROWDED {
                    let same = |j: &usize| due[*j].hash == timer.hash && due[*j].key == timer.key;
                    if crowded.iter().any(same) {
                        return;
                    }
                    crowded.push(i);
                }
                // what comes after the slice's last timer is not this slice's
                let limit = last_due.0.as_millis().saturating_sub(i64::from(timer.hash > last_due.1));
                let mut own = None::<i64>;
                let any = sessions.retain(|(start, end, has_fired, acc)| {
                    let last = end.saturating_sub(1);
                    if !*has_fired && last <= limit {
                        let time = timer.time.max(Timestamp::from_millis(last));
                        fired.push((time, i, TimeWindow::of(*start, *end), aggregate.result(acc)));
                        *has_fired = true;
                    }
                    let due = if *has_fired { shell.purge_at(last) } else { last };
                    // a session that begins later has a timer of its own, which is later too
                    if due > limit && (*has_fired || *start <= limit) {
                        own = Some(own.map_or(due, |own| own.min(due)));
                    }
                    due > limit
                });
                match own {
                    _ if !any => done.push(i),
                    Some(own) => set.push(Timer { time: Timestamp::from_millis(own), ..timer.clone() }),
                    None => {}
                }
            },
        )?;
        for i in done.drain(..) {
            self.sessions.remove(hashes[i], &due[i].key)?;
        }
        self.timers.set_all(set.drain(..))?;
        hashes.clear();
        crowded.clear();
        fired.sort_by_key(|(time, i, ..)| (*time, due[*i].hash));
        Ok(fired)
    }
}

impl<T, S, A, E> Operator for SessionWindows<T, S, A, E>
where
    T: Data,
    S: KeySelector<T>,
    A: Aggregate<In = T> + Send + Sync,
    E: Emit<S::Key, A::Out>,
{
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let mut shell = Shell::open(context, &self.settings)?;
        let sessions = shell.backend().keyed_value("window-contents").map_err(StateError::into_error)?;
        let timers = shell.backend().timers("window-timers", TimeDomain::EventTime);
        let timers = timers.map_err(StateError::into_error)?;
        let slice = Slice {
            set: Vec::new(),
            due: Vec::new(),
            hashes: Vec::new(),
            done: Vec::new(),
            crowded: Vec::new(),
        };
        self.open = Some(Open { shell, sessions, timers, slice, passing: Passing::default() });
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let Batch { values, times, hashes } = batch.take::<T>()?;
        check_times(values.len(), &times)?;
        let records = Records::new(values);
        let keys = Keys { records: &records, selector: &*self.selector, chosen: None };
        let span = |i: usize| (times[i], times[i].saturating_add(self.gap));
        let mut at = 0;
        while at < times.len() {
            let is_new = |i: &usize| !open.shell.has_fired(span(*i).1.saturating_sub(1), hashes[*i]);
            let new = (at..times.len()).take_while(is_new).count();
            if new > 0 {
                let added = open.add_all(&*self.aggregate, &hashes[at..at + new], &KeysFrom(&keys, at), span);
                added.map_err(StateError::into_error)?;
                at += new;
                continue;
            }
            let ((start, end), hash) = (span(at), hashes[at]);
            let (key, value) = (records.key(&*self.selector, at), records.take(at, true));
            at += 1;
            let (Some(key), Some(value)) = (key, value) else { continue };
            if open.shell.is_late(end.saturating_sub(1), hash) {
                let touches = open
                    .sessions
                    .with(hash, &key, |sessions| sessions.is_some_and(|all| all.touch(start, end)));
                if !touches.map_err(StateError::into_error)? {
                    open.shell.late(value, start)?;
                    continue;
                }
            }
            let fired = open.add_late(&*self.aggregate, hash, key.clone(), value, (start, end));
            if let Some((window, result)) = fired.map_err(StateError::into_error)? {
                open.shell.result(&*self.emit, &key, window, result)?;
            }
        }
        open.shell.flush(out);
        Ok(())
    }

    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        open.shell.clock.advance(watermark.as_millis());
        open.passing.hold(watermark);
        let now = Timestamp::from_millis(open.shell.clock.watermark());
        if open.timers.peek_next_time().is_none_or(|next| next > now) {
            open.shell.clock.settle();
            open.passing.release(out);
        }
        Ok(())
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let (now, mut room) =
            (Timestamp::from_millis(open.shell.clock.watermark()), out.room().clamp(1, SLICE));
        // nothing is due before the first watermark
        loop {
            if now > Timestamp::MIN {
                open.timers.pop_all_due(now, room, &mut open.slice.due).map_err(StateError::into_error)?;
            }
            if open.slice.due.is_empty() {
                break;
            }
            let fired = open.fire(&*self.aggregate).map_err(StateError::into_error)?;
            for (_, i, window, result) in fired {
                open.shell.result(&*self.emit, &open.slice.due[i].key, window, result)?;
            }
            room = room.saturating_sub(open.slice.due.len());
            open.slice.due.clear();
            if room == 0 {
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
