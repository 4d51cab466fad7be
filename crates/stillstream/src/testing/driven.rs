//! [`Driven`]: the subtasks of one operator, taken out of a plan and run by hand.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use stillstream_runtime::clock::{Clock, ManualClock};
use stillstream_runtime::exchange::Splitter;
use stillstream_runtime::metrics::Counters;
use stillstream_runtime::plan::{Exchange, Node, NodeBody};
use stillstream_runtime::waker::Waker;
use stillstream_runtime::{AnyBatch, Emission, OpenContext, Operator, Output};
use stillstream_state::{Data, MemorySnapshotStore};
use stillstream_types::{
    CheckpointId, Error, ErrorKind, KeyGroups, OperatorStateHandle, OperatorSubtaskState, PendingTimers,
    RedistributionMode, Result, SnapshotForm, Timestamp,
};

use super::DriverSnapshot;
use crate::data_stream::DataStream;
use crate::side_output::{OutputTag, Sides};

/// How records of one input get to the subtasks.
enum Deal {
    Split(Box<dyn Splitter>),
    ToAll,
    ToFirst,
}

/// What the plan says about the operator.
struct Planned {
    node: Node,
    sides: Sides,
    /// The side output that the driver's stream is, if it is one.
    side: Option<u32>,
}

struct Subtask {
    operator: Box<dyn Operator>,
    out: Output,
}

/// Says that an operator has asked to be scheduled.
#[derive(Clone, Default)]
struct Woken(Arc<(Mutex<bool>, Condvar)>);

/// So long a driver waits for what happens outside of it.
const PATIENCE: Duration = Duration::from_secs(30);

impl Woken {
    fn waker(&self) -> Waker {
        let (woken, condition) = (self.0.clone(), self.0.clone());
        Waker::by_hand(move || {
            *woken.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            condition.1.notify_all();
        })
    }

    /// Waits until an operator asks; `false`: none has in a long time.
    fn wait(&self) -> bool {
        let (woken, condition) = &*self.0;
        let woken = woken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = condition.wait_timeout_while(woken, PATIENCE, |woken| !*woken);
        let (mut woken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        *woken = false;
        !waited.timed_out()
    }
}

pub(super) struct Driven<R> {
    /// Or what is wrong with it.
    planned: Result<Planned, String>,
    parallelism: u32,
    restored: Option<DriverSnapshot>,
    pending_timers: PendingTimers,
    clock: Arc<ManualClock>,
    counters: Arc<Counters>,
    /// By input.
    deals: Vec<Deal>,
    subtasks: Vec<Subtask>,
    main: Vec<(R, Option<Timestamp>)>,
    side: Vec<(u32, AnyBatch)>,
    checkpoints: u64,
    woken: Woken,
    /// Another backend than the one in memory.
    #[cfg(all(test, feature = "rocksdb"))]
    pub backend: Option<stillstream_runtime::backends::StateBackends>,
}

impl<R> fmt::Debug for Driven<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.planned.as_ref().map(|planned| &planned.node.name);
        f.debug_struct("Driven")
            .field("operator", &name)
            .field("parallelism", &self.parallelism)
            .finish_non_exhaustive()
    }
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Plan, message)
}

fn plan_of<R: Data>(stream: &DataStream<R>, inputs: usize) -> Result<Planned, String> {
    let plan = stream.graph().plan().map_err(|error| error.to_string())?;
    let operators = plan.nodes.len() - inputs;
    let [upstream] = stream.upstreams() else {
        return Err("a driver drives one operator, and this is a union of streams".into());
    };
    if operators != 1 || upstream.node.0 < inputs {
        return Err(format!(
            "a driver drives one operator, and here are {operators}: test each one by itself, and the whole in a job"
        ));
    }
    let (sides, _) = stream.graph().sides(upstream.node);
    Ok(Planned { node: plan.nodes[upstream.node.0].clone(), sides, side: upstream.side })
}

impl<R: Data> Driven<R> {
    /// The operator that a stream comes from, which reads `inputs` streams.
    pub fn of(stream: &DataStream<R>, inputs: usize) -> Self {
        Self {
            planned: plan_of(stream, inputs),
            parallelism: 1,
            restored: None,
            pending_timers: PendingTimers::Drop,
            clock: Arc::default(),
            counters: Arc::default(),
            deals: Vec::new(),
            subtasks: Vec::new(),
            main: Vec::new(),
            side: Vec::new(),
            checkpoints: 0,
            woken: Woken::default(),
            #[cfg(all(test, feature = "rocksdb"))]
            backend: None,
        }
    }

