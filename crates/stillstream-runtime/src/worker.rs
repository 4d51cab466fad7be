//! One worker thread during one attempt: builds the dataflow, steps it, hands control messages to its tasks.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_types::crash::crash_point;
use stillstream_types::file_access::FileAccess;
use stillstream_types::{Error, ErrorKind, JobId, OperatorId, Result};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange as ExchangePact;
use timely::dataflow::operators::Operator as _;
use timely::dataflow::operators::generic::operator::source;
use timely::scheduling::Activator;
use timely::worker::Worker;

use crate::backends::StateBackends;
use crate::catch::{catch, panic_text};
use crate::chain::Chain;
use crate::clock::Clock;
use crate::control::{AttemptSpec, Control, Report};
use crate::flow::{Amount, Board, FlowLimits, Owed};
use crate::metrics::{Counters, WorkerMetrics};
use crate::operator::{OpenContext, PendingTimers};
use crate::plan::{NodeBody, Physical, Task};
use crate::shared::{Alignment, Notice, ReportSink, WorkerShared};
use crate::snapshot_pool::{SnapshotPool, SnapshotStores};
use crate::task::{OperatorInfo, add_task};
use crate::turn::TurnLimits;
use crate::watermark_groups::WatermarkGroups;

/// A worker without work is woken by whatever brings some: records, a control message, a source's thread, a timer. It looks
/// around by itself this often all the same.
const LONGEST_PARK: Duration = Duration::from_secs(1);

/// Settings that every worker of a job has.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSettings {
    pub alignment: Alignment,
    pub job: JobId,
    pub file_access: FileAccess,
    pub checkpointing: bool,
    pub backend: StateBackends,
    pub flow: FlowLimits,
    pub turn: TurnLimits,
    pub pending_timers: PendingTimers,
    pub auto_watermark_interval: Option<Duration>,
    pub watermark_each_batch: bool,
}

/// Wakes a worker that is parked, and takes its control messages.
pub(crate) struct Inbox {
    sender: mpsc::Sender<Control>,
    thread: Mutex<Option<std::thread::Thread>>,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}

impl Inbox {
    /// Sender and receiver of one worker.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<Control>) {
        let (sender, receiver) = mpsc::channel();
        (Arc::new(Self { sender, thread: Mutex::new(None) }), receiver)
    }

    pub fn send(&self, control: Control) {
        // a worker that is gone needs no message
        let _ = self.sender.send(control);
        if let Some(thread) = self.thread.lock().as_ref() {
            thread.unpark();
        }
    }

    /// Says which thread to wake.
    pub fn bind(&self, thread: std::thread::Thread) {
        *self.thread.lock() = Some(thread);
    }
}

/// What a worker needs to run an attempt.
pub(crate) struct WorkerContext {
    pub physical: Arc<Physical>,
    pub settings: WorkerSettings,
    pub stores: Arc<dyn SnapshotStores>,
    pub pool: Arc<SnapshotPool>,
    pub reports: Arc<dyn ReportSink>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<WorkerMetrics>,
    pub counters: Arc<Counters>,
}

fn open_chain(
    context: &WorkerContext,
    shared: &WorkerShared,
    spec: &AttemptSpec,
    task: &Task,
    info: &OperatorInfo,
) -> Result<Chain> {
    let mut chain = Chain::new();
    let store =
        context.stores.reader(spec.restored.as_ref().and_then(|restored| restored.location.as_deref()))?;
    if spec.restored.is_some() {
        crash_point("during-restore")?;
    }
    for (at, operator) in task.chain.iter().enumerate() {
        let restored = |id: &OperatorId| {
            let state = spec.restored.as_ref()?.operators.get(id)?;
            state.get(&info.subtask.index).filter(|state| !state.is_empty()).cloned()
        };
        let mut open = OpenContext {
            name: operator.name.clone(),
            operator: operator.id,
            subtask: info.subtask.index,
            parallelism: task.parallelism,
            key_groups: operator.key_groups,
            restored: restored(&operator.id),
            restored_checkpoint: spec.restored.as_ref().map(|restored| restored.checkpoint),
            store: store.clone(),
            backend: context.settings.backend.clone(),
            checkpointing: context.settings.checkpointing,
            job: context.settings.job,
            file_access: context.settings.file_access,
            generation: spec.generation.0,
            clock: context.clock.clone(),
            waker: info.waker.clone(),
            pending_timers: context.settings.pending_timers,
            auto_watermark_interval: context.settings.auto_watermark_interval,
            watermark_each_batch: context.settings.watermark_each_batch,
            watermark_groups: shared.watermark_groups.clone(),
            counters: context.counters.clone(),
        };
        let last = at + 1 == task.chain.len();
        let (id, name, reach) = (operator.id, operator.name.clone(), operator.reach.clone());
        let named = |error: Error| {
            error.context(format!("opening operator `{}` (subtask {})", operator.name, info.subtask.index))
        };
        match &operator.body {
            NodeBody::Source(factory) => {
                let source = catch("its code", || {
                    let mut source = factory()?;
                    source.open(&mut open)?;
                    Ok(source)
                });
                chain.add_source(id, name, reach, source.map_err(named)?, &task.outputs, last);
            }
            NodeBody::Operator(factory) => {
                let instance = catch("its code", || {
                    let mut instance = factory()?;
                    instance.open(&mut open)?;
                    Ok(instance)
                });
                chain.add_operator(id, name, reach, instance.map_err(named)?, &task.outputs, last);
            }
        }
    }
    Ok(chain)
}

