//! The driver: one Timely operator that runs a chain in one subtask.
//!
//! It holds one capability per output, at `(own epoch, own watermark)`, and emits only under it: it takes its snapshot, then
//! moves its epoch, and only then touches later records; it fires timers and only then moves its watermark. Batches of a
//! later epoch keep their guards while they are set aside, so that they count in every frontier.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use stillstream_types::{CheckpointId, Result, SubtaskId, SubtaskIndex, Timestamp};
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
use crate::control::{Report, SnapshotTimes};
use crate::exchange::{Channel, directed};
use crate::operator::SourceStatus;
use crate::plan::{Delivery, Task, TaskOutput};
use crate::shared::{Alignment, Notice, TaskSlot, WorkerShared};
use crate::snapshot_pool::SnapshotJob;
use crate::stream_time::StreamTime;
use crate::turn::Turn;

type Input = InputHandleCore<StreamTime, AnyBatch, Box<dyn Pull<Message<StreamTime, AnyBatch>>>>;
type Guard = InputCapability<StreamTime>;

/// Most records that a source is asked for at once.
const POLL: usize = 1024;

/// A batch in the task's own queue. While the guard lives, Timely counts the batch as not consumed, and every frontier
/// downstream (and the task's own) stays at its time.
struct Queued {
    time: StreamTime,
    input: usize,
    batch: AnyBatch,
    guard: Guard,
}

/// What is kept of a batch while the chain works on it: where its credit goes, and its guard.
struct UnderWay {
    edge: u32,
    from: usize,
    records: u32,
    _guard: Guard,
}

/// Emits under the task's capabilities.
struct Outlet<'a, 'b> {
    sessions: &'a mut [OutputBuilderSession<'b, StreamTime, NoopBuilder<AnyBatch>>],
    capabilities: &'a mut [Capability<StreamTime>],
    outputs: &'a [TaskOutput],
    /// For each output that deals batches out: whose turn it is.
    next_target: &'a mut [u32],
    epoch: u64,
}

impl Outlet<'_, '_> {
    fn give(&mut self, output: usize, batch: &mut AnyBatch) {
        self.sessions[output].session_with_builder(&self.capabilities[output]).give_container(batch);
    }
}

impl Ports for Outlet<'_, '_> {
    fn send(&mut self, output: usize, mut batch: AnyBatch) {
        let parallelism = self.outputs[output].to_parallelism;
        match self.outputs[output].delivery {
            Delivery::Local | Delivery::Key(..) => self.give(output, &mut batch),
            Delivery::Rebalance => {
                batch.to = self.next_target[output] % parallelism;
                self.next_target[output] = (batch.to + 1) % parallelism;
                self.give(output, &mut batch);
            }
            Delivery::Broadcast => {
                for to in 0..parallelism {
                    let mut copy =
                        if to + 1 == parallelism { std::mem::take(&mut batch) } else { batch.clone() };
                    copy.to = to;
                    self.give(output, &mut copy);
                }
            }
        }
    }

    fn watermark(&mut self, output: usize, watermark: Timestamp) {
        let capability = &mut self.capabilities[output];
        if watermark.as_millis() > capability.time().watermark {
            capability.downgrade(&StreamTime::new(self.epoch, watermark));
        }
    }
}

