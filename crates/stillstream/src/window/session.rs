//! Session windows: the sessions of a key in one value, and a timer for the earliest thing to do about them.

use std::sync::Arc;

use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output};
use stillstream_state::{Aggregate, Data, Key, KeyedValue, StateError, TimeDomain, Timers};
use stillstream_types::{CheckpointId, KeyHash, Result, Timestamp};

use super::TimeWindow;
use super::shell::{Emit, Passing, SLICE, Settings, Shell, check_times, not_open};

/// A session: start, end (exclusive), whether it has fired as it is, and its accumulator.
type Burst<Acc> = (i64, i64, bool, Acc);

struct Open<K, T, Acc, R> {
    shell: Shell<K, T, R>,
    /// The sessions of a key, ascending; no two touch. Whether one has fired is stored, because after a restore with another
    /// parallelism the watermark can be behind the one that fired it.
    sessions: KeyedValue<K, Vec<Burst<Acc>>>,
    /// For each key one at the earliest time at which a session is to fire or to be forgotten, or before. Extending a
    /// session that has not fired leaves its timer where it is: when due, it moves on.
    timers: Timers<K, ()>,
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

/// Puts a record into the sessions of its key. Returns the place of its session, and whether one that has not fired, and so
/// has its timer, is part of it.
fn add<A: Aggregate>(
    sessions: &mut Vec<Burst<A::Acc>>,
    aggregate: &A,
    value: A::In,
    start: i64,
    end: i64,
) -> (usize, bool) {
    // sessions that touch, as in Flink
    let from = sessions.partition_point(|session| session.1 < start);
    let until = sessions.partition_point(|session| session.0 <= end);
    if from >= until {
        let mut acc = aggregate.create();
        aggregate.add(&mut acc, value);
        sessions.insert(from, (start, end, false, acc));
        return (from, false);
    }
    let waiting = sessions[from..until].iter().any(|session| !session.2);
    let others: Vec<_> = sessions.drain(from + 1..until).collect();
    let session = &mut sessions[from];
    for (_, other_end, _, acc) in others {
        session.1 = session.1.max(other_end);
        aggregate.merge(&mut session.3, acc);
    }
    (session.0, session.1, session.2) = (session.0.min(start), session.1.max(end), false);
    aggregate.add(&mut session.3, value);
    (from, waiting)
}

impl<K: Key, T: Data, Acc: Data, R: Data> Open<K, T, Acc, R> {
    /// Adds a record to the sessions of its key, and gives back the session's window and result if it fires at once.
    fn add<A: Aggregate<In = T, Acc = Acc>>(
        &mut self,
        aggregate: &A,
        hash: KeyHash,
        key: &K,
        value: T,
        (start, end): (i64, i64),
    ) -> Result<Option<(TimeWindow, A::Out)>, StateError> {
        let shell = &self.shell;
        let (timer, fired) = self.sessions.update(hash, key, Vec::new, |sessions| {
            let (at, waiting) = add(sessions, aggregate, value, start, end);
            let session = &mut sessions[at];
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
            let at = Timestamp::from_millis(at);
            self.timers.register(at, hash, key, ())?;
        }
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
        self.open = Some(Open { shell, sessions, timers, passing: Passing::default() });
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let Batch { values, times, hashes } = batch.take::<T>()?;
        check_times(values.len(), &times)?;
        for ((value, time), hash) in values.into_iter().zip(times).zip(hashes) {
            let key = self.selector.key(&value);
            let (start, end) = (time, time.saturating_add(self.gap));
            if open.shell.is_late(end.saturating_sub(1), hash) {
                let touches = open.sessions.with(hash, &key, |sessions| {
                    sessions.is_some_and(|all| all.iter().any(|s| s.0 <= end && s.1 >= start))
                });
                if !touches.map_err(StateError::into_error)? {
                    open.shell.late(value, time)?;
                    continue;
                }
            }
            let fired = open.add(&*self.aggregate, hash, &key, value, (start, end));
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
        let (now, mut room) = (Timestamp::from_millis(open.shell.clock.watermark()), out.room().min(SLICE));
        // nothing is due before the first watermark
        while now > Timestamp::MIN
            && let Some(timer) = open.timers.pop_due(now).map_err(StateError::into_error)?
        {
            let (at, mut next, mut fired) = (timer.time.as_millis(), None::<i64>, Vec::new());
            let shell = &open.shell;
            let update = open.sessions.update(timer.hash, &timer.key, Vec::new, |sessions| {
                sessions.retain_mut(|(start, end, has_fired, acc)| {
                    let last = end.saturating_sub(1);
                    if !*has_fired && last <= at {
                        fired.push((TimeWindow::of(*start, *end), self.aggregate.result(acc)));
                        *has_fired = true;
                    }
                    let due = if *has_fired { shell.purge_at(last) } else { last };
                    let keep = due > at;
                    if keep {
                        next = Some(next.map_or(due, |next| next.min(due)));
                    }
                    keep
                });
                sessions.is_empty()
            });
            if update.map_err(StateError::into_error)? {
                open.sessions.remove(timer.hash, &timer.key).map_err(StateError::into_error)?;
            }
            if let Some(next) = next {
                let next = Timestamp::from_millis(next);
                let register = open.timers.register(next, timer.hash, &timer.key, ());
                register.map_err(StateError::into_error)?;
            }
            for (window, result) in fired {
                open.shell.result(&*self.emit, &timer.key, window, result)?;
            }
            room -= 1;
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

    fn snapshot(&mut self, id: CheckpointId) -> Result<Option<AsyncSnapshot>> {
        self.open.as_mut().ok_or_else(not_open)?.shell.snapshot(id)
    }

    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        if let Some(open) = &mut self.open {
            open.shell.backend().checkpoint_completed(id);
        }
        Ok(())
    }

    fn checkpoint_aborted(&mut self, id: CheckpointId) -> Result<()> {
        if let Some(open) = &mut self.open {
            open.shell.backend().checkpoint_aborted(id);
        }
        Ok(())
    }
}
