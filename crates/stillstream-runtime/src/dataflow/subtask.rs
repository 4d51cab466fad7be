//! What every subtask has, whether it is a source's or has inputs, and the protocol of its life.
//!
//! A subtask is one Timely operator that runs a chain. It holds one capability for each output, at its own
//! epoch, and emits only under it. Epoch n begins with barrier n, which stands in no queue: it has come from
//! all inputs when Timely says that no record of an earlier epoch can come any more.
//!
//! # A life
//!
//! 1. **Running.** The worker has opened the chain and reports `Running`. The subtask takes what its inputs
//!    bring, or polls its source.
//! 2. **Draining.** A source has no more records. It has emitted the end of event time behind its last one,
//!    and the chain works off what follows from that. A subtask with inputs skips this stage: it learns of
//!    the end by that mark.
//! 3. **Ended.** All operators of the chain have taken the end of event time, and nothing of theirs is left
//!    to emit: the subtask reports `Ended`. It still takes barriers. When all subtasks have ended, the
//!    JobManager takes the final checkpoint, which so has in it what windows and timers emitted at the end.
//! 4. **Released.** The final checkpoint's commits are confirmed, and the JobManager sends `Finish` to the
//!    sources. Subtasks with inputs are not told and skip this stage: their frontiers close when those before
//!    them are done.
//! 5. **Finishing.** The operators take their last step. Commits that are under way are awaited; whoever
//!    commits wakes the task.
//! 6. **Done.** The capabilities are dropped, so the frontiers downstream close. When all are done, Timely
//!    drops the dataflow.
//!
//! When the job stops without an end of its input, stages 2 to 6 are not reached:
//!
//! - **Halted.** The subtask has taken the barrier of the checkpoint or savepoint that the job stops with. It
//!   emits nothing any more: a source is not polled, no timer of processing time fires, nothing behind the
//!   barrier is processed. It hears `Complete`, commits, and confirms. Then the worker is told to stop. A
//!   subtask that has ended before that barrier stays so: it has nothing to emit either.
//!
//! With `Drain` a source ends in stage 1 as if it had no more records: its position in the final checkpoint
//! is where it stopped.
//!
//! A subtask **fails** in any stage. Then it keeps its capabilities: a consumer must not take what has come
//! so far for all there is. It does nothing more, and waits until the worker drops the dataflow.
//!
//! # A checkpoint
//!
//! 1. A source finds `Trigger` in its mailbox. It takes the barrier as soon as its chain is quiet; it never
//!    waits for credits before it does. A subtask with inputs finds that the least epoch over its frontiers,
//!    and over what it has set aside, is higher than its own; it too needs the `Trigger`, which says in which
//!    form the snapshot is wanted, where it goes, and whether the job goes on behind it.
//! 2. [`barrier`](Subtask::barrier): what waits in the outputs is sent; the chain takes the synchronous part;
//!    the epoch and the capabilities move on; the asynchronous part goes to the snapshot pool, which
//!    acknowledges.
//! 3. Only then are records of the new epoch processed. At-least-once does not wait for 1 and processes them
//!    at once.
//! 4. `Complete` lets the chain commit. The newest one is reported as committed once everything up to it is.
//!
//! # Races
//!
//! - *A trigger overtakes the barrier* (mail goes another way than records): it is kept until the barrier
//!   comes.
//! - *A barrier overtakes its trigger*: a subtask with inputs waits for the mail, which wakes it. Each worker
//!   gets every trigger, and all of them in the same order.
//! - *Two barriers at once*: frontiers jump from epoch n to n + 2 if a source took both in one turn. The
//!   checkpoints between are taken one by one, all before later records: the mail of n + 2 comes after that
//!   of n + 1.
//! - *A checkpoint is aborted while its barrier is under way*: the barrier comes all the same, and its
//!   snapshot is dropped in the pool or by the JobManager. `Complete` of a later one stands for it.
//! - *The attempt stops meanwhile*: nothing is said here. The worker drops the dataflow, see
//!   [`worker`](super::worker).

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use stillstream_types::{CheckpointId, Error, Result, SavepointTarget, SnapshotForm, SubtaskId};
use timely::scheduling::Activator;

use crate::checkpoint::snapshot_pool::SnapshotJob;
use crate::control::{AckMetrics, Assignment, Control, Report};
use crate::dataflow::attempt::WorkerAttempt;
use crate::dataflow::chain::{Chain, Pause};
use crate::dataflow::inputs::Aligning;
use crate::dataflow::outputs::{Outlet, Outputs, Sessions};
use crate::dataflow::turn::{Turn, TurnLimits};

/// The longest that a task sleeps before it looks at the clock again, in milliseconds.
const LONGEST_SLEEP_MS: i64 = 60_000;