    pub fn set_parallelism(&mut self, parallelism: u32) {
        self.parallelism = parallelism.max(1);
    }

    pub fn restore(&mut self, snapshot: DriverSnapshot) {
        self.restored = Some(snapshot);
    }

    pub fn read<O: Data>(&mut self, tag: &OutputTag<O>) {
        if let Ok(planned) = &self.planned
            && let Err(mistake) = planned.sides.declare(tag, &planned.node.name)
        {
            self.planned = Err(mistake);
        }
    }

    fn open(&mut self) -> Result<()> {
        if !self.subtasks.is_empty() {
            return Ok(());
        }
        let planned = self.planned.as_ref().map_err(|mistake| wrong(mistake.as_str()))?;
        let node = &planned.node;
        let NodeBody::Operator(make) = &node.body else { return Err(wrong("a source cannot be driven")) };
        let parallelism = node.parallelism.unwrap_or(self.parallelism);
        let default = KeyGroups::default_max_parallelism(parallelism);
        let groups = KeyGroups::new(node.max_parallelism.unwrap_or(default));
        self.deals = node
            .inputs
            .iter()
            .map(|input| match &input.exchange {
                Exchange::Key(splitter) | Exchange::Partition(splitter) => {
                    Deal::Split(splitter(groups, parallelism))
                }
                Exchange::Broadcast => Deal::ToAll,
                Exchange::Forward
                | Exchange::ForwardOnly
                | Exchange::Rebalance
                | Exchange::Rescale
                | Exchange::Global => Deal::ToFirst,
            })
            .collect();
        let restored = self.restored.take();
        for subtask in 0..parallelism {
            let store = Arc::new(MemorySnapshotStore::default());
            let mut context =
                OpenContext::by_hand(&node.name, subtask, parallelism, groups, store, self.clock.clone());
            context.counters = self.counters.clone();
            context.pending_timers = self.pending_timers;
            context.waker = self.woken.waker();
            context.restored =
                restored.as_ref().map(|old| deal_out(&old.0, subtask as usize, parallelism as usize));
            context.restored_checkpoint = restored.as_ref().map(|_| CheckpointId(self.checkpoints));
            #[cfg(all(test, feature = "rocksdb"))]
            if let Some(backend) = &self.backend {
                context.backend = backend.clone();
            }
            let mut operator = make()?;
            operator.open(&mut context)?;
            self.subtasks.push(Subtask { operator, out: Output::default() });
        }
        Ok(())
    }

    /// Lets a subtask go on until it has nothing to do, and takes what it has emitted.
    fn settle(&mut self, subtask: usize) -> Result<()> {
        let main = self.planned.as_ref().map_or(None, |planned| planned.side);
        let now = self.clock.now_ms();
        let Subtask { operator, out } = &mut self.subtasks[subtask];
        while operator.resume(out)? {}
        // as a job does whenever a task has worked: a timer can be due as soon as it is set
        while operator.processing_time(now, out)?.is_some_and(|next| next <= now) {}
        for emission in out.drain() {
            let (side, batch) = match emission {
                Emission::Batch(batch) => (None, batch),
                Emission::Side(side, batch) => (Some(side), batch),
                _ => continue,
            };
            if side == main {
                let batch = batch.take::<R>()?;
                let times: Vec<_> =
                    (0..batch.len()).map(|i| batch.time(i).map(Timestamp::from_millis)).collect();
                self.main.extend(batch.values.into_iter().zip(times));
            } else if let Some(side) = side {
                self.side.push((side, batch));
            }
        }
        Ok(())
    }

    pub fn push(&mut self, port: usize, batch: AnyBatch) -> Result<()> {
        self.open()?;
        let mut parts = Vec::new();
        match &mut self.deals[port] {
            Deal::Split(splitter) => {
                splitter.split(batch, &mut |target, part| parts.push((target, part)))?;
                splitter.flush(&mut |target, part| parts.push((target, part)));
            }
            Deal::ToAll => parts.extend((0..self.subtasks.len()).map(|target| (target, batch.clone()))),
            Deal::ToFirst => parts.push((0, batch)),
        }
        for (target, part) in parts {
            self.until_ready(target)?;
            let Subtask { operator, out } = &mut self.subtasks[target];
            operator.process(port, part, out)?;
            self.settle(target)?;
        }
        Ok(())
    }

    /// Waits until a subtask takes what comes next.
    fn until_ready(&mut self, subtask: usize) -> Result<()> {
        loop {
            let Subtask { operator, out } = &mut self.subtasks[subtask];
            let ready = operator.ready(out)?;
            self.settle(subtask)?;
            if ready {
                return Ok(());
            }
            self.wait()?;
        }
    }

