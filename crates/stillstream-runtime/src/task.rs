//! The driver: one Timely operator that runs a chain in one subtask.
//!
//! It holds one capability per output, at its own epoch, and emits only under it: it takes its snapshot, then moves its epoch,
//! and only then touches later records. Batches of a later epoch keep their guards while they are set aside, so that they
//! count in every frontier. Event time is not in the frontier: it comes in the batches, as marks between the records.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use stillstream_types::{CheckpointId, Result, SubtaskId, SubtaskIndex};
use timely::communication::Pull;
use timely::container::NoopBuilder;
use timely::dataflow::channels::Message;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::{InputHandleCore, OutputBuilder, OutputBuilderSession};
use timely::dataflow::operators::{Capability, InputCapability};
use timely::dataflow::{Scope, Stream};
use timely::progress::frontier::MutableAntichain;
use timely::scheduling::Activator;

use crate::batch::AnyBatch;
use crate::chain::{Chain, Pause, Ports};
use crate::control::{AckMetrics, ChannelTime, Report, TaskTime};
use crate::event_time::{Combined, EventTime, Mark};
use crate::exchange::{Channel, directed};
use crate::flow::{Amount, WorkPace};
use crate::operator::SourceStatus;
use crate::plan::{Delivery, Task, TaskInput, TaskOutput};
use crate::shared::{Alignment, Notice, TaskSlot, WorkerShared};
use crate::snapshot_pool::SnapshotJob;
use crate::turn::Turn;

type Input = InputHandleCore<u64, AnyBatch, Box<dyn Pull<Message<u64, AnyBatch>>>>;
type Guard = InputCapability<u64>;

/// Most records that a source is asked for at once.
const POLL: usize = 1024;

/// A batch in the task's own queue. While the guard lives, Timely counts the batch as not consumed, and every frontier
/// downstream (and the task's own) stays at its time.
struct Queued {
    epoch: u64,
    input: usize,
    batch: AnyBatch,
    guard: Guard,
}

/// The batch that the chain works on, piece by piece between the marks that move event time; where its credit goes, and its
/// guard.
struct UnderWay {
    input: usize,
    edge: u32,
    from: usize,
    amount: Amount,
    /// What the chain has not been given yet.
    rest: AnyBatch,
    _guard: Guard,
}

type Sessions<'a, 'b> = &'a mut [OutputBuilderSession<'b, u64, NoopBuilder<AnyBatch>>];

/// Emits under the task's capabilities.
struct Outlet<'a, 'b> {
    sessions: Sessions<'a, 'b>,
    capabilities: &'a [Capability<u64>],
    outputs: &'a mut [Pending],
}

/// An output, and what it will send next: a batch waits for the marks that may follow it, at most until the end of the turn.
struct Pending {
    to: TaskOutput,
    batch: AnyBatch,
    /// For an output that deals records out: whose turn it is.
    next_target: u32,
}

impl Outlet<'_, '_> {
    /// Sends what waits.
    fn flush(&mut self, output: usize) {
        let Pending { to, batch, next_target } = &mut self.outputs[output];
        if batch.is_void() {
            return;
        }
        let batch = std::mem::take(batch);
        let mut session = self.sessions[output].session_with_builder(&self.capabilities[output]);
        // each subtask of the consumer gets every mark, and each copy counts
        let marks = batch.marks().len() as u32;
        let mut give = |mut batch: AnyBatch, weight: u32| {
            batch.weight = weight;
            session.give_container(&mut batch);
        };
        match to.delivery {
            Delivery::Local => give(batch, marks),
            Delivery::Key(..) => give(batch, marks * to.to_parallelism),
            Delivery::Broadcast => {
                for target in 1..to.to_parallelism {
                    let mut copy = batch.clone();
                    copy.to = target;
                    give(copy, marks);
                }
                give(batch, marks);
            }
            Delivery::Rebalance => {
                let (first, parallelism) = (*next_target, to.to_parallelism);
                *next_target = deal_out(batch, first, parallelism, |batch| give(batch, marks));
            }
        }
    }

    fn flush_all(&mut self) {
        (0..self.outputs.len()).for_each(|output| self.flush(output));
    }
}

