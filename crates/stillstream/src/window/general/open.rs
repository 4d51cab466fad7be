//! What is done with records, windows and timers once the operator is open.

use std::sync::Arc;

use stillstream_runtime::backends::{KeyedValue, Timers};
use stillstream_runtime::clock::Clock;
use stillstream_runtime::{OpenContext, PendingTimers};
use stillstream_state::{Data, Key, Keyed, KeyedBackend, KeyedValues, TimeDomain, Timer, TimerService};
use stillstream_types::{KeyGroups, KeyHash, Result, Timestamp};

use super::contents::Contents;
use super::key::{Place, WindowKey};
use super::sessions::{Added, Merged, Sessions};
use super::{Function, Parts, state};
use crate::functions::RuntimeContext;
use crate::window::TimeWindow;
use crate::window::context::WindowContext;
use crate::window::evictor::EvictorContext;
use crate::window::shell::{Passing, Shell};
use crate::window::states::{Forget, WindowStates};
use crate::window::trigger::{TimerRequest, Trigger, TriggerContext, TriggerResult};

/// One window of one key.
struct Here<K> {
    window: TimeWindow,
    /// Trigger state, timers and state per window.
    place: Place<K>,
    /// What it holds: elsewhere than `place` where windows have merged.
    contents: Place<K>,
}

pub(crate) struct Open<K, T, Tr, C, F>
where
    K: Key,
    T: Data,
    Tr: Trigger<T>,
    C: Contents<T>,
    F: Function<K, C::Out>,
{
    parts: Parts<T, Tr, C, F>,
    pub shell: Shell<WindowKey<K>, T, F::Out>,
    pub passing: Passing,
    groups: KeyGroups,
    clock: Arc<dyn Clock>,
    /// Processing time, as of the last look at the clock.
    now_ms: i64,
    store: C::Store<K>,
    trigger_states: KeyedValue<WindowKey<K>, Tr::State>,
    /// The binary form of a trigger state that takes no room.
    default_state: Vec<u8>,
    /// By key, with windows that merge.
    sessions: Option<KeyedValue<WindowKey<K>, Sessions>>,
    event_timers: Timers<WindowKey<K>, ()>,
    processing_timers: Timers<WindowKey<K>, ()>,
    function: F::Instance,
    forget: Vec<Forget>,
    pending_timers: PendingTimers,
    /// The input has ended: what is set for processing time from now on does not fire.
    ended: bool,
    /// Timers of processing time that fire because the input has ended.
    last_timers: Option<std::vec::IntoIter<Timer<WindowKey<K>, ()>>>,
    // empty between calls
    windows: Vec<TimeWindow>,
    requests: Vec<TimerRequest>,
    bytes: Vec<u8>,
}

