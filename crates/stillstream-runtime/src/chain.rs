//! A chain of operators in one subtask: what one emits, the next one takes, batch by batch.
//!
//! The deepest operator with work runs first, so that at most one batch's consequences are under way. A chain can pause: an
//! emission waits for room on the edges it reaches, or an operator (a sink whose client is busy) takes nothing now.

use std::collections::VecDeque;
use std::sync::Arc;

use stillstream_types::crash::crash_point;
use stillstream_types::{CheckpointId, Error, OperatorId, Result, Timestamp};

use crate::batch::AnyBatch;
use crate::event_time::EventTime;
use crate::operator::{AsyncSnapshot, Emission, Operator, Output, Source, SourceStatus, SplitEvent};
use crate::panics::catch;
use crate::plan::TaskOutput;
use crate::record_type;
use crate::turn::{Pace, Turn};

/// Timers or results that one call emits at most.
const EMISSION: usize = 1024;

/// Where a chain's outputs go.
pub(crate) trait Ports {
    fn send(&mut self, output: usize, batch: AnyBatch);
    /// Event time, behind everything that was sent so far.
    fn mark(&mut self, output: usize, time: EventTime);
}

/// Why a chain stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    /// Nothing is left to do.
    Quiet,
    /// An emission waits for credits.
    Gated,
    /// An operator takes nothing now; it wakes itself.
    NotReady,
    /// The turn is over.
    TurnOver,
}

enum Item {
    Batch(usize, AnyBatch),
    Watermark(Timestamp),
    Idle(bool),
    Split(SplitEvent),
}

enum Body {
    Source(Box<dyn Source>),
    Operator(Box<dyn Operator>),
}

struct Link {
    id: OperatorId,
    name: Arc<str>,
    body: Body,
    reach: Arc<[u32]>,
    inbox: VecDeque<Item>,
    /// A long emission is under way.
    emitting: bool,
    /// Whether it wants to be told processing time.
    timed: bool,
    /// How fast it takes records, and how fast it emits.
    pace: Pace,
    emission: Pace,
    /// What it has said of event time.
    time: EventTime,
    /// The end of its input has come, and it waits for timers of processing time before it takes it.
    holds_end: bool,
    /// The end of its input has been handed to it.
    has_ended: bool,
    /// Outputs fed by its main output, and by its side outputs.
    main: Vec<usize>,
    sides: Vec<(u32, usize)>,
    is_sink: bool,
}

pub(crate) struct Chain {
    links: Vec<Link>,
    scratch: Output,
    /// Splits of the source that wait for others.
    paused: Vec<u32>,
    /// Whether something was given to an output.
    sent: bool,
    /// Whether every operator is timed: see [`Turn`].
    watchful: bool,
    pub records_in: u64,
    pub records_out: u64,
}

impl Chain {
    pub fn new() -> Self {
        Self {
            links: Vec::new(),
            scratch: Output::default(),
            paused: Vec::new(),
            sent: false,
            watchful: true,
            records_in: 0,
            records_out: 0,
        }
    }

    fn add(
        &mut self,
        id: OperatorId,
        name: Arc<str>,
        reach: Arc<[u32]>,
        body: Body,
        outputs: &[TaskOutput],
        last: bool,
    ) {
        let at = self.links.len();
        let own = |side: bool| {
            outputs.iter().enumerate().filter(move |(_, o)| o.owner == at && o.side.is_some() == side)
        };
        let main: Vec<usize> = own(false).map(|(n, _)| n).collect();
        let sides: Vec<(u32, usize)> = own(true).map(|(n, o)| (o.side.unwrap_or(0), n)).collect();
        let is_sink = last && main.is_empty();
        self.links.push(Link {
            id,
            name,
            body,
            reach,
            inbox: VecDeque::new(),
            emitting: false,
            timed: true,
            pace: Pace::default(),
            emission: Pace::default(),
            time: EventTime::START,
            holds_end: false,
            has_ended: false,
            main,
            sides,
            is_sink,
        });
    }