/// A message of the second dataflow.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
enum Note {
    /// So much of `edge` has been processed by worker `from`, and so many records may be in flight to it from now on.
    Credit { to: u64, from: u64, edge: u32, records: i64, bytes: i64, limit: i64 },
    /// The slowest member of `group` on worker `from` is at `watermark`.
    Group { to: u64, from: u64, group: u64, watermark: i64 },
}

impl Note {
    fn to(&self) -> u64 {
        match self {
            Self::Credit { to, .. } | Self::Group { to, .. } => *to,
        }
    }
}

/// The second dataflow: credits back to the senders, and how far the members of a group of sources are. It never blocks and nothing waits for it.
fn add_notes(
    worker: &mut Worker,
    shared: &Rc<WorkerShared>,
    end: &Rc<Cell<bool>>,
) -> Rc<RefCell<Option<Activator>>> {
    let peers = worker.peers() as u64;
    let activator: Rc<RefCell<Option<Activator>>> = Rc::default();
    let (sender, receiver, end, slot) = (shared.clone(), shared.clone(), end.clone(), activator.clone());
    worker.dataflow_named::<(), _, _>("credits", |scope| {
        let notes = source::<_, CapacityContainerBuilder<Vec<Note>>, _, _>(
            scope,
            "credits",
            move |capability, info| {
                let own = scope.activator_for(info.address);
                sender.watermark_groups.set_sender(own.clone());
                *slot.borrow_mut() = Some(own);
                let mut capability = Some(capability);
                move |output| {
                    if end.get() {
                        capability = None;
                    }
                    let Some(capability) = &capability else { return };
                    let mut session = output.session(capability);
                    let from = sender.index as u64;
                    sender.board.borrow_mut().take_owed(|Owed { to, edge, amount, limit }| {
                        let Amount { records, bytes } = amount;
                        session.give(Note::Credit { to, from, edge, records, bytes, limit })
                    });
                    for (group, watermark) in sender.watermark_groups.take_news() {
                        (0..peers).filter(|to| *to != from).for_each(|to| {
                            session.give(Note::Group { to, from, group, watermark });
                        });
                    }
                }
            },
        );
        notes.sink(ExchangePact::new(Note::to), "credited", move |(input, _)| {
            input.for_each(|_, notes: &mut Vec<Note>| {
                for note in notes.drain(..) {
                    match note {
                        Note::Credit { from, edge, records, bytes, limit, .. } => {
                            let amount = Amount { records, bytes };
                            receiver.board.borrow_mut().credited(edge, from as usize, amount, limit);
                        }
                        Note::Group { from, group, watermark, .. } => {
                            receiver.watermark_groups.heard(from as usize, group, watermark);
                        }
                    }
                }
            });
        });
    });
    activator
}