impl<K, T, Tr, C, F> Open<K, T, Tr, C, F>
where
    K: Key,
    T: Data,
    Tr: Trigger<T>,
    C: Contents<T>,
    F: Function<K, C::Out>,
{
    pub fn new(parts: Parts<T, Tr, C, F>, context: &OpenContext) -> Result<Self> {
        let mut shell = Shell::open(context, &parts.settings)?;
        let backend = shell.backend();
        let store = state(parts.contents.open(backend))?;
        let trigger_states = state(backend.keyed_value("window-trigger"))?;
        let windows_merge = parts.windows.merge();
        let sessions = windows_merge.then(|| backend.keyed_value("window-sessions")).transpose();
        let sessions = state(sessions)?;
        let event_timers = state(backend.timers("window-timers", TimeDomain::EventTime))?;
        let processing_timers = state(backend.timers("window-timers", TimeDomain::ProcessingTime))?;
        let mut forget = Vec::new();
        let function = parts.function.open(&mut WindowStates {
            backend,
            forget: &mut forget,
            windows_merge,
            refused: false,
            runtime: RuntimeContext::of(context),
        })?;
        let mut default_state = Vec::new();
        Tr::State::default().encode(&mut default_state);
        Ok(Self {
            parts,
            shell,
            passing: Passing::default(),
            groups: context.key_groups,
            now_ms: context.clock.now_ms(),
            clock: context.clock.clone(),
            store,
            trigger_states,
            default_state,
            sessions,
            event_timers,
            processing_timers,
            function,
            forget,
            pending_timers: context.pending_timers,
            ended: false,
            last_timers: None,
            windows: Vec::new(),
            requests: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// All input is through.
    pub fn close(&mut self) -> Result<()> {
        self.parts.function.close(&mut self.function)
    }

    pub fn look_at_clock(&mut self) {
        self.now_ms = self.clock.now_ms();
    }

    /// The operator's watermark.
    pub fn watermark(&self) -> Timestamp {
        Timestamp::from_millis(self.shell.clock.watermark())
    }

    fn timers(&self, domain: TimeDomain) -> &Timers<WindowKey<K>, ()> {
        match domain {
            TimeDomain::EventTime => &self.event_timers,
            TimeDomain::ProcessingTime => &self.processing_timers,
        }
    }

    pub fn is_due(&self, domain: TimeDomain, up_to: Timestamp) -> bool {
        // nothing is due before the first watermark
        up_to > Timestamp::MIN && self.timers(domain).peek_next_time().is_some_and(|next| next <= up_to)
    }

    /// When the next timer of processing time is due.
    pub fn next_processing_time(&self) -> i64 {
        self.processing_timers.peek_next_time().map_or(i64::MAX, Timestamp::as_millis)
    }

    fn at(&self, place: Place<K>, contents: Option<TimeWindow>) -> Here<K> {
        // a place is always that of a window; without one it is the key's, of which there are no timers
        let window = place.key.window.unwrap_or(TimeWindow::GLOBAL);
        let contents = match contents {
            Some(other) if other != window => place.with(Some(other), self.groups),
            _ => place.clone(),
        };
        Here { window, place, contents }
    }

    /// When a window is forgotten, and by which clock; `None`: never.
    fn cleanup(&self, window: TimeWindow) -> Option<(TimeDomain, Timestamp)> {
        let domain = self.parts.windows.domain()?;
        let last = window.last().as_millis();
        let at = match domain {
            TimeDomain::EventTime => self.shell.purge_at(last),
            TimeDomain::ProcessingTime => last,
        };
        (at < i64::MAX).then_some((domain, Timestamp::from_millis(at)))
    }

    fn is_late(&self, window: TimeWindow, hash: KeyHash) -> bool {
        self.parts.windows.domain() == Some(TimeDomain::EventTime)
            && self.shell.is_late(window.last().as_millis(), hash)
    }

    /// A record of a key; `hash`: the key's own.
    pub fn record(&mut self, key: &K, hash: KeyHash, record: T, time: Option<i64>) -> Result<()> {
        let mut windows = std::mem::take(&mut self.windows);
        self.parts.windows.assign(&record, time, self.now_ms, &mut windows)?;
        let (mut record, mut taken) = (Some(record), false);
        for (i, window) in windows.iter().enumerate() {
            let here = if self.sessions.is_some() {
                let now = self.join(key, *window, hash)?;
                now.map(|now| self.at(Place::of(key, Some(now.window), self.groups), Some(now.contents)))
            } else if self.is_late(*window, hash) {
                None
            } else {
                Some(self.at(Place::of(key, Some(*window), self.groups), None))
            };
            let (Some(here), Some(value)) = (here, &record) else { continue };
            taken = true;
            let at = time.map(Timestamp::from_millis);
            let result = self.ask(&here, |trigger, own, ctx| trigger.on_element(value, at, own, ctx))?;
            let value = if i + 1 == windows.len() { record.take() } else { record.clone() };
            if let Some(value) = value {
                state(self.parts.contents.add(&self.store, &here.contents, value, time))?;
            }
            self.act(&here, result, time)?;
            if let Some((domain, at)) = self.cleanup(here.window) {
                self.set(&here.place, TimerRequest { domain, at, delete: false })?;
            }
        }
        let in_none = windows.is_empty();
        self.windows = windows;
        match record {
            Some(record) if !taken => self.not_taken(record, hash, time, in_none),
            _ => Ok(()),
        }
    }

    /// A record that no window takes.
    fn not_taken(&mut self, record: T, hash: KeyHash, time: Option<i64>, in_none: bool) -> Result<()> {
        match time {
            Some(time)
                if self.parts.windows.domain() == Some(TimeDomain::EventTime)
                    && self.shell.is_late(time, hash) =>
            {
                self.shell.late(record, time)
            }
            _ if in_none => {
                self.shell.in_no_window();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds a window to those of the key, and merges; gives back the window that the record is in, unless
    /// that is late.
    fn join(&mut self, key: &K, window: TimeWindow, hash: KeyHash) -> Result<Option<Merged>> {
        let Some(all) = self.sessions.clone() else { return Ok(None) };
        let own = Place::of(key, None, self.groups);
        let mut sessions = state(all.get(own.hash, &own.key))?.unwrap_or_default();
        let Added { now, merged } = sessions.add(window);
        if self.is_late(now.window, hash) {
            // it has merged with no other: a window that is there is not late
            return Ok(None);
        }
        state(all.insert(own.hash, &own.key, sessions))?;
        if !merged.is_empty() {
            self.merge(own.with(Some(now.window), self.groups), now, &merged)?;
        }
        Ok(Some(now))
    }

    /// Makes one window of several: trigger states, timers and contents.
    fn merge(&mut self, place: Place<K>, now: Merged, merged: &[Merged]) -> Result<()> {
        let here = self.at(place, Some(now.contents));
        let old: Vec<Here<K>> = merged
            .iter()
            .map(|old| self.at(here.place.with(Some(old.window), self.groups), Some(old.contents)))
            .collect();
        let states = old.iter().map(|old| self.trigger_state(&old.place)).collect::<Result<Vec<_>>>()?;
        let taken = states.clone();
        self.ask(&here, |trigger, own, ctx| {
            trigger.on_merge(own, taken, ctx)?;
            Ok(TriggerResult::Continue)
        })?;
        for (old, own) in old.iter().zip(states).filter(|(old, _)| old.window != here.window) {
            self.clear_trigger(old, &own)?;
            if let Some((domain, at)) = self.cleanup(old.window) {
                self.set(&old.place, TimerRequest { domain, at, delete: true })?;
            }
        }
        for old in old.iter().filter(|old| old.contents.key != here.contents.key) {
            state(self.parts.contents.merge(&self.store, &here.contents, &old.contents))?;
        }
        Ok(())
    }

    fn trigger_state(&self, place: &Place<K>) -> Result<Tr::State> {
        match self.default_state.is_empty() {
            // a state without content, as most triggers have
            true => Ok(Tr::State::default()),
            false => Ok(state(self.trigger_states.get(place.hash, &place.key))?.unwrap_or_default()),
        }
    }

    /// Calls the trigger, then keeps its state and does what it says about timers.
    fn ask(
        &mut self,
        here: &Here<K>,
        f: impl FnOnce(&Tr, &mut Tr::State, &mut TriggerContext<'_>) -> Result<TriggerResult>,
    ) -> Result<TriggerResult> {
        let mut own = self.trigger_state(&here.place)?;
        let mut ctx = TriggerContext {
            window: here.window,
            watermark: Timestamp::from_millis(self.shell.clock.at(here.place.hash)),
            now_ms: self.now_ms,
            requests: &mut self.requests,
        };
        let result = f(&self.parts.trigger, &mut own, &mut ctx)?;
        if !self.default_state.is_empty() {
            self.bytes.clear();
            own.encode(&mut self.bytes);
            let place = &here.place;
            match self.bytes == self.default_state {
                true => state(self.trigger_states.remove(place.hash, &place.key)).map(drop)?,
                false => state(self.trigger_states.insert(place.hash, &place.key, own))?,
            }
        }
        let cleanup = self.cleanup(here.window);
        self.do_requests(here, |request| !request.delete || cleanup != Some((request.domain, request.at)))?;
        Ok(result)
    }

    /// Sets and deletes the timers that a trigger has asked for.
    fn do_requests(&mut self, here: &Here<K>, allowed: impl Fn(&TimerRequest) -> bool) -> Result<()> {
        let mut requests = std::mem::take(&mut self.requests);
        for request in requests.drain(..).filter(allowed) {
            self.set(&here.place, request)?;
        }
        self.requests = requests;
        Ok(())
    }

    fn set(&self, place: &Place<K>, request: TimerRequest) -> Result<()> {
        let timers = self.timers(request.domain);
        let timer = Timer { time: request.at, hash: place.hash, key: place.key.clone(), namespace: () };
        state(if request.delete { timers.unset(timer) } else { timers.set(timer) })
    }

    /// Does what the trigger has said. `time`: event time of the record or timer.
    fn act(&mut self, here: &Here<K>, result: TriggerResult, time: Option<i64>) -> Result<()> {
        if result.is_fire() {
            let (contents, function, instance) =
                (&self.parts.contents, &self.parts.function, &mut self.function);
            let watermark = Timestamp::from_millis(self.shell.clock.at(here.place.hash));
            let evicting = EvictorContext { window: here.window, watermark, now_ms: self.now_ms };
            let (results, sides) = self.shell.outputs();
            let mut ctx = context(here, self.groups, time, watermark, self.now_ms, results, sides);
            contents.fire(&self.store, &here.contents, evicting, |input| {
                function.call(instance, input, &mut ctx)
            })?;
        }
        match result.is_purge() {
            true => state(self.parts.contents.clear(&self.store, &here.contents)),
            false => Ok(()),
        }
    }

    fn clear_trigger(&mut self, here: &Here<K>, own: &Tr::State) -> Result<()> {
        let mut ctx = TriggerContext {
            window: here.window,
            watermark: Timestamp::from_millis(self.shell.clock.at(here.place.hash)),
            now_ms: self.now_ms,
            requests: &mut self.requests,
        };
        self.parts.trigger.clear(own, &mut ctx)?;
        if !self.default_state.is_empty() {
            state(self.trigger_states.remove(here.place.hash, &here.place.key))?;
        }
        self.do_requests(here, |_| true)
    }

    /// Fires timers that are due, up to a limit, and says whether there are more.
    pub fn fire(&mut self, domain: TimeDomain, up_to: Timestamp, room: usize) -> Result<bool> {
        self.look_at_clock();
        for _ in 0..room {
            if !self.is_due(domain, up_to) {
                return Ok(false);
            }
            let Some(timer) = state(self.timers(domain).pop_due(up_to))? else { return Ok(false) };
            self.timer(domain, timer)?;
        }
        Ok(self.is_due(domain, up_to))
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Sees to the timers of processing time that are set when the input ends; says when it wants to be asked
    /// again.
    pub fn end_of_input(&mut self, now_ms: i64, room: usize) -> Result<Option<i64>> {
        let next = self.processing_timers.peek_next_time();
        let again = match (self.pending_timers, next) {
            (PendingTimers::Drop, _) => None,
            (PendingTimers::Fire, _) => self.fire_last(room)?.then_some(now_ms),
            // they fire as ever; one that is due does so before this is asked again
            (PendingTimers::Await, next) => next.map(|next| next.as_millis().max(now_ms.saturating_add(1))),
        };
        self.ended = again.is_none();
        Ok(again)
    }

    /// Fires some of the timers that were set when the input ended; says whether there are more.
    fn fire_last(&mut self, room: usize) -> Result<bool> {
        self.look_at_clock();
        let mut last = match self.last_timers.take() {
            Some(last) => last,
            None => {
                let mut all = Vec::new();
                while let Some(timer) = state(self.processing_timers.pop_due(Timestamp::MAX))? {
                    all.push(timer);
                }
                all.into_iter()
            }
        };
        for timer in last.by_ref().take(room) {
            self.timer(TimeDomain::ProcessingTime, timer)?;
        }
        let more = last.len() > 0;
        self.last_timers = Some(last);
        Ok(more)
    }

    fn timer(&mut self, domain: TimeDomain, timer: Timer<WindowKey<K>, ()>) -> Result<()> {
        let (at, place) = (timer.time, Place { key: timer.key, hash: timer.hash });
        let contents = match (&self.sessions, place.key.window) {
            (Some(all), Some(window)) => {
                let own = place.with(None, self.groups);
                let contents = state(all.with(own.hash, &own.key, |sessions| {
                    sessions.and_then(|sessions| sessions.contents_of(window))
                }))?;
                // a trigger has left a timer of a window that is part of another one now, or forgotten
                if contents.is_none() {
                    return Ok(());
                }
                contents
            }
            _ => None,
        };
        let here = self.at(place, contents);
        let result = self.ask(&here, |trigger, own, ctx| match domain {
            TimeDomain::EventTime => trigger.on_event_time(at, own, ctx),
            TimeDomain::ProcessingTime => trigger.on_processing_time(at, own, ctx),
        })?;
        let time = (domain == TimeDomain::EventTime).then_some(at.as_millis());
        self.act(&here, result, time)?;
        match self.cleanup(here.window) == Some((domain, at)) {
            true => self.clear(&here, time),
            false => Ok(()),
        }
    }

    /// Forgets a window.
    fn clear(&mut self, here: &Here<K>, time: Option<i64>) -> Result<()> {
        state(self.parts.contents.clear(&self.store, &here.contents))?;
        let own = self.trigger_state(&here.place)?;
        self.clear_trigger(here, &own)?;
        let watermark = Timestamp::from_millis(self.shell.clock.at(here.place.hash));
        let (results, sides) = self.shell.outputs();
        let mut ctx = context(here, self.groups, time, watermark, self.now_ms, results, sides);
        self.parts.function.clear(&mut self.function, &mut ctx)?;
        for forget in &self.forget {
            state(forget(here.place.current_key()))?;
        }
        if let Some(all) = &self.sessions {
            let own = here.place.with(None, self.groups);
            let mut sessions = state(all.get(own.hash, &own.key))?.unwrap_or_default();
            sessions.retire(here.window);
            match sessions.is_empty() {
                true => state(all.remove(own.hash, &own.key)).map(drop)?,
                false => state(all.insert(own.hash, &own.key, sessions))?,
            }
        }
        Ok(())
    }
}

/// The context of a call about a window.
fn context<'a, K: Key, O: Data>(
    here: &'a Here<K>,
    groups: KeyGroups,
    time: Option<i64>,
    watermark: Timestamp,
    now_ms: i64,
    out: &'a mut crate::collector::Collector<O>,
    sides: &'a mut crate::side_output::SideCollectors,
) -> WindowContext<'a, K, O> {
    // a global window has no last moment: its results have the time of what made it fire
    let time = if here.window.is_global() { time } else { Some(here.window.last().as_millis()) };
    out.set_time(time);
    WindowContext {
        key: &here.place.key.key,
        window: here.window,
        place: &here.place,
        groups,
        time,
        watermark,
        now_ms,
        out,
        sides,
    }
}
