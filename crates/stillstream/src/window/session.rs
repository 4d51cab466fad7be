//! Session windows: each key has its few sessions in one value, and a timer for the end of each.

use std::sync::Arc;

use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, OpenContext, Operator, Output};
use stillstream_state::{
    Data, KeyedStateBackend, KeyedValue, OperatorStateBackend, StateError, TimeDomain, Timer, Timers,
};
use stillstream_types::{CheckpointId, Error, ErrorKind, KeyHash, Result, Timestamp};

use super::TimeWindow;
use super::event_clock::EventClock;
use super::fixed::SLICE;
use super::function::WindowLogic;
use super::keyed_batch::KeyedBatch;
use super::late::{LatePolicy, LateRecords};
use super::sessions::{Entry, Next, Rules, max_timestamp};
use crate::collector::Collector;
use crate::operators::keyed_state::{freeze, open_keyed, open_operator_state};

struct Opened<K, T, A> {
    keyed: KeyedStateBackend<K>,
    operator: OperatorStateBackend,
    state: KeyedValue<K, Vec<Entry<A>>>,
    timers: Timers<K, ()>,
    clock: EventClock,
    late: LateRecords<T>,
    name: Arc<str>,
}

/// One parallel instance.
pub(crate) struct SessionWindows<T: Data, S: KeySelector<T>, L: WindowLogic<S::Key, T>> {
    rules: Rules,
    policy: LatePolicy<T>,
    selector: Arc<S>,
    logic: L,
    opened: Option<Opened<S::Key, T, L::Acc>>,
    /// A watermark whose timers are firing.
    due: Option<Timestamp>,
    out: Collector<L::Out>,
    // kept for its memory
    keys: Vec<S::Key>,
}

fn not_open() -> Error {
    Error::new(ErrorKind::Plan, "the operator is not open")
}

impl<T: Data, S: KeySelector<T>, L: WindowLogic<S::Key, T>> SessionWindows<T, S, L> {
    pub fn new(rules: Rules, policy: LatePolicy<T>, selector: Arc<S>, logic: L) -> Self {
        let (out, keys) = (Collector::default(), Vec::new());
        Self { rules, policy, selector, logic, opened: None, due: None, out, keys }
    }

    fn emit(&mut self, key: &S::Key, start: i64, end: i64, acc: L::Acc) -> Result<()> {
        self.out.set_time(Some(end.saturating_sub(1)));
        self.logic.fire(key, TimeWindow::from_millis(start, end), acc, &mut self.out)
    }