/// Runs one attempt on this worker, to the end of the input (`true`) or until it is told to stop.
///
/// The dataflows are dropped when it returns, so that the next attempt can build them again on the same worker.
pub(crate) fn run_attempt(
    worker: &mut Worker,
    context: &WorkerContext,
    spec: &AttemptSpec,
    control: &mpsc::Receiver<Control>,
) -> bool {
    let (index, peers) = (worker.index(), worker.peers());
    let settings = &context.settings;
    let board = Board::new(index, peers, context.physical.edges, settings.flow);
    let shared = Rc::new(WorkerShared {
        index,
        generation: spec.generation,
        alignment: settings.alignment,
        turn: settings.turn,
        board: RefCell::new(board),
        watermark_groups: WatermarkGroups::new(index),
        slots: RefCell::default(),
        failed: Cell::new(false),
        triggered: RefCell::default(),
        reports: context.reports.clone(),
        pool: context.pool.clone(),
        clock: context.clock.clone(),
        metrics: context.metrics.clone(),
    });
    let job = worker.next_dataflow_index();
    let mut running = Vec::new();
    worker.dataflow_named::<u64, _, _>("job", |scope| {
        let mut streams = Vec::new();
        for task in &context.physical.tasks {
            let outputs_of = |task: usize| context.physical.tasks[task].outputs.clone();
            let open = |info: &OperatorInfo| match open_chain(context, &shared, spec, task, info) {
                Ok(chain) => {
                    running.push(info.subtask);
                    Some(chain)
                }
                Err(error) => {
                    shared.fail(Some(info.subtask), error);
                    None
                }
            };
            let produced = add_task(scope, &shared, task, &streams, &outputs_of, open);
            streams.push(produced);
        }
    });
    running.into_iter().for_each(|subtask| shared.report(Report::Running(subtask)));
    let end = Rc::new(Cell::new(false));
    let notes = worker.next_dataflow_index();
    let activator = add_notes(worker, &shared, &end);
    let drained = step(worker, &shared, control, job, &end, &activator);
    let dropped = catch("dropping the dataflow", || {
        for dataflow in [job, notes] {
            if worker.installed_dataflows().contains(&dataflow) {
                worker.drop_dataflow(dataflow);
            }
        }
        Ok(())
    });
    if let Err(error) = dropped {
        tracing::warn!(worker = index, "{error}");
    }
    let in_flight = shared.board.borrow().max_in_flight.max(0) as u64;
    context.metrics.max_in_flight.fetch_max(in_flight, std::sync::atomic::Ordering::Relaxed);
    // what this attempt started must not have an effect after the next one has been opened
    context.pool.retire(spec.generation);
    shared.report(Report::Stopped { worker: index, drained });
    drained
}

/// What a panic of a step means. Users' code is caught closer to it, so this is a lost peer or a fault of the engine.
fn engine_failure(worker: usize, panic: &str) -> Error {
    // these are the words of Timely's network threads, and of the queues that they leave behind
    if panic.contains("timely communication error") || panic.contains("MergeQueue") {
        let text = format!("worker {worker} lost its connection to another worker process");
        return Error::new(ErrorKind::Peer, text);
    }
    Error::new(ErrorKind::Panic, format!("the thread of worker {worker} panicked: {panic}"))
}

/// Steps until the job's dataflow has drained (`true`) or the attempt is stopped (`false`).
fn step(
    worker: &mut Worker,
    shared: &Rc<WorkerShared>,
    control: &mpsc::Receiver<Control>,
    job: usize,
    end: &Rc<Cell<bool>>,
    notes: &Rc<RefCell<Option<Activator>>>,
) -> bool {
    let mut job_done = false;
    loop {
        loop {
            match control.try_recv() {
                Ok(Control::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Ok(message) => deliver(shared, message),
                Err(mpsc::TryRecvError::Empty) => break,
            }
        }
        if shared.failed.get() {
            // the JobManager has been told; wait for its word, and do nothing more in between
            match control.recv() {
                Ok(Control::Stop) | Err(_) => return false,
                Ok(_) => continue,
            }
        }
        if !job_done && !worker.installed_dataflows().contains(&job) {
            job_done = true;
            end.set(true);
        }
        let owes = shared.board.borrow().owed() > 0;
        let idle = || worker.activations().borrow().empty_for() != Some(Duration::ZERO);
        if job_done || (owes && (shared.board.borrow().owes_much() || idle())) {
            notes.borrow().iter().for_each(Activator::activate);
        }
        if !worker.has_dataflows() {
            return true;
        }
        // Whether anything is active is known after the step only: a worker that still owes credits must not fall asleep over
        // them, since their senders may be waiting for nothing else.
        let owes = shared.board.borrow().owed() > 0;
        let park = if owes { Duration::ZERO } else { LONGEST_PARK };
        let stepped =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| worker.step_or_park(Some(park))));
        if let Err(payload) = stepped {
            shared.fail(None, engine_failure(shared.index, &panic_text(&*payload)));
        }
    }
}

/// Hands a control message to the tasks that it is for.
fn deliver(shared: &WorkerShared, message: Control) {
    let notice = match message {
        Control::Trigger { id, at_ms } => {
            let mut triggered = shared.triggered.borrow_mut();
            triggered.push_back((id, at_ms));
            if triggered.len() > 16 {
                triggered.pop_front();
            }
            Notice::Trigger { id, at_ms }
        }
        Control::Complete { id } => Notice::Complete { id },
        Control::Aborted { id } => Notice::Aborted { id },
        Control::Finish => Notice::Finish,
        Control::Stop => return,
    };
    for slot in shared.slots.borrow_mut().iter_mut().filter(|slot| slot.active) {
        if notice == Notice::Finish && !slot.is_source {
            continue;
        }
        slot.notices.push_back(notice);
        slot.activator.activate();
    }
}