/// How far the life of a subtask has come; see the head of this file. It goes down this list and never back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// Records may come.
    Running,
    /// A source has no more records, and its chain works off what follows from that.
    Draining,
    /// Nothing is left to emit, and the JobManager knows.
    Ended,
    /// The JobManager lets a source finish.
    Released,
    /// The operators have taken their last step; commits may be under way.
    Finishing,
    /// The capabilities are dropped.
    Done,
    /// The job stops: nothing is emitted behind the last barrier.
    Halted,
    /// After an error. The capabilities are kept.
    Failed,
}

/// One subtask, without what it reads.
pub(crate) struct Subtask {
    pub attempt: Rc<WorkerAttempt>,
    pub id: SubtaskId,
    /// The number of its mailbox.
    pub mailbox: usize,
    pub stage: Stage,
    pub epoch: u64,
    pub chain: Chain,
    pub outputs: Outputs,
    pub activator: Activator,
    /// When a turn ends.
    pub turn: TurnLimits,
    /// Checkpoints that were triggered and whose barrier has not been taken, oldest first. None is lost,
    /// however many there are: a barrier cannot be taken without.
    pub triggers: VecDeque<Trigger>,
    /// What was assigned to a source behind the last of them.
    pub assigned: Vec<Assignment>,
    /// A source ends here, as if it had no more records.
    pub drains: bool,
    /// The newest checkpoint that was announced and not yet reported as committed.
    announced: Option<CheckpointId>,
}

/// What [`Control::Trigger`] says of a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    pub id: CheckpointId,
    /// When it was triggered, in milliseconds since 1970.
    pub at_ms: i64,
    /// The savepoint that it is; `None` for a checkpoint.
    pub savepoint: Option<SavepointTarget>,
    /// A checkpoint that names no file of an earlier one.
    pub full: bool,
    /// Nothing is emitted behind its barrier.
    pub stop: bool,
    /// What was assigned to a source before it, and behind the one before.
    pub assigned: Vec<Assignment>,
}

impl Trigger {
    /// The form in which operators are asked for their state.
    fn form(&self) -> SnapshotForm {
        match &self.savepoint {
            Some(target) => SnapshotForm::Savepoint(target.format),
            None if self.full => SnapshotForm::FullCheckpoint,
            None => SnapshotForm::Checkpoint,
        }
    }
}

impl Subtask {
    /// `chain`: `None` if it could not be opened. A worker that runs no subtask of the task has one that is
    /// done.
    pub fn new(
        attempt: Rc<WorkerAttempt>,
        id: SubtaskId,
        mailbox: usize,
        chain: Option<Chain>,
        outputs: Outputs,
        activator: Activator,
        active: bool,
    ) -> Self {
        let stage = match (active, &chain) {
            (false, _) => Stage::Done,
            (true, None) => Stage::Failed,
            (true, Some(_)) => Stage::Running,
        };
        Self {
            turn: attempt.turn,
            attempt,
            id,
            mailbox,
            stage,
            epoch: 0,
            chain: chain.unwrap_or_else(Chain::new),
            outputs,
            activator,
            triggers: VecDeque::new(),
            assigned: Vec::new(),
            drains: false,
            announced: None,
        }
    }

    /// Reads the mailbox.
    pub fn read_mail(&mut self) -> Result<()> {
        loop {
            let next = self.attempt.mailboxes.borrow_mut()[self.mailbox].mail.pop_front();
            match next {
                None => break,
                Some(Control::Trigger { id, at_ms, savepoint, full, stop }) => {
                    let assigned = std::mem::take(&mut self.assigned);
                    self.triggers.push_back(Trigger { id, at_ms, savepoint, full, stop, assigned });
                }
                Some(Control::Assign(assignment)) => self.assigned.push(assignment),
                Some(Control::Complete { id }) => {
                    self.chain.checkpoint_complete(id)?;
                    self.announced = Some(id);
                }
                Some(Control::Aborted { id }) => {
                    self.attempt.pool.abort(self.attempt.generation, id);
                    self.chain.checkpoint_aborted(id)?;
                }
                // it comes when every subtask has reported its end, and so not before this one has
                Some(Control::Finish) if self.stage == Stage::Ended => self.stage = Stage::Released,
                Some(Control::Drain) => self.drains = true,
                Some(Control::Finish | Control::Stop) => {}
            }
        }
        self.confirm()
    }

    /// Reports the newest checkpoint that was announced as soon as everything up to it has been committed.
    fn confirm(&mut self) -> Result<()> {
        let under_way = self.chain.commits_under_way()?;
        let confirmed = |id: &CheckpointId| under_way.is_none_or(|oldest| oldest > *id);
        if let Some(checkpoint) = self.announced.take_if(|id| confirmed(id)) {
            self.attempt.report(Report::Committed { checkpoint, subtask: self.id });
        }
        Ok(())
    }