    pub fn add_source(
        &mut self,
        id: OperatorId,
        name: Arc<str>,
        reach: Arc<[u32]>,
        source: Box<dyn Source>,
        outputs: &[TaskOutput],
        last: bool,
    ) {
        self.add(id, name, reach, Body::Source(source), outputs, last);
    }

    pub fn add_operator(
        &mut self,
        id: OperatorId,
        name: Arc<str>,
        reach: Arc<[u32]>,
        operator: Box<dyn Operator>,
        outputs: &[TaskOutput],
        last: bool,
    ) {
        self.add(id, name, reach, Body::Operator(operator), outputs, last);
    }

    /// Whether everything that came in has gone all the way.
    pub fn is_quiet(&self) -> bool {
        self.links.iter().all(|link| link.inbox.is_empty() && !link.emitting)
    }

    /// Edges that the head's output can reach.
    pub fn head_reach(&self) -> &[u32] {
        self.links.first().map_or(&[], |head| &head.reach)
    }

    /// Whether an operator behind the source wants it to wait for others.
    pub fn is_ahead(&mut self) -> bool {
        self.links.iter_mut().any(|link| match &mut link.body {
            Body::Operator(operator) => operator.is_ahead(),
            Body::Source(_) => false,
        })
    }

    /// Tells the source which of its splits wait for others from now on; returns whether any does.
    pub fn pause_splits(&mut self) -> Result<bool> {
        let mut splits = Vec::new();
        for link in &mut self.links {
            if let Body::Operator(operator) = &mut link.body {
                operator.splits_ahead(&mut splits);
            }
        }
        if splits != self.paused {
            let Some(Link { body: Body::Source(source), name, .. }) = self.links.first_mut() else {
                return Ok(false);
            };
            catch("its code", || source.pause(&splits)).map_err(|error| name_error(name, error))?;
            self.paused = splits;
        }
        Ok(!self.paused.is_empty())
    }

    pub fn push_batch(&mut self, port: usize, batch: AnyBatch) {
        self.links[0].inbox.push_back(Item::Batch(port, batch));
    }

    /// Event time has moved from `before` to `now` on the inputs together.
    pub fn push_time(&mut self, before: EventTime, now: EventTime) {
        let inbox = &mut self.links[0].inbox;
        // whoever is idle says nothing more; whoever is active again says that first
        if before.idle && !now.idle {
            inbox.push_back(Item::Idle(false));
        }
        if now.watermark > before.watermark {
            inbox.push_back(Item::Watermark(now.timestamp()));
        }
        if now.idle && !before.idle {
            inbox.push_back(Item::Idle(true));
        }
    }

    /// Whether every operator has been handed the end of its input and has done what followed from it.
    pub fn has_ended(&self) -> bool {
        self.is_quiet()
            && self.links.iter().all(|link| link.has_ended || matches!(link.body, Body::Source(_)))
    }

    /// The source at the head says that there will be no more records.
    pub fn end_source(&mut self, ports: &mut dyn Ports) {
        self.scratch.watermark(Timestamp::MAX);
        self.route(0, ports);
    }