/// Deals the records of a batch out to `parallelism` subtasks, as evenly as can be, in pieces that lie together, and every mark
/// to each of them; returns whose turn is next.
fn deal_out(mut batch: AnyBatch, first: u32, parallelism: u32, mut give: impl FnMut(AnyBatch)) -> u32 {
    let marks = batch.take_marks();
    let share = batch.len().div_ceil(parallelism as usize);
    let (mut target, mut start) = (first % parallelism, 0);
    let mut next = target;
    for _ in 0..parallelism {
        let mut piece = std::mem::take(&mut batch);
        if piece.len() > share {
            batch = piece.split_off(share);
        }
        let end = start + piece.len() as u32;
        let place = |mark: &Mark| Mark { at: mark.at.clamp(start, end) - start, time: mark.time };
        piece.set_marks(marks.iter().map(place).collect());
        piece.to = target;
        if !piece.is_void() {
            give(piece);
        }
        target = (target + 1) % parallelism;
        if end > start {
            next = target;
        }
        start = end;
    }
    next
}

impl Ports for Outlet<'_, '_> {
    fn send(&mut self, output: usize, batch: AnyBatch) {
        self.flush(output);
        self.outputs[output].batch = batch;
    }

    fn mark(&mut self, output: usize, time: EventTime) {
        self.outputs[output].batch.mark(time);
    }
}

struct Driver {
    shared: Rc<WorkerShared>,
    slot: usize,
    subtask: SubtaskId,
    chain: Chain,
    outputs: Vec<Pending>,
    activator: Activator,
    inputs: Vec<TaskChannels>,
    is_source: bool,
    capabilities: Vec<Capability<u64>>,
    epoch: u64,
    /// How fast it works its input off.
    pace: WorkPace,
    /// Event time of all channels together.
    time: Combined,
    /// What the JobManager is told of it.
    telling: Telling,
    queue: VecDeque<Queued>,
    later: VecDeque<Queued>,
    /// The batch that is under way in the chain.
    current: Option<UnderWay>,
    /// When the first record of the next epoch was set aside.
    align_since: Option<(Duration, i64)>,
    /// The newest checkpoints that the task has taken part in.
    snapshotted: VecDeque<u64>,
    ended: bool,
    end_reported: bool,
    finish: bool,
    /// The chain's last call was made.
    finishing: bool,
    /// The newest checkpoint that was announced and not yet reported as committed.
    announced: Option<CheckpointId>,
    done: bool,
    /// After an error: keeps its capabilities, so that nobody takes the rest for complete.
    dead: bool,
}

/// How often the JobManager is told of event time at most.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// What the JobManager has been told of event time, and when it may be told more.
struct Telling {
    told: Vec<ChannelTime>,
    has_news: bool,
    scheduled: bool,
    next: Duration,
}

impl Default for Telling {
    fn default() -> Self {
        // at first that there is nothing yet: a channel that never says anything is to be seen too
        Self { told: Vec::new(), has_news: true, scheduled: false, next: Duration::ZERO }
    }
}

/// One input of a task, as channels.
struct TaskChannels {
    /// What the operator knows the input as.
    port: usize,
    edge: u32,
    /// The number of the first sender's channel.
    first: usize,
    /// Batches come from this worker alone.
    local: bool,
    /// How many subtasks send.
    senders: usize,
}

impl TaskChannels {
    /// The channels of a task's inputs, and how many there are.
    fn of(task: &Task, outputs_of: &dyn Fn(usize) -> Vec<TaskOutput>) -> (Vec<Self>, usize) {
        let mut channels = 0;
        let mut of = |input: &TaskInput| {
            let local = matches!(outputs_of(input.from_task)[input.from_output].delivery, Delivery::Local);
            let first = channels;
            let senders = if local { 1 } else { input.from_parallelism as usize };
            channels += senders;
            Self { port: input.port, edge: input.edge, first, local, senders }
        };
        let inputs = task.inputs.iter().map(&mut of).collect();
        (inputs, channels)
    }

    fn channel(&self, from: usize) -> usize {
        self.first + if self.local { 0 } else { from }
    }
}

/// The least epoch over the frontiers of all inputs; the end of all inputs is the largest number.
fn low_epoch(frontiers: &[MutableAntichain<u64>]) -> u64 {
    let of = |frontier: &MutableAntichain<u64>| frontier.frontier().iter().copied().min();
    frontiers.iter().filter_map(of).min().unwrap_or(u64::MAX)
}