    /// The synchronous part of a checkpoint; then the epoch moves on. What was emitted before goes before the
    /// barrier.
    ///
    /// `aligning`: what it took to have it from all inputs.
    pub fn barrier(
        &mut self,
        trigger: Trigger,
        aligning: Option<Aligning>,
        sessions: Sessions<'_, '_>,
    ) -> Result<()> {
        self.outputs.flush(sessions);
        let (clock, checkpoint) = (self.attempt.clock.clone(), trigger.id);
        let (begun, now_ms) = (clock.elapsed(), clock.now_ms());
        let none = Aligning { since: begun, since_ms: now_ms, bytes: 0 };
        let aligning = aligning.unwrap_or(none);
        let parts = self.chain.snapshot(checkpoint, trigger.form())?;
        let delay_ms = aligning.since_ms.saturating_sub(trigger.at_ms);
        let metrics = AckMetrics {
            start_delay: Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0)),
            alignment: begun.saturating_sub(aligning.since),
            synchronous: clock.elapsed().saturating_sub(begun),
            asynchronous: Duration::ZERO,
            set_aside_bytes: aligning.bytes,
        };
        self.epoch = checkpoint.0;
        self.outputs.move_to(checkpoint.0);
        if trigger.stop && self.stage < Stage::Ended {
            self.stage = Stage::Halted;
        }
        let (generation, reports) = (self.attempt.generation, self.attempt.reports.clone());
        self.attempt.pool.submit(SnapshotJob {
            generation,
            checkpoint,
            savepoint: trigger.savepoint,
            subtask: self.id,
            parts,
            metrics,
            reports,
        });
        Ok(())
    }

    /// Runs the chain until it is quiet or has to pause.
    pub fn run_chain(&mut self, turn: &mut Turn<'_>, sessions: Sessions<'_, '_>) -> Result<Pause> {
        let Self { chain, outputs, attempt, .. } = self;
        let gate = |edges: &[u32]| attempt.flow.credits.borrow().open(edges);
        chain.run(turn, &gate, &mut Outlet { sessions, outputs })
    }

    /// Arranges to be called again according to why the chain paused.
    pub fn pause(&self, pause: Pause) {
        match pause {
            Pause::TurnOver => self.activator.activate(),
            Pause::Gated => self.attempt.flow.credits.borrow_mut().wait(self.mailbox, &self.activator),
            Pause::Quiet | Pause::NotReady => {}
        }
    }

    /// Arranges to be called again at `due_ms`, or before.
    pub fn wake_at(&self, due_ms: i64, now_ms: i64) {
        if due_ms != i64::MAX {
            let wait = due_ms.saturating_sub(now_ms).clamp(1, LONGEST_SLEEP_MS);
            self.activator.activate_after(Duration::from_millis(wait as u64));
        }
    }

    /// Tells processing time to the operators that want it.
    pub fn processing_time(&mut self, turn: &mut Turn<'_>, sessions: Sessions<'_, '_>) -> Result<()> {
        if self.stage >= Stage::Done || !self.chain.is_timed() || !self.chain.is_quiet() {
            return Ok(());
        }
        let now = self.attempt.clock.now_ms();
        let Self { chain, outputs, .. } = self;
        let due = chain.processing_time(now, turn, &mut Outlet { sessions, outputs })?;
        if !self.chain.is_quiet() {
            self.activator.activate();
        } else if let Some(due) = due {
            self.wake_at(due, now);
        }
        Ok(())
    }

    /// Nothing is left to emit. This is said before the last barrier, which follows once all subtasks have
    /// said it.
    pub fn end(&mut self) {
        self.stage = Stage::Ended;
        self.attempt.report(Report::Ended(self.id));
    }

    /// Everything is through: the operators take their last step, and whoever reads the outputs learns that
    /// this is all. Called again while commits are under way.
    pub fn finish(&mut self, sessions: Sessions<'_, '_>) -> Result<()> {
        if self.stage < Stage::Finishing {
            self.stage = Stage::Finishing;
            self.chain.finish()?;
            self.outputs.flush(sessions);
        }
        if self.chain.commits_under_way()?.is_none() {
            self.outputs.close();
            self.stage = Stage::Done;
        }
        Ok(())
    }

    /// The attempt is over.
    pub fn fail(&mut self, error: Error) {
        self.stage = Stage::Failed;
        self.attempt.fail(Some(self.id), error);
    }

    /// Adds what the chain has counted to the worker's figures.
    pub fn count(&mut self) {
        let metrics = &self.attempt.metrics;
        let (records_in, records_out) =
            (std::mem::take(&mut self.chain.records_in), std::mem::take(&mut self.chain.records_out));
        if records_in > 0 {
            metrics.records_in.fetch_add(records_in, Relaxed);
        }
        if records_out > 0 {
            metrics.records_out.fetch_add(records_out, Relaxed);
        }
    }
}