    fn wait(&self) -> Result<()> {
        let late = || {
            let message = format!("the operator waits, and nothing has woken it for {PATIENCE:?}");
            Error::new(ErrorKind::Timeout, message)
        };
        self.woken.wait().then_some(()).ok_or_else(late)
    }

    /// Waits for what the operator has asked for elsewhere, until this many records have come out and not been taken.
    pub fn await_output(&mut self, records: usize) -> Result<()> {
        self.open()?;
        loop {
            (0..self.subtasks.len()).try_for_each(|subtask| self.settle(subtask))?;
            if self.main.len() >= records {
                return Ok(());
            }
            self.wait()?;
        }
    }

    pub fn watermark(&mut self, watermark: Timestamp) -> Result<()> {
        self.open()?;
        for subtask in 0..self.subtasks.len() {
            self.until_ready(subtask)?;
            let Subtask { operator, out } = &mut self.subtasks[subtask];
            operator.watermark(watermark, out)?;
            self.settle(subtask)?;
        }
        Ok(())
    }

    pub fn set_pending_timers(&mut self, pending: PendingTimers) {
        self.pending_timers = pending;
    }

    /// Ends the input of all subtasks; the clock moves on to timers that are awaited.
    pub fn end_input(&mut self) -> Result<()> {
        self.open()?;
        for subtask in 0..self.subtasks.len() {
            loop {
                let now = self.clock.now_ms();
                let Subtask { operator, out } = &mut self.subtasks[subtask];
                let Some(next) = operator.end_of_input(now, out)? else { break };
                match next {
                    // it waits for something outside
                    i64::MAX => self.wait()?,
                    next if next > now => self.clock.set_ms(next),
                    _ => {}
                }
                self.settle(subtask)?;
            }
        }
        self.watermark(Timestamp::MAX)
    }

    pub fn advance_clock(&mut self, by: Duration) -> Result<()> {
        self.open()?;
        self.clock.advance(by);
        (0..self.subtasks.len()).try_for_each(|subtask| self.settle(subtask))
    }

    pub fn output(&mut self) -> Vec<(R, Option<Timestamp>)> {
        std::mem::take(&mut self.main)
    }

    pub fn side<O: Data>(&mut self, tag: &OutputTag<O>) -> Result<Vec<O>> {
        let planned = self.planned.as_ref().map_err(|mistake| wrong(mistake.as_str()))?;
        let number = planned.sides.declare(tag, &planned.node.name).map_err(wrong)?;
        let (own, rest) =
            std::mem::take(&mut self.side).into_iter().partition::<Vec<_>, _>(|(side, _)| *side == number);
        self.side = rest;
        let mut records = Vec::new();
        for (_, batch) in own {
            records.extend(batch.take::<O>()?.values);
        }
        Ok(records)
    }

    pub fn counter(&self, name: &str) -> u64 {
        let Ok(planned) = &self.planned else { return 0 };
        self.counters.all().get(&format!("{}.{name}", planned.node.name)).copied().unwrap_or(0)
    }

    pub fn snapshot(&mut self) -> Result<DriverSnapshot> {
        self.open()?;
        self.checkpoints += 1;
        let id = CheckpointId(self.checkpoints);
        let write = |subtask: &mut Subtask| match subtask.operator.snapshot(id, SnapshotForm::Checkpoint)? {
            Some(write) => write(&MemorySnapshotStore::default()),
            None => Ok(OperatorSubtaskState::default()),
        };
        self.subtasks.iter_mut().map(write).collect::<Result<_>>().map(DriverSnapshot)
    }
}

/// What a subtask is given of the state of all old ones: each takes its own key groups of keyed state.
fn deal_out(old: &[OperatorSubtaskState], subtask: usize, parallelism: usize) -> OperatorSubtaskState {
    let mut own = OperatorSubtaskState::default();
    for (from, state) in old.iter().enumerate() {
        own.keyed.extend(state.keyed.iter().cloned());
        own.incremental.extend(state.incremental.iter().cloned());
        for handle in &state.operator {
            let is_own = |mode| match mode {
                RedistributionMode::Split => from % parallelism == subtask,
                RedistributionMode::Union => true,
                RedistributionMode::Broadcast => from == subtask % old.len(),
            };
            let states = handle.states.iter().filter(|(_, entry)| is_own(entry.mode));
            let states = states.map(|(name, entry)| (name.clone(), entry.clone())).collect();
            own.operator.push(OperatorStateHandle { states, stream: handle.stream.clone() });
        }
    }
    own
}