impl Driver {
    /// Pulls everything that has arrived; later epochs are set aside if barriers align.
    fn pull(&mut self, handles: &mut [Input]) {
        let aligned = self.shared.alignment == Alignment::ExactlyOnce;
        for (input, handle) in handles.iter_mut().enumerate() {
            handle.for_each(|guard, data| {
                let epoch = guard.stamp().elements().first().copied().unwrap_or_default();
                let queued = Queued { epoch, input, batch: std::mem::take(data), guard };
                if aligned && epoch > self.epoch {
                    if self.align_since.is_none() {
                        self.align_since = Some((self.shared.clock.elapsed(), self.shared.clock.now_ms()));
                    }
                    self.later.push_back(queued);
                } else {
                    self.queue.push_back(queued);
                }
            });
        }
    }

    fn notices(&mut self) -> Result<Vec<(CheckpointId, i64)>> {
        let mut triggers = Vec::new();
        loop {
            let Some(notice) = self.shared.slots.borrow_mut()[self.slot].notices.pop_front() else {
                self.confirm()?;
                return Ok(triggers);
            };
            match notice {
                Notice::Trigger { id, at_ms } if self.is_source => triggers.push((id, at_ms)),
                Notice::Trigger { id, .. } => {
                    if id.0 <= self.epoch && !self.snapshotted.contains(&id.0) {
                        let reason = "the barrier was overtaken by a newer one".to_string();
                        self.shared.report(Report::Declined {
                            checkpoint: id,
                            subtask: self.subtask,
                            reason,
                        });
                    }
                }
                Notice::Complete { id } => {
                    self.chain.checkpoint_complete(id)?;
                    self.announced = Some(id);
                }
                Notice::Aborted { id } => {
                    self.shared.pool.abort(self.shared.generation, id);
                    self.chain.checkpoint_aborted(id)?;
                }
                Notice::Finish => self.finish = true,
            }
        }
    }

    /// Reports the newest checkpoint that was announced as soon as everything up to it has been committed.
    fn confirm(&mut self) -> Result<()> {
        let under_way = self.chain.commits_under_way()?;
        let confirmed = |id: &CheckpointId| under_way.is_none_or(|oldest| oldest > *id);
        if let Some(checkpoint) = self.announced.take_if(|id| confirmed(id)) {
            self.shared.report(Report::Committed { checkpoint, subtask: self.subtask });
        }
        Ok(())
    }

    /// Sends what waits in the outputs.
    fn flush(&mut self, sessions: Sessions<'_, '_>) {
        let Self { outputs, capabilities, .. } = self;
        if !capabilities.is_empty() {
            Outlet { sessions, capabilities, outputs }.flush_all();
        }
    }

