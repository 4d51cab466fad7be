//! A subtask of a source: it polls, as long as there is room downstream. Its life is told in
//! [`subtask`](super::subtask).

use stillstream_types::Result;

use crate::control::{Assignment, Report};
use crate::dataflow::chain::Pause;
use crate::dataflow::outputs::{Outlet, Sessions};
use crate::dataflow::subtask::{Stage, Subtask};
use crate::dataflow::turn::Turn;
use crate::operator::SourceStatus;

/// Most records that a source is asked for at once.
const POLL: usize = 1024;

/// Whether a source may be polled now.
enum Room {
    /// For at most so many records.
    For(usize),
    /// Why not; [`Pause::Quiet`]: it waits for others of its group.
    None(Pause),
}

/// A subtask of a source.
pub(crate) struct SourceTask {
    pub subtask: Subtask,
}

impl SourceTask {
    /// One activation.
    pub fn activate(&mut self, sessions: Sessions<'_, '_>) -> Result<()> {
        self.subtask.read_mail()?;
        if self.subtask.stage == Stage::Halted {
            return Ok(());
        }
        let clock = self.subtask.attempt.clock.clone();
        let mut turn = Turn::begin(self.subtask.turn, &*clock);
        let mut pause = self.subtask.run_chain(&mut turn, sessions)?;
        if pause == Pause::Quiet {
            self.barriers(sessions)?;
            if self.subtask.drains && self.subtask.stage == Stage::Running {
                self.end(sessions);
                pause = self.subtask.run_chain(&mut turn, sessions)?;
            }
        }
        let (mut wake_at, mut looks_again) = (None, false);
        while pause == Pause::Quiet && self.subtask.stage == Stage::Running {
            let room = match self.room(&turn, &mut looks_again)? {
                Room::For(records) => records,
                Room::None(why) => {
                    pause = why;
                    break;
                }
            };
            let status = self.poll(room, &mut turn, sessions)?;
            pause = self.subtask.run_chain(&mut turn, sessions)?;
            match status {
                SourceStatus::More => {}
                SourceStatus::Idle { until_ms } => {
                    if self.subtask.chain.wants_splits() {
                        self.subtask.attempt.report(Report::SplitsWanted(self.subtask.id));
                    }
                    wake_at = until_ms;
                    break;
                }
                SourceStatus::Ended => {}
            }
        }
        self.subtask.pause(pause);
        if self.subtask.stage > Stage::Running && pause == Pause::Quiet && self.subtask.chain.has_ended() {
            match self.subtask.stage {
                Stage::Draining => self.subtask.end(),
                Stage::Released | Stage::Finishing => self.subtask.finish(sessions)?,
                Stage::Running | Stage::Ended | Stage::Done | Stage::Halted | Stage::Failed => {}
            }
        }
        if let Some(due) = wake_at {
            self.subtask.wake_at(due, clock.now_ms());
        }
        if pause == Pause::Gated {
            // a source that waits for credits is not idle
            return Ok(());
        }
        self.subtask.processing_time(&mut turn, sessions)
    }

    /// Takes the barriers that were triggered and the splits that were assigned, in the order in which that
    /// was said. Called when the chain is quiet.
    fn barriers(&mut self, sessions: Sessions<'_, '_>) -> Result<()> {
        while let Some(mut trigger) = self.subtask.triggers.pop_front() {
            self.assign(std::mem::take(&mut trigger.assigned))?;
            if trigger.id.0 > self.subtask.epoch {
                self.subtask.barrier(trigger, None, sessions)?;
            }
        }
        let behind = std::mem::take(&mut self.subtask.assigned);
        self.assign(behind)
    }

    fn assign(&mut self, assigned: Vec<Assignment>) -> Result<()> {
        let Subtask { chain, id, stage, .. } = &mut self.subtask;
        // what comes behind the last barrier of a stop is in no snapshot, and is assigned again
        let assigned = assigned.iter().filter(|_| *stage < Stage::Halted);
        assigned.into_iter().try_for_each(|assignment| chain.assign(assignment, id.index))
    }

    /// How many records the source may emit now. `looks_again`: in this activation it was arranged already
    /// that the source looks again how far the others of its group are.
    fn room(&mut self, turn: &Turn<'_>, looks_again: &mut bool) -> Result<Room> {
        let Subtask { attempt, chain, outputs, activator, .. } = &mut self.subtask;
        if !attempt.flow.credits.borrow().open(chain.head_reach()) {
            return Ok(Room::None(Pause::Gated));
        }
        if turn.is_over() {
            return Ok(Room::None(Pause::TurnOver));
        }
        let groups = &attempt.flow.watermark_groups;
        if let Some(wait) = groups.look_again() {
            let is_ahead = chain.is_ahead();
            if (chain.pause_splits()? || is_ahead) && !*looks_again {
                *looks_again = true;
                groups.wait(activator);
                activator.activate_after(wait);
            }
            if is_ahead {
                return Ok(Room::None(Pause::Quiet));
            }
        }
        let mut credits = attempt.flow.credits.borrow_mut();
        for (edge, batch) in outputs.waiting() {
            if !credits.knows_size(edge) {
                credits.expect_size(edge, batch.record_size());
            }
        }
        if credits.is_much(chain.records_in, outputs.edges()) {
            // large records: they are counted when they are sent
            return Ok(Room::None(Pause::TurnOver));
        }
        Ok(Room::For(credits.room(outputs.edges())))
    }

    fn poll(&mut self, room: usize, turn: &mut Turn<'_>, sessions: Sessions<'_, '_>) -> Result<SourceStatus> {
        let Subtask { chain, outputs, .. } = &mut self.subtask;
        let status = chain.poll_source(POLL.min(room), turn, &mut Outlet { sessions, outputs })?;
        if status == SourceStatus::Ended {
            self.end(sessions);
        }
        Ok(status)
    }

    /// There are no more records, or none are wanted.
    fn end(&mut self, sessions: Sessions<'_, '_>) {
        let Subtask { chain, outputs, stage, .. } = &mut self.subtask;
        chain.end_source(&mut Outlet { sessions, outputs });
        *stage = Stage::Draining;
    }
}
