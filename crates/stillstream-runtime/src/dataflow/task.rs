//! A subtask with inputs: it works off what has arrived, batch by batch. Its life is told in
//! [`subtask`](super::subtask).
//!
//! Event time is not in the frontier: it comes in the batches, as marks between the records. So a batch is
//! given to the chain in pieces, each up to a mark that moves event time.

use stillstream_types::{Error, ErrorKind, Result};
use timely::progress::frontier::MutableAntichain;

use crate::control::Report;
use crate::dataflow::chain::Pause;
use crate::dataflow::inputs::{Guard, Input, InputChannels, InputQueue, Queued, low_epoch};
use crate::dataflow::outputs::Sessions;
use crate::dataflow::subtask::{Stage, Subtask};
use crate::dataflow::time_reports::TimeReports;
use crate::dataflow::turn::Turn;
use crate::flow::credits::Amount;
use crate::flow::pace::WorkPace;
use crate::operator::batch::AnyBatch;
use crate::operator::event_time::{Combined, Mark};

/// The batch that the chain works on, with its guard; where its credit goes.
struct UnderWay {
    input: usize,
    edge: u32,
    from: usize,
    amount: Amount,
    /// What the chain has not been given yet.
    rest: AnyBatch,
    _guard: Guard,
}

/// A subtask with inputs.
pub(crate) struct InputTask {
    pub subtask: Subtask,
    inputs: Vec<InputChannels>,
    queue: InputQueue,
    current: Option<UnderWay>,
    /// Event time of all channels together.
    time: Combined,
    time_reports: TimeReports,
    /// How fast it works its input off.
    pace: WorkPace,
}

impl InputTask {
    /// `channels`: how many all inputs have together.
    pub fn new(subtask: Subtask, inputs: Vec<InputChannels>, channels: usize) -> Self {
        Self {
            subtask,
            inputs,
            queue: InputQueue::default(),
            current: None,
            time: Combined::new(channels),
            time_reports: TimeReports::default(),
            pace: WorkPace::default(),
        }
    }

    /// One activation.
    pub fn activate(
        &mut self,
        frontiers: &[MutableAntichain<u64>],
        handles: &mut [Input],
        sessions: Sessions<'_, '_>,
    ) -> Result<()> {
        self.subtask.read_mail()?;
        if self.subtask.stage == Stage::Halted {
            return Ok(());
        }
        let clock = self.subtask.attempt.clock.clone();
        self.queue.pull(handles, self.subtask.epoch, self.subtask.attempt.mode, &*clock);
        let low = low_epoch(frontiers);
        let mut turn = Turn::begin(self.subtask.turn, &*clock);
        loop {
            let pause = self.subtask.run_chain(&mut turn, sessions)?;
            if pause != Pause::Quiet {
                self.subtask.pause(pause);
                break;
            }
            if self.next_piece() {
                continue;
            }
            self.complete_current();
            if turn.is_over() {
                self.subtask.activator.activate();
                break;
            }
            if self.next_batch(&turn) {
                continue;
            }
            let is_end = self.time.time().is_end() && self.subtask.stage == Stage::Running;
            if is_end && self.subtask.chain.has_ended() {
                self.subtask.end();
            }
            // nothing of the own epoch is left here, and nothing can arrive: the barrier is complete
            let next = self.queue.least_later().min(low);
            if next > self.subtask.epoch && next != u64::MAX {
                if self.barriers(next, sessions)? && self.subtask.stage != Stage::Halted {
                    continue;
                }
                break;
            }
            if low == u64::MAX && self.queue.has_nothing_later() && self.subtask.chain.has_ended() {
                self.subtask.finish(sessions)?;
            }
            break;
        }
        if self.pace.is_due() && turn.is_timed() {
            let in_flight = self.pace.measure(turn.read_now(), self.current.is_some());
            let mut credits = self.subtask.attempt.flow.credits.borrow_mut();
            self.inputs.iter().for_each(|input| credits.pace(input.edge, in_flight, input.senders));
        }
        self.subtask.processing_time(&mut turn, sessions)
    }

    /// Takes the barrier of epoch `next`, and before it those of the checkpoints that lie between. `false`:
    /// this worker has not heard of it yet; the mail will wake the task.
    fn barriers(&mut self, next: u64, sessions: Sessions<'_, '_>) -> Result<bool> {
        if self.subtask.triggers.back().is_none_or(|newest| newest.id.0 < next) {
            return Ok(false);
        }
        while self.subtask.epoch < next && self.subtask.stage != Stage::Halted {
            let Some(trigger) = self.subtask.triggers.pop_front() else { break };
            if trigger.id.0 > next {
                let text = format!("barrier {next} has come, which nobody has triggered");
                return Err(Error::new(ErrorKind::Checkpoint, text));
            }
            let aligning = self.queue.take_aligning();
            self.subtask.barrier(trigger, aligning, sessions)?;
        }
        self.queue.move_to(next);
        Ok(true)
    }

    /// Begins the next batch. `false`: there is none of this epoch.
    fn next_batch(&mut self, turn: &Turn<'_>) -> bool {
        let Some(Queued { input, batch, guard, .. }) = self.queue.next() else { return false };
        let (edge, from) = (self.inputs[input].edge, batch.from as usize);
        let amount = Amount { records: batch.len() as i64, bytes: batch.bytes as i64 };
        self.pace.begin(turn.begun());
        self.current = Some(UnderWay { input, edge, from, amount, rest: batch, _guard: guard });
        true
    }

    /// Hands the chain the next piece of the batch under way: records up to a mark that moves event time, and
    /// that mark. `false`: there is no more of it.
    fn next_piece(&mut self) -> bool {
        let Some(UnderWay { input, from, rest, .. }) = &mut self.current else { return false };
        if rest.is_void() {
            return false;
        }
        let input = &self.inputs[*input];
        let mut piece = std::mem::take(rest);
        let marks = piece.take_marks();
        let (channel, before) = (input.channel(*from), self.time.time());
        self.time_reports.note(!marks.is_empty());
        let moved = marks
            .iter()
            .enumerate()
            .find_map(|(n, mark)| self.time.update(channel, mark.time).map(|now| (n, mark.at, now)));
        if let Some((n, at, _)) = moved {
            if (at as usize) < piece.len() {
                *rest = piece.split_off(at as usize);
            }
            let later = |mark: &Mark| Mark { at: mark.at - at, time: mark.time };
            rest.set_marks(marks[n + 1..].iter().map(later).collect());
        }
        let chain = &mut self.subtask.chain;
        if !piece.is_empty() {
            chain.push_batch(input.port, piece);
        }
        if let Some((_, _, now)) = moved {
            chain.push_time(before, now);
        }
        true
    }

    /// The batch under way has been processed: its credit is returned and its guard released.
    fn complete_current(&mut self) {
        if let Some(UnderWay { edge, from, amount, _guard, .. }) = self.current.take() {
            self.pace.done(amount.records as u32);
            self.subtask.attempt.flow.credits.borrow_mut().processed(edge, from, amount);
        }
    }

    /// Tells the JobManager how far event time is on each channel, now and then.
    pub fn report_time(&mut self) {
        let Subtask { attempt, id, stage, activator, .. } = &self.subtask;
        if *stage == Stage::Done {
            return;
        }
        if let Some(time) = self.time_reports.due(&self.time, &*attempt.clock, activator) {
            attempt.report(Report::EventTime { subtask: *id, time });
        }
    }
}