    /// The synchronous part of checkpoint `id`; then the epoch moves on. What was emitted before goes before the barrier.
    fn barrier(&mut self, id: u64, sessions: Sessions<'_, '_>) -> Result<()> {
        self.flush(sessions);
        let (clock, checkpoint) = (self.shared.clock.clone(), CheckpointId(id));
        let (begun, now_ms) = (clock.elapsed(), clock.now_ms());
        let (aligned_from, aligned_ms) = self.align_since.take().unwrap_or((begun, now_ms));
        let parts = self.chain.snapshot(checkpoint)?;
        let delay_ms = self.shared.triggered_at(id).map_or(0, |at| aligned_ms.saturating_sub(at));
        let metrics = AckMetrics {
            start_delay: Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0)),
            alignment: begun.saturating_sub(aligned_from),
            synchronous: clock.elapsed().saturating_sub(begun),
            asynchronous: Duration::ZERO,
        };
        self.epoch = id;
        self.snapshotted.push_back(id);
        if self.snapshotted.len() > 32 {
            self.snapshotted.pop_front();
        }
        self.capabilities.iter_mut().for_each(|capability| capability.downgrade(&id));
        let (generation, subtask, reports) =
            (self.shared.generation, self.subtask, self.shared.reports.clone());
        self.shared.pool.submit(SnapshotJob { generation, checkpoint, subtask, parts, metrics, reports });
        Ok(())
    }

    /// Runs the chain until it is quiet or has to pause.
    fn run_chain(&mut self, turn: &mut Turn<'_>, sessions: Sessions<'_, '_>) -> Result<Pause> {
        let Self { chain, outputs, capabilities, shared, .. } = self;
        let mut outlet = Outlet { sessions, capabilities, outputs };
        let gate = |edges: &[u32]| shared.board.borrow().open(edges);
        chain.run(turn, &gate, &mut outlet)
    }

    /// Hands the chain the next piece of the batch under way: records up to a mark that moves event time, and that mark. `false`:
    /// there is no more of it.
    fn next_piece(&mut self) -> bool {
        let Some(UnderWay { input, from, rest, .. }) = &mut self.current else { return false };
        if rest.is_void() {
            return false;
        }
        let input = &self.inputs[*input];
        let mut piece = std::mem::take(rest);
        let marks = piece.take_marks();
        let (channel, before) = (input.channel(*from), self.time.time());
        self.telling.has_news |= !marks.is_empty();
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
        if !piece.is_empty() {
            self.chain.push_batch(input.port, piece);
        }
        if let Some((_, _, now)) = moved {
            self.chain.push_time(before, now);
        }
        true
    }

    /// Tells the JobManager how far event time is on each channel, now and then.
    fn tell_event_time(&mut self) {
        if self.is_source || self.done || !self.telling.has_news {
            return;
        }
        let clock = &self.shared.clock;
        let now = clock.elapsed();
        if let Some(wait) = self.telling.next.checked_sub(now).filter(|wait| !wait.is_zero()) {
            if !std::mem::replace(&mut self.telling.scheduled, true) {
                self.activator.activate_after(wait);
            }
            return;
        }
        let now_ms = clock.now_ms();
        let told = &mut self.telling.told;
        for channel in 0..self.time.len() {
            let time = self.time.channel(channel);
            match told.get_mut(channel) {
                Some(known) if known.time.watermark == time.watermark => known.time = time,
                Some(known) => *known = ChannelTime { time, moved_at_ms: now_ms },
                None => told.push(ChannelTime { time, moved_at_ms: now_ms }),
            }
        }
        let time = TaskTime { combined: self.time.time(), channels: told.clone() };
        let told = std::mem::take(&mut self.telling.told);
        self.telling = Telling { told, has_news: false, scheduled: false, next: now + TELL_EVERY };
        self.shared.report(Report::EventTime { subtask: self.subtask, time });
    }

    /// The batch under way has been processed: return its credit and release its guard.
    fn complete_current(&mut self) {
        if let Some(UnderWay { edge, from, amount, _guard, .. }) = self.current.take() {
            self.pace.done(amount.records as u32);
            self.shared.board.borrow_mut().processed(edge, from, amount);
        }
    }

    /// Arranges to be called again according to why the chain paused.
    fn pause(&mut self, pause: Pause) {
        match pause {
            Pause::TurnOver => self.activator.activate(),
            Pause::Gated => self.shared.board.borrow_mut().wait(self.slot, &self.activator),
            Pause::Quiet | Pause::NotReady => {}
        }
    }

    fn processing_time(&mut self, turn: &mut Turn<'_>, sessions: Sessions<'_, '_>) -> Result<()> {
        if self.done || !self.chain.is_timed() || !self.chain.is_quiet() {
            return Ok(());
        }
        let now = self.shared.clock.now_ms();
        let due = {
            let Self { chain, outputs, capabilities, .. } = self;
            let mut outlet = Outlet { sessions, capabilities, outputs };
            chain.processing_time(now, turn, &mut outlet)?
        };
        if !self.chain.is_quiet() {
            self.activator.activate();
        } else if let Some(due) = due.filter(|due| *due != i64::MAX) {
            self.activator
                .activate_after(Duration::from_millis(due.saturating_sub(now).clamp(1, 60_000) as u64));
        }
        Ok(())
    }

    fn count(&mut self) {
        use std::sync::atomic::Ordering::Relaxed;
        let metrics = &self.shared.metrics;
        let (records_in, records_out) =
            (std::mem::take(&mut self.chain.records_in), std::mem::take(&mut self.chain.records_out));
        if records_in > 0 {
            metrics.records_in.fetch_add(records_in, Relaxed);
        }
        if records_out > 0 {
            metrics.records_out.fetch_add(records_out, Relaxed);
        }
    }

    /// One activation of a task with inputs.
    fn activate_task(
        &mut self,
        frontiers: &[MutableAntichain<u64>],
        handles: &mut [Input],
        sessions: Sessions<'_, '_>,
    ) -> Result<()> {
        self.notices()?;
        self.pull(handles);
        let low = low_epoch(frontiers);
        let clock = self.shared.clock.clone();
        let mut turn = Turn::begin(self.shared.turn, &*clock);
        loop {
            let pause = self.run_chain(&mut turn, sessions)?;
            if pause != Pause::Quiet {
                self.pause(pause);
                break;
            }
            if self.next_piece() {
                continue;
            }
            self.complete_current();
            if turn.is_over() {
                self.activator.activate();
                break;
            }
            if let Some(Queued { input, batch, guard, .. }) = self.queue.pop_front() {
                let (edge, from) = (self.inputs[input].edge, batch.from as usize);
                let amount = Amount { records: batch.len() as i64, bytes: batch.bytes as i64 };
                self.pace.begin(turn.begun());
                self.current = Some(UnderWay { input, edge, from, amount, rest: batch, _guard: guard });
                continue;
            }
            if self.time.time().is_end() && self.chain.has_ended() && !self.end_reported {
                // before the last barrier, which follows once all tasks have said this
                self.end_reported = true;
                self.shared.report(Report::Ended(self.subtask));
            }
            // nothing of the own epoch is left here, and nothing can arrive: the barrier is complete
            let next = self.later.iter().map(|queued| queued.epoch).min().unwrap_or(u64::MAX).min(low);
            if next > self.epoch && next != u64::MAX {
                let between: Vec<u64> = self
                    .shared
                    .triggered
                    .borrow()
                    .iter()
                    .map(|(id, _)| id.0)
                    .filter(|id| self.epoch < *id && *id < next)
                    .collect();
                for id in between {
                    self.barrier(id, sessions)?;
                }
                self.barrier(next, sessions)?;
                for queued in std::mem::take(&mut self.later) {
                    let target = if queued.epoch <= self.epoch { &mut self.queue } else { &mut self.later };
                    target.push_back(queued);
                }
                continue;
            }
            if low == u64::MAX && self.later.is_empty() && self.chain.has_ended() {
                self.finish(sessions)?;
            }
            break;
        }
        if self.pace.is_due() && turn.is_timed() {
            let in_flight = self.pace.measure(turn.read_now(), self.current.is_some());
            let mut board = self.shared.board.borrow_mut();
            self.inputs.iter().for_each(|input| board.pace(input.edge, in_flight, input.senders));
        }
        self.processing_time(&mut turn, sessions)
    }

    /// Everything is through: the operators take their last step, and whoever reads the outputs learns that this is all.
    fn finish(&mut self, sessions: Sessions<'_, '_>) -> Result<()> {
        if !std::mem::replace(&mut self.finishing, true) {
            self.chain.finish()?;
            self.flush(sessions);
        }
        if self.chain.commits_under_way()?.is_some() {
            // whoever commits wakes the task
            return Ok(());
        }
        self.capabilities.clear();
        self.done = true;
        Ok(())
    }

    /// One activation of a source.
    fn activate_source(&mut self, sessions: Sessions<'_, '_>) -> Result<()> {
        let triggers = self.notices()?;
        let clock = self.shared.clock.clone();
        let mut turn = Turn::begin(self.shared.turn, &*clock);
        let mut pause = self.run_chain(&mut turn, sessions)?;
        if !triggers.is_empty() && pause != Pause::Quiet {
            // the chain below the source is busy: take the barrier as soon as it is quiet
            let mut slots = self.shared.slots.borrow_mut();
            triggers
                .into_iter()
                .rev()
                .for_each(|(id, at_ms)| slots[self.slot].notices.push_front(Notice::Trigger { id, at_ms }));
        } else {
            for (id, _) in triggers {
                if id.0 > self.epoch {
                    self.barrier(id.0, sessions)?;
                }
            }
        }
        let mut wake_at: Option<i64> = None;
        while pause == Pause::Quiet && !self.ended {
            if !self.shared.board.borrow().open(self.chain.head_reach()) {
                pause = Pause::Gated;
                break;
            }
            if turn.is_over() {
                pause = Pause::TurnOver;
                break;
            }
            if let Some(wait) = self.shared.watermark_groups.look_again()
                && self.chain.is_ahead()
            {
                self.shared.watermark_groups.wait(&self.activator);
                self.activator.activate_after(wait);
                break;
            }
            let edges = || self.outputs.iter().map(|output| output.to.edge);
            let room = {
                let mut board = self.shared.board.borrow_mut();
                for Pending { to, batch, .. } in &self.outputs {
                    if !batch.is_empty() && !board.knows_size(to.edge) {
                        board.expect_size(to.edge, batch.record_size());
                    }
                }
                if board.is_much(self.chain.records_in, edges()) {
                    // large records: they are counted when they are sent
                    pause = Pause::TurnOver;
                    break;
                }
                board.room(edges())
            };
            let status = {
                let Self { chain, outputs, capabilities, .. } = self;
                let mut outlet = Outlet { sessions, capabilities, outputs };
                let status = chain.poll_source(POLL.min(room), &mut turn, &mut outlet)?;
                if status == SourceStatus::Ended {
                    chain.end_source(&mut outlet);
                }
                status
            };
            pause = self.run_chain(&mut turn, sessions)?;
            match status {
                SourceStatus::More => {}
                SourceStatus::Idle { until_ms } => {
                    wake_at = Some(until_ms.unwrap_or(i64::MAX));
                    break;
                }
                SourceStatus::Ended => self.ended = true,
            }
        }
        self.pause(pause);
        if self.ended && pause == Pause::Quiet && self.chain.has_ended() {
            if !std::mem::replace(&mut self.end_reported, true) {
                self.shared.report(Report::Ended(self.subtask));
            }
            if self.finish {
                self.finish(sessions)?;
            }
        }
        if let Some(due) = wake_at.filter(|due| *due != i64::MAX) {
            let now = self.shared.clock.now_ms();
            self.activator
                .activate_after(Duration::from_millis(due.saturating_sub(now).clamp(1, 60_000) as u64));
        }
        if pause == Pause::Gated {
            // a source that waits for credits is not idle
            return Ok(());
        }
        self.processing_time(&mut turn, sessions)
    }
}

