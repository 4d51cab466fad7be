//! Running a chain: the deepest operator with work first, until nothing is left or something has to wait.

use stillstream_types::{Result, Timestamp};

use super::{Body, Chain, Item, Pause, Ports};
use crate::dataflow::turn::{Pace, Turn};
use crate::operator::{SourceStatus, record_type};

/// Timers or results that one call emits at most.
const EMISSION: usize = 1024;

impl Chain {
    /// Asks the source at the head for records: at most `max_records`, and no more than the slowest operator
    /// takes at once, since a barrier waits for all of them.
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
                let ready = self.call(at, ports, |body, out| match body {
                    Body::Operator(operator) => operator.ready(out),
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

    /// Hands operator `at` the end of its input, if it has no timers of processing time left to see to.
    /// Otherwise the end is held: the chain counts as quiet meanwhile, and
    /// [`processing_time`](Self::processing_time) asks again.
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
}