struct Driver {
    shared: Rc<WorkerShared>,
    slot: usize,
    subtask: SubtaskId,
    chain: Chain,
    outputs: Vec<TaskOutput>,
    next_target: Vec<u32>,
    activator: Activator,
    /// For each input: logical port and edge.
    inputs: Vec<(usize, u32)>,
    is_source: bool,
    capabilities: Vec<Capability<StreamTime>>,
    epoch: u64,
    watermark: Timestamp,
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

fn low_epoch(frontiers: &[MutableAntichain<StreamTime>]) -> u64 {
    let of =
        |frontier: &MutableAntichain<StreamTime>| frontier.frontier().iter().map(|time| time.epoch).min();
    frontiers.iter().filter_map(of).min().unwrap_or(u64::MAX)
}

fn low_watermark(frontiers: &[MutableAntichain<StreamTime>]) -> i64 {
    let of =
        |frontier: &MutableAntichain<StreamTime>| frontier.frontier().iter().map(|time| time.watermark).min();
    frontiers.iter().filter_map(of).min().unwrap_or(i64::MAX)
}

impl Driver {
    /// Pulls everything that has arrived; later epochs are set aside if barriers align.
    fn pull(&mut self, handles: &mut [Input]) {
        let aligned = self.shared.alignment == Alignment::ExactlyOnce;
        for (input, handle) in handles.iter_mut().enumerate() {
            handle.for_each(|guard, data| {
                let time = guard.stamp().elements().first().copied().unwrap_or_default();
                let queued = Queued { time, input, batch: std::mem::take(data), guard };
                if aligned && time.epoch > self.epoch {
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

    /// The last call to the chain; `false` as long as commits that it has begun are under way.
    fn finish_chain(&mut self) -> Result<bool> {
        if !std::mem::replace(&mut self.finishing, true) {
            self.chain.finish()?;
        }
        Ok(self.chain.commits_under_way()?.is_none())
    }

    /// The synchronous part of checkpoint `id`; then the epoch moves on.
    fn barrier(&mut self, id: u64) -> Result<()> {
        let (clock, checkpoint) = (self.shared.clock.clone(), CheckpointId(id));
        let (begun, now_ms) = (clock.elapsed(), clock.now_ms());
        let (aligned_from, aligned_ms) = self.align_since.take().unwrap_or((begun, now_ms));
        let parts = self.chain.snapshot(checkpoint)?;
        let micros = |time: Duration| time.as_micros() as u64;
        let times = SnapshotTimes {
            start_delay_us: self
                .shared
                .triggered_at(id)
                .map_or(0, |at| (aligned_ms - at).max(0) as u64 * 1000),
            alignment_us: micros(begun.saturating_sub(aligned_from)),
            sync_us: micros(clock.elapsed().saturating_sub(begun)),
            async_us: 0,
            set_aside: self.later.iter().map(|queued| queued.batch.len() as u64).sum(),
        };
        self.epoch = id;
        self.snapshotted.push_back(id);
        if self.snapshotted.len() > 32 {
            self.snapshotted.pop_front();
        }
        for capability in &mut self.capabilities {
            let watermark = capability.time().watermark;
            capability.downgrade(&StreamTime { epoch: id, watermark });
        }
        let (generation, subtask, reports) =
            (self.shared.generation, self.subtask, self.shared.reports.clone());
        self.shared.pool.submit(SnapshotJob { generation, checkpoint, subtask, parts, times, reports });
        Ok(())
    }

    /// Runs the chain until it is quiet or has to pause.
    fn run_chain(
        &mut self,
        turn: &mut Turn<'_>,
        sessions: &mut [OutputBuilderSession<'_, StreamTime, NoopBuilder<AnyBatch>>],
    ) -> Result<Pause> {
        let Self { chain, outputs, next_target, capabilities, shared, epoch, .. } = self;
        let mut outlet = Outlet { sessions, capabilities, outputs, next_target, epoch: *epoch };
        let gate = |edges: &[u32]| shared.board.borrow().open(edges);
        chain.run(turn, &gate, &mut outlet)
    }

    /// The batch under way has been processed: return its credit and release its guard.
    fn complete_current(&mut self) {
        if let Some(UnderWay { edge, from, records, _guard }) = self.current.take() {
            self.shared.board.borrow_mut().processed(edge, from, records);
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

    fn processing_time(
        &mut self,
        turn: &mut Turn<'_>,
        sessions: &mut [OutputBuilderSession<'_, StreamTime, NoopBuilder<AnyBatch>>],
    ) -> Result<()> {
        if self.done || !self.chain.is_timed() || !self.chain.is_quiet() {
            return Ok(());
        }
        let now = self.shared.clock.now_ms();
        let due = {
            let Self { chain, outputs, next_target, capabilities, epoch, .. } = self;
            let mut outlet = Outlet { sessions, capabilities, outputs, next_target, epoch: *epoch };
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
        frontiers: &[MutableAntichain<StreamTime>],
        handles: &mut [Input],
        sessions: &mut [OutputBuilderSession<'_, StreamTime, NoopBuilder<AnyBatch>>],
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
            self.complete_current();
            if turn.is_over() {
                self.activator.activate();
                break;
            }
            if let Some(Queued { input, batch, guard, .. }) = self.queue.pop_front() {
                let (port, edge) = self.inputs[input];
                let (from, records) = (batch.from as usize, batch.len() as u32);
                self.current = Some(UnderWay { edge, from, records, _guard: guard });
                self.chain.push_batch(port, batch);
                continue;
            }
            let set_aside = self.later.iter().map(|queued| queued.time.watermark).min().unwrap_or(i64::MAX);
            let watermark = Timestamp::from_millis(low_watermark(frontiers).min(set_aside));
            if watermark == Timestamp::MAX && self.watermark < watermark {
                // the end of the input comes before the barrier, even if one step shows both: what it makes timers and
                // windows emit belongs into the last checkpoint, since none follows
                self.watermark = watermark;
                self.chain.push_watermark(watermark);
                continue;
            }
            // nothing of the own epoch is left here, and nothing can arrive: the barrier is complete
            let next = self.later.iter().map(|queued| queued.time.epoch).min().unwrap_or(u64::MAX).min(low);
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
                    self.barrier(id)?;
                }
                self.barrier(next)?;
                for queued in std::mem::take(&mut self.later) {
                    let target =
                        if queued.time.epoch <= self.epoch { &mut self.queue } else { &mut self.later };
                    target.push_back(queued);
                }
                continue;
            }
            if watermark > self.watermark {
                self.watermark = watermark;
                self.chain.push_watermark(watermark);
                continue;
            }
            if low == u64::MAX && self.later.is_empty() && self.finish_chain()? {
                self.capabilities.clear();
                self.done = true;
            }
            break;
        }
        self.processing_time(&mut turn, sessions)
    }

    /// One activation of a source.
    fn activate_source(
        &mut self,
        sessions: &mut [OutputBuilderSession<'_, StreamTime, NoopBuilder<AnyBatch>>],
    ) -> Result<()> {
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
                    self.barrier(id.0)?;
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
            let status = {
                let Self { chain, outputs, next_target, capabilities, epoch, .. } = self;
                let mut outlet = Outlet { sessions, capabilities, outputs, next_target, epoch: *epoch };
                let status = chain.poll_source(POLL, &mut turn, &mut outlet)?;
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
        if self.ended && pause == Pause::Quiet {
            if !std::mem::replace(&mut self.end_reported, true) {
                self.shared.report(Report::SourceEnded(self.subtask));
            }
            if self.finish && self.finish_chain()? {
                self.capabilities.clear();
                self.done = true;
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
    scope: Scope<'s, StreamTime>,
    shared: &Rc<WorkerShared>,
    task: &Task,
    streams: &[Vec<Stream<'s, StreamTime, AnyBatch>>],
    outputs_of: &dyn Fn(usize) -> Vec<TaskOutput>,
    chain: impl FnOnce(&OperatorInfo) -> Option<Chain>,
) -> Vec<Stream<'s, StreamTime, AnyBatch>> {
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
    let mut outputs: Vec<OutputBuilder<StreamTime, NoopBuilder<AnyBatch>>> = Vec::new();
    let mut produced = Vec::new();
    for _ in &task.outputs {
        let (output, stream) = builder.new_output::<AnyBatch>();
        outputs.push(OutputBuilder::from(output));
        produced.push(stream);
    }
    if task.outputs.is_empty() {
        // a capability that nobody reads: without one Timely would take the dataflow for complete and drop it, with what a
        // source still has or a sink still commits
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
    let mut driver = Driver {
        shared: shared.clone(),
        slot,
        subtask,
        dead: active && chain.is_none(),
        done: !active,
        chain: chain.unwrap_or_else(Chain::new),
        outputs: task.outputs.clone(),
        next_target: vec![subtask.index.0; task.outputs.len()],
        activator,
        inputs: task.inputs.iter().map(|input| (input.port, input.edge)).collect(),
        is_source: task.is_source(),
        capabilities: Vec::new(),
        epoch: 0,
        watermark: Timestamp::MIN,
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
            drop(sessions);
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