/// Adds the Timely operator for `task` and returns the streams of its outputs.
pub(crate) fn add_task<'s>(
    scope: Scope<'s, u64>,
    shared: &Rc<WorkerShared>,
    task: &Task,
    streams: &[Vec<Stream<'s, u64, AnyBatch>>],
    outputs_of: &dyn Fn(usize) -> Vec<TaskOutput>,
    chain: impl FnOnce(&OperatorInfo) -> Option<Chain>,
) -> Vec<Stream<'s, u64, AnyBatch>> {
    let mut builder = OperatorBuilder::new(task.name.to_string(), scope);
    let mut handles: Vec<Input> = Vec::new();
    for input in &task.inputs {
        let output = &outputs_of(input.from_task)[input.from_output];
        let (edge, shared) = (input.edge, shared.clone());
        let channel = match &output.delivery {
            Delivery::Local => Channel::Local { edge, shared },
            Delivery::Rebalance | Delivery::Broadcast => {
                Channel::Exchange { edge, shared, splitter: directed() }
            }
            Delivery::Key(factory, groups) => {
                Channel::Exchange { edge, shared, splitter: factory(*groups, output.to_parallelism) }
            }
        };
        handles.push(builder.new_input(streams[input.from_task][input.from_output].clone(), channel));
    }
    let mut outputs: Vec<OutputBuilder<u64, NoopBuilder<AnyBatch>>> = Vec::new();
    let mut produced = Vec::new();
    for _ in &task.outputs {
        let (output, stream) = builder.new_output::<AnyBatch>();
        outputs.push(OutputBuilder::from(output));
        produced.push(stream);
    }
    if task.outputs.is_empty() {
        // a capability that nobody reads: without one Timely would take the dataflow for complete once the input is through,
        // and drop it while a source waits, a window or timer still emits, or a sink commits
        let _ = builder.new_output::<AnyBatch>();
    }
    let info = builder.operator_info();
    let activator = scope.activator_for(info.address.clone());
    let sync = scope.worker().sync_activator_for(info.address.to_vec());
    let active = (shared.index as u32) < task.parallelism;
    let subtask = SubtaskId { vertex: task.vertex, index: SubtaskIndex(shared.index as u32) };
    let slot = {
        let mut slots = shared.slots.borrow_mut();
        slots.push(TaskSlot {
            notices: VecDeque::new(),
            activator: activator.clone(),
            is_source: task.is_source(),
            active,
        });
        slots.len() - 1
    };
    let chain =
        if active { chain(&OperatorInfo { subtask, waker: crate::waker::Waker::new(sync) }) } else { None };
    let pending = |to: &TaskOutput| Pending {
        to: to.clone(),
        batch: AnyBatch::default(),
        next_target: subtask.index.0,
    };
    let (inputs, channels) = TaskChannels::of(task, outputs_of);
    let mut driver = Driver {
        shared: shared.clone(),
        slot,
        subtask,
        dead: active && chain.is_none(),
        done: !active,
        chain: chain.unwrap_or_else(Chain::new),
        outputs: task.outputs.iter().map(pending).collect(),
        activator,
        inputs,
        is_source: task.is_source(),
        capabilities: Vec::new(),
        epoch: 0,
        pace: WorkPace::default(),
        time: Combined::new(channels),
        telling: Telling::default(),
        queue: VecDeque::new(),
        later: VecDeque::new(),
        current: None,
        align_since: None,
        snapshotted: VecDeque::new(),
        ended: false,
        end_reported: false,
        finish: false,
        finishing: false,
        announced: None,
    };
    builder.build(move |capabilities| {
        if active {
            driver.capabilities = capabilities;
        }
        move |frontiers| {
            if driver.done || driver.dead {
                return;
            }
            driver.shared.metrics.enter(driver.subtask.vertex.0);
            let mut sessions: Vec<_> = outputs.iter_mut().map(OutputBuilder::activate).collect();
            let result = match driver.is_source {
                true => driver.activate_source(&mut sessions),
                false => driver.activate_task(frontiers, &mut handles, &mut sessions),
            };
            driver.flush(&mut sessions);
            drop(sessions);
            driver.tell_event_time();
            driver.count();
            driver.shared.metrics.leave();
            if let Err(error) = result {
                driver.dead = true;
                driver.shared.fail(Some(driver.subtask), error);
            }
        }
    });
    produced
}

