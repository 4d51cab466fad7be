//! A chain of operators in one subtask: what one emits, the next one takes, batch by batch.
//!
//! The deepest operator with work runs first, so that at most one batch's consequences are under way. A chain
//! can pause: an emission waits for room on the edges it reaches, or an operator (a sink whose client is
//! busy) takes nothing now.
//!
//! | module | what is inside |
//! |---|---|
//! | here | the operators, what they hand to one another, and event time between them |
//! | `run` | which operator runs next, and for how long |
//! | `checkpoint` | snapshots, commits, the last step |

mod checkpoint;
mod run;

use std::collections::VecDeque;
use std::sync::Arc;

use stillstream_types::{Error, OperatorId, Result, SubtaskIndex, Timestamp};

use crate::control::Assignment;
use crate::dataflow::turn::Pace;
use crate::operator::batch::AnyBatch;
use crate::operator::event_time::EventTime;
use crate::operator::{Emission, Operator, Output, Source, SplitEvent, record_type};
use crate::panics::catch;
use crate::plan::TaskOutput;

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

    /// Gives the source at the head, if it is the one that they are for, the splits of subtask `mine`.
    pub fn assign(&mut self, assignment: &Assignment, mine: SubtaskIndex) -> Result<()> {
        let Some(Link { body: Body::Source(source), name, id, .. }) = self.links.first_mut() else {
            return Ok(());
        };
        if *id != assignment.operator {
            return Ok(());
        }
        let splits = assignment.splits.iter().filter(|(reader, _)| *reader == mine);
        let splits: Vec<&[u8]> = splits.map(|(_, split)| &split[..]).collect();
        let answers = assignment.answers == Some(mine);
        catch("its code", || source.assign(&splits, answers, assignment.no_more))
            .map_err(|error| name_error(name, error))
    }

    /// Whether the source at the head has read all that it has, and asks for more.
    pub fn wants_splits(&mut self) -> bool {
        match self.links.first_mut().map(|head| &mut head.body) {
            Some(Body::Source(source)) => source.wants_splits(),
            _ => false,
        }
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
        // the end is not idle
        self.scratch.idle(false);
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

    /// Says of which type the record was that an operator failed at, and how far the source had read, if it
    /// is in the chain.
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
}

fn name_error(name: &str, error: Error) -> Error {
    error.context(format!("operator `{name}`"))
}