    fn process_batch(
        &mut self,
        batch: AnyBatch,
        opened: &mut Opened<S::Key, T, L::Acc>,
        out: &mut Output,
    ) -> Result<()> {
        let batch = KeyedBatch::take(batch, &*self.selector, std::mem::take(&mut self.keys))?;
        let KeyedBatch { values, times, hashes, keys } = batch;
        let (rules, logic, clock, timers) = (self.rules, &self.logic, &opened.clock, &opened.timers);
        let mut values = values.into_iter();
        let (mut late, mut bare, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let each = |i: usize, sessions: &mut Vec<Entry<L::Acc>>| {
            let Some(record) = values.next() else { return };
            let placed = rules.place(
                sessions,
                times[i],
                clock.at(hashes[i]),
                || logic.create(),
                |acc, other| logic.merge(acc, other),
            );
            let Some((at, next)) = placed else {
                late.push((i, record));
                if sessions.is_empty() {
                    bare.push(i);
                }
                return;
            };
            logic.add(&mut sessions[at].3, record);
            match next {
                Next::Nothing => {}
                Next::Timer(time) => {
                    timers.register(Timestamp::from_millis(time), hashes[i], &keys[i], ());
                }
                Next::FireAgain(forgotten_at) => {
                    timers.register(Timestamp::from_millis(forgotten_at), hashes[i], &keys[i], ());
                    again.push(i);
                }
            }
        };
        opened.state.update_batch(&hashes, &keys, Vec::new, each).map_err(StateError::into_error)?;
        for (i, record) in late {
            opened.late.take(record, times[i])?;
        }
        // a late record of an unknown key has left an entry without a session
        for i in bare {
            let empty = |sessions: Option<&Vec<Entry<L::Acc>>>| sessions.is_some_and(Vec::is_empty);
            if opened.state.with(hashes[i], &keys[i], empty).map_err(StateError::into_error)? {
                opened.state.remove(hashes[i], &keys[i]).map_err(StateError::into_error)?;
            }
        }
        self.fire_again(again, &times, &hashes, &keys, opened)?;
        self.keys = keys;
        opened.late.flush(out);
        self.out.flush(out);
        Ok(())
    }

    /// Emits the sessions that these records have changed after they had fired, each once.
    fn fire_again(
        &mut self,
        records: Vec<usize>,
        times: &[i64],
        hashes: &[KeyHash],
        keys: &[S::Key],
        opened: &Opened<S::Key, T, L::Acc>,
    ) -> Result<()> {
        let mut seen: Vec<(KeyHash, i64, usize)> = Vec::new();
        for i in records {
            let holds = |session: &&Entry<L::Acc>| session.0 <= times[i] && times[i] < session.1 && session.2;
            let session = opened
                .state
                .with(hashes[i], &keys[i], |sessions| {
                    sessions.and_then(|all| all.iter().find(holds).cloned())
                })
                .map_err(StateError::into_error)?;
            let Some((start, end, _, acc)) = session else { continue };
            let known = |other: &(KeyHash, i64, usize)| {
                other.0 == hashes[i] && other.1 == start && keys[other.2] == keys[i]
            };
            if !seen.iter().any(known) {
                seen.push((hashes[i], start, i));
                self.emit(&keys[i], start, end, acc)?;
            }
        }
        Ok(())
    }

    /// Fires and forgets what is due for the key of a timer.
    fn on_timer(&mut self, timer: Timer<S::Key, ()>, opened: &Opened<S::Key, T, L::Acc>) -> Result<()> {
        let Timer { time, hash, key, .. } = timer;
        let now = time.as_millis();
        let Some(sessions) = opened.state.remove(hash, &key).map_err(StateError::into_error)? else {
            return Ok(());
        };
        let register = |at: i64| opened.timers.register(Timestamp::from_millis(at), hash, &key, ());
        let mut kept = Vec::new();
        for mut session in sessions {
            let max = max_timestamp(&session);
            let forgotten_at = max.saturating_add(self.rules.lateness);
            if !session.2 && max <= now {
                if self.rules.lateness == 0 {
                    self.emit(&key, session.0, session.1, session.3)?;
                    continue;
                }
                self.emit(&key, session.0, session.1, session.3.clone())?;
                session.2 = true;
                register(forgotten_at);
            } else if session.2 && forgotten_at <= now {
                continue;
            } else if !session.2 && session.0 <= now {
                // the session has grown since the timer was registered
                register(max);
            }
            kept.push(session);
        }
        if !kept.is_empty() {
            opened.state.insert(hash, &key, kept).map_err(StateError::into_error)?;
        }
        Ok(())
    }

    fn work(
        &mut self,
        due: Timestamp,
        opened: &mut Opened<S::Key, T, L::Acc>,
        out: &mut Output,
    ) -> Result<bool> {
        for _ in 0..SLICE {
            let Some(timer) = opened.timers.pop_due(due) else {
                self.out.flush(out);
                opened.clock.settle();
                self.due = None;
                out.watermark(due);
                return Ok(false);
            };
            self.on_timer(timer, opened)?;
        }
        self.out.flush(out);
        Ok(true)
    }
}

impl<T: Data, S: KeySelector<T>, L: WindowLogic<S::Key, T>> Operator for SessionWindows<T, S, L> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let mut keyed = open_keyed::<S::Key>(context)?;
        let mut operator = open_operator_state(context)?;
        let state = keyed.keyed_value::<Vec<Entry<L::Acc>>>("sessions").map_err(StateError::into_error)?;
        let timers = keyed.timers::<()>("sessions", TimeDomain::EventTime).map_err(StateError::into_error)?;
        let clock = EventClock::open(&mut operator, context)?;
        let late = LateRecords::open(&self.policy, &context.name, context.counters.clone());
        let name = context.name.clone();
        self.opened = Some(Opened { keyed, operator, state, timers, clock, late, name });
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let mut opened = self.opened.take().ok_or_else(not_open)?;
        let result = self.process_batch(batch, &mut opened, out);
        self.opened = Some(opened);
        result
    }

    fn watermark(&mut self, watermark: Timestamp, _: &mut Output) -> Result<()> {
        self.opened.as_mut().ok_or_else(not_open)?.clock.advance(watermark.as_millis());
        self.due = Some(watermark);
        Ok(())
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        let Some(due) = self.due else { return Ok(false) };
        let mut opened = self.opened.take().ok_or_else(not_open)?;
        let result = self.work(due, &mut opened, out);
        self.opened = Some(opened);
        result
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Option<AsyncSnapshot>> {
        let Some(opened) = &mut self.opened else { return Ok(None) };
        opened.clock.save()?;
        freeze(&mut opened.keyed, Some(&opened.operator), &opened.name).map(Some)
    }
}