/// What a chain needs to know of the Timely operator that runs it.
pub(crate) struct OperatorInfo {
    pub subtask: SubtaskId,
    pub waker: crate::waker::Waker,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;

    #[test]
    fn records_are_dealt_out_evenly_and_every_subtask_gets_each_mark_at_its_place() {
        for (records, parallelism) in [(500u64, 8), (3, 8), (0, 3), (1_024, 1), (10, 3)] {
            let at = |watermark| EventTime { watermark, idle: false };
            let mut batch = AnyBatch::from(Batch::new((0..records).collect()));
            let marks = [(0, 1), (records as u32 / 2, 2), (records as u32, 3)];
            batch.set_marks(marks.map(|(place, watermark)| Mark { at: place, time: at(watermark) }).to_vec());
            let mut parts = vec![(Vec::new(), Vec::new()); parallelism as usize];
            let next = deal_out(batch, 5, parallelism, |batch| {
                let part: &mut (Vec<u64>, Vec<(u64, i64)>) = &mut parts[batch.to as usize];
                let marks: Vec<Mark> = batch.marks().to_vec();
                let values = batch.take::<u64>().unwrap().values;
                // how many records of the whole batch came before the mark, as far as this part tells
                let before = |mark: &Mark| values[..mark.at as usize].last().map_or(0, |last| last + 1);
                part.1.extend(marks.iter().map(|mark| (before(mark), mark.time.watermark)));
                part.0.extend(values);
            });
            let mut all: Vec<u64> = parts.iter().flat_map(|(values, _)| values.clone()).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..records));
            let most = records.div_ceil(u64::from(parallelism)) as usize;
            assert!(parts.iter().all(|(values, _)| values.len() <= most), "{records} on {parallelism}");
            for (values, marks) in &parts {
                let marks: Vec<i64> = marks.iter().map(|(_, watermark)| *watermark).collect();
                assert_eq!(marks, [1, 2, 3], "{records} on {parallelism}: {values:?}");
            }
            assert!(next < parallelism);
        }
    }
}