    /// Moves what operator `at` emitted to the next one and to the outputs.
    fn route(&mut self, at: usize, ports: &mut dyn Ports) {
        let next = at + 1;
        while let Some(emission) = self.scratch.emitted.pop_front() {
            match emission {
                Emission::Batch(batch) => {
                    if at == 0 && matches!(self.links[0].body, Body::Source(_)) {
                        self.records_in += batch.len() as u64;
                    }
                    let to_next = next < self.links.len();
                    let main = &self.links[at].main;
                    let copies = main.len() + usize::from(to_next);
                    if copies == 0 {
                        if self.links[at].is_sink {
                            self.records_out += batch.len() as u64;
                        }
                        continue;
                    }
                    let mut rest = Some(batch);
                    for (n, output) in main.iter().enumerate() {
                        let copy = if n + 1 == copies { rest.take() } else { rest.clone() };
                        if let Some(copy) = copy {
                            self.sent = true;
                            ports.send(*output, copy);
                        }
                    }
                    if let Some(batch) = rest.filter(|_| to_next) {
                        self.links[next].inbox.push_back(Item::Batch(0, batch));
                    }
                }
                Emission::Side(side, batch) => {
                    let targets = self.links[at].sides.iter().filter(|(s, _)| *s == side);
                    for (_, output) in targets {
                        self.sent = true;
                        ports.send(*output, batch.clone());
                    }
                }
                Emission::Watermark(watermark) => {
                    let watermark = watermark.as_millis();
                    let time = self.links[at].time;
                    if watermark > time.watermark {
                        self.pass_on(at, EventTime { watermark, ..time }, ports);
                    }
                }
                Emission::Split(event) => {
                    if let Some(next) = self.links.get_mut(next) {
                        next.inbox.push_back(Item::Split(event));
                    }
                }
                Emission::Idle(idle) => {
                    let time = self.links[at].time;
                    if idle != time.idle {
                        self.pass_on(at, EventTime { idle, ..time }, ports);
                    }
                }
            }
        }
    }

    /// Operator `at` has said something new of event time: its outputs and the next operator learn of it.
    fn pass_on(&mut self, at: usize, time: EventTime, ports: &mut dyn Ports) {
        let link = &mut self.links[at];
        let before = std::mem::replace(&mut link.time, time);
        let outputs = link.main.iter().chain(link.sides.iter().map(|(_, output)| output));
        outputs.for_each(|output| ports.mark(*output, time));
        if let Some(next) = self.links.get_mut(at + 1) {
            next.inbox.push_back(match before.idle == time.idle {
                true => Item::Watermark(time.timestamp()),
                false => Item::Idle(time.idle),
            });
        }
    }

    /// Calls operator `at`, routes what it emits, and names it in its error.
    fn call<T>(
        &mut self,
        at: usize,
        ports: &mut dyn Ports,
        f: impl FnOnce(&mut Body, &mut Output) -> Result<T>,
    ) -> Result<T> {
        let link = &mut self.links[at];
        let (body, out) = (&mut link.body, &mut self.scratch);
        let result =
            catch("its code", || f(body, out)).map_err(|error| name_error(&self.links[at].name, error));
        self.route(at, ports);
        result
    }

    /// Says of which type the record was that an operator failed at, and how far the source had read, if it is in the chain.
    #[cold]
    fn at_record(&self, error: Error) -> Error {
        let place = match self.links.first().map(|head| &head.body) {
            // what is asked for the sake of a message must not be an error of its own
            Some(Body::Source(source)) => catch("its place", || Ok(source.place())).ok().flatten(),
            _ => None,
        };
        let Some(records) = record_type::taken() else { return error };
        let place = place.map_or_else(String::new, |place| format!("; the source had read up to {place}"));
        error.context(format!("at a record of type `{records}`{place}"))
    }

    /// Asks the source at the head for records: at most `max_records`, and no more than the slowest operator takes at once,
    /// since a barrier waits for all of them.
    pub fn poll_source(
        &mut self,
        max_records: usize,
        turn: &mut Turn<'_>,
        ports: &mut dyn Ports,
    ) -> Result<SourceStatus> {
        let slowest = self.links.iter().fold(Pace::default(), |pace, link| pace.slower(link.pace));
        let (room, before) = (turn.room(slowest).min(max_records), self.records_in);
        let status = self.call(0, ports, |body, out| match body {
            Body::Source(source) => source.poll(room, out),
            Body::Operator(_) => Ok(SourceStatus::Ended),
        })?;
        turn.used((self.records_in - before) as usize, &mut self.links[0].pace);
        Ok(status)
    }

    /// Works until nothing is left, or something has to wait. `gate` tells whether edges have room.
    pub fn run(
        &mut self,
        turn: &mut Turn<'_>,
        gate: &dyn Fn(&[u32]) -> bool,
        ports: &mut dyn Ports,
    ) -> Result<Pause> {
        turn.watchful = self.watchful;
        'work: loop {
            if std::mem::take(&mut self.sent) {
                turn.emitted();
            }
            for at in (0..self.links.len()).rev() {
                if self.links[at].emitting {
                    if !gate(&self.links[at].reach) {
                        return Ok(Pause::Gated);
                    }
                    if turn.is_over() {
                        return Ok(self.pause(Pause::TurnOver, turn));
                    }
                    self.resume(at, turn, ports)?;
                    continue 'work;
                }
                if self.links[at].inbox.is_empty() {
                    continue;
                }
                if turn.is_over() {
                    return Ok(self.pause(Pause::TurnOver, turn));
                }
                let ready = self.call(at, ports, |body, _| match body {
                    Body::Operator(operator) => operator.ready(),
                    Body::Source(_) => Ok(true),
                })?;
                if !ready {
                    return Ok(Pause::NotReady);
                }
                let Some(item) = self.links[at].inbox.pop_front() else { continue };
                match item {
                    Item::Batch(port, mut batch) => {
                        let room = turn.room(self.links[at].pace);
                        if batch.len() > room {
                            let rest = batch.split_off(room);
                            self.links[at].inbox.push_front(Item::Batch(port, rest));
                        }
                        let records = batch.len();
                        if self.links[at].is_sink {
                            self.records_out += records as u64;
                        }
                        record_type::forget();
                        let done = self.call(at, ports, |body, out| match body {
                            Body::Operator(operator) => operator.process(port, batch, out),
                            Body::Source(_) => Ok(()),
                        });
                        done.map_err(|error| self.at_record(error))?;
                        turn.used(records, &mut self.links[at].pace);
                    }
                    Item::Watermark(Timestamp::MAX) => {
                        if !self.end_input(at, turn, ports)? {
                            continue 'work;
                        }
                    }
                    Item::Watermark(watermark) => self.call(at, ports, |body, out| match body {
                        Body::Operator(operator) => operator.watermark(watermark, out),
                        Body::Source(_) => Ok(()),
                    })?,
                    Item::Split(event) => self.call(at, ports, |body, out| match body {
                        Body::Operator(operator) => operator.split(event, out),
                        Body::Source(_) => Ok(()),
                    })?,
                    Item::Idle(idle) => self.call(at, ports, |body, out| match body {
                        Body::Operator(operator) => operator.idle(idle, out),
                        Body::Source(_) => Ok(()),
                    })?,
                }
                self.resume(at, turn, ports)?;
                continue 'work;
            }
            return Ok(self.pause(Pause::Quiet, turn));
        }
    }

    /// Hands operator `at` the end of its input, if it has no timers of processing time left to see to. Otherwise the end is
    /// held: the chain counts as quiet meanwhile, and [`processing_time`](Self::processing_time) asks again.
    fn end_input(&mut self, at: usize, turn: &mut Turn<'_>, ports: &mut dyn Ports) -> Result<bool> {
        let now_ms = turn.now_ms();
        let room = turn.room(self.links[at].emission).min(EMISSION);
        self.scratch.room = room;
        let due = self.call(at, ports, |body, out| match body {
            Body::Operator(operator) => operator.end_of_input(now_ms, out),
            Body::Source(_) => Ok(None),
        })?;
        let link = &mut self.links[at];
        match due {
            Some(due) if due <= now_ms => {
                turn.used(room, &mut link.emission);
                link.inbox.push_front(Item::Watermark(Timestamp::MAX));
                Ok(false)
            }
            Some(_) => {
                (link.holds_end, link.timed) = (true, true);
                Ok(false)
            }
            None => {
                link.has_ended = true;
                self.call(at, ports, |body, out| match body {
                    Body::Operator(operator) => operator.watermark(Timestamp::MAX, out),
                    Body::Source(_) => Ok(()),
                })?;
                Ok(true)
            }
        }
    }

    fn pause(&mut self, pause: Pause, turn: &mut Turn<'_>) -> Pause {
        turn.settle();
        self.watchful = turn.watchful;
        pause
    }

    fn resume(&mut self, at: usize, turn: &mut Turn<'_>, ports: &mut dyn Ports) -> Result<()> {
        let room = turn.room(self.links[at].emission).min(EMISSION);
        self.scratch.room = room;
        let more = self.call(at, ports, |body, out| match body {
            Body::Operator(operator) => operator.resume(out),
            Body::Source(_) => Ok(false),
        })?;
        let link = &mut self.links[at];
        link.emitting = more;
        if more {
            turn.used(room, &mut link.emission);
        }
        Ok(())
    }

    /// Tells processing time to the operators that want it; returns when the next one is due.
    pub fn processing_time(
        &mut self,
        now_ms: i64,
        turn: &mut Turn<'_>,
        ports: &mut dyn Ports,
    ) -> Result<Option<i64>> {
        let mut next: Option<i64> = None;
        for at in 0..self.links.len() {
            if !self.links[at].timed {
                continue;
            }
            let room = turn.room(self.links[at].emission).min(EMISSION);
            self.scratch.room = room;
            let due = self.call(at, ports, |body, out| match body {
                Body::Operator(operator) => operator.processing_time(now_ms, out),
                Body::Source(_) => Ok(None),
            })?;
            let link = &mut self.links[at];
            link.timed = due.is_some();
            if link.holds_end && due.is_none_or(|due| due == i64::MAX) {
                // no timer is left
                link.holds_end = false;
                link.inbox.push_front(Item::Watermark(Timestamp::MAX));
            }
            if let Some(due) = due {
                if due <= now_ms {
                    turn.used(room, &mut link.emission);
                }
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        Ok(next)
    }

    /// Whether any operator wants processing time.
    pub fn is_timed(&self) -> bool {
        self.links.iter().any(|link| link.timed)
    }

    /// The synchronous part of a checkpoint, of all operators.
    pub fn snapshot(&mut self, id: CheckpointId) -> Result<Vec<(OperatorId, Arc<str>, AsyncSnapshot)>> {
        let mut parts = Vec::new();
        for link in &mut self.links {
            let part = catch("its snapshot", || match &mut link.body {
                Body::Operator(operator) => operator.snapshot(id),
                Body::Source(source) => source.snapshot(id),
            });
            if let Some(part) = part.map_err(|error| name_error(&link.name, error))? {
                parts.push((link.id, link.name.clone(), part));
            }
        }
        Ok(parts)
    }

    fn each(&mut self, what: &str, mut f: impl FnMut(&mut Body) -> Result<()>) -> Result<()> {
        for link in &mut self.links {
            catch(what, || f(&mut link.body)).map_err(|error| name_error(&link.name, error))?;
        }
        Ok(())
    }

    pub fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        crash_point("before-commit")?;
        self.each("its commit", |body| match body {
            Body::Operator(operator) => operator.checkpoint_complete(id),
            Body::Source(source) => source.checkpoint_complete(id),
        })
    }

    /// See [`Operator::commits_under_way`]: the oldest one of all operators.
    pub fn commits_under_way(&mut self) -> Result<Option<CheckpointId>> {
        let mut oldest: Option<CheckpointId> = None;
        self.each("its commit", |body| {
            if let Body::Operator(operator) = body {
                let own = operator.commits_under_way()?;
                oldest = own.map(|own| oldest.map_or(own, |oldest| oldest.min(own))).or(oldest);
            }
            Ok(())
        })?;
        Ok(oldest)
    }

    pub fn checkpoint_aborted(&mut self, id: CheckpointId) -> Result<()> {
        self.each("its code", |body| match body {
            Body::Operator(operator) => operator.checkpoint_aborted(id),
            Body::Source(_) => Ok(()),
        })
    }

    pub fn finish(&mut self) -> Result<()> {
        self.each("its last step", |body| match body {
            Body::Operator(operator) => operator.finish(),
            Body::Source(_) => Ok(()),
        })
    }
}

fn name_error(name: &str, error: Error) -> Error {
    error.context(format!("operator `{name}`"))
}
