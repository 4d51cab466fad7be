//! One worker thread during one attempt.
//!
//! # An attempt on a worker
//!
//! 1. [`run_attempt`] builds the job's dataflow. Each subtask opens its chain there; one that cannot fails
//!    the attempt, and the others are opened all the same, so that every worker builds the same dataflow.
//! 2. Subtasks that are open are reported as `Running`. Then the dataflow of [notes](crate::flow::notes) is
//!    built.
//! 3. `step`: hands control messages to the mailboxes of the tasks, lets Timely run what is active, and
//!    sleeps when nothing is. Records, control messages, threads of sources and sinks, and timers wake it up.
//!
//! # Its end
//!
//! 1. *By itself*: all tasks are done (see [`subtask`](super::subtask)), so Timely has dropped the job's
//!    dataflow. The dataflow of notes ends with it; when that is gone too the worker has drained.
//! 2. *Told to stop*: `Stop` comes, or the JobManager's side of the inbox is gone. The worker returns in the
//!    midst of its work.
//! 3. *After an error*: the first one of a worker is reported as `Failed`. The worker steps no more, so that
//!    nothing follows from an error but the JobManager's `Stop`, for which it waits.
//! 4. In each case the dataflows are dropped here and operators with them, in whatever state they are; the
//!    next attempt can build its own on the same worker.
//! 5. The generation is retired in the snapshot pool: what waits there is thrown away, what is being written
//!    is awaited.
//! 6. Only then is `Stopped` reported. The JobManager starts nothing anew before all workers have said it, so
//!    nothing of this attempt has an effect after the next one has been opened.
//!
//! # Races
//!
//! - *`Stop` and the end of the input*: whichever the worker sees first counts; `Stopped` says which it was.
//! - *A message for an attempt that has ended*: each attempt has an inbox of its own, so it is lost with
//!   that.
//! - *A peer is gone*: Timely's threads panic in a step. That is caught and becomes a failure of the attempt.
//! - *A panic of the engine here*: whoever calls [`run_attempt`] catches it, and goes through 4 to 6 in its
//!   place.
//! - *The last credit*: whether a worker is idle is known only after a step, so one that owes credits does
//!   not sleep.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use stillstream_types::{Error, ErrorKind};
use timely::worker::Worker;

use crate::catch::{catch, panic_text};
use crate::control::{AttemptSpec, Control, Report};
use crate::dataflow::attempt::WorkerAttempt;
use crate::dataflow::build::{SubtaskInfo, add_task};
use crate::dataflow::open::{WorkerContext, open_chain};
use crate::flow::Flow;
use crate::flow::notes::Notes;

/// Runs one attempt on this worker, to the end of the input (`true`) or until it is told to stop.
///
/// The dataflows are dropped when it returns, so that the next attempt can build them again on the same
/// worker.
pub(crate) fn run_attempt(
    worker: &mut Worker,
    context: &WorkerContext,
    spec: &AttemptSpec,
    control: &mpsc::Receiver<Control>,
) -> bool {
    let (index, workers) = (worker.index(), worker.peers());
    let settings = &context.settings;
    let attempt = Rc::new(WorkerAttempt {
        worker: index,
        generation: spec.generation,
        mode: settings.mode,
        turn: settings.turn,
        flow: Rc::new(Flow::new(index, workers, context.physical.edges, settings.flow)),
        mailboxes: RefCell::default(),
        failed: Cell::new(false),
        reports: context.reports.clone(),
        pool: context.pool.clone(),
        clock: context.clock.clone(),
        metrics: context.metrics.clone(),
    });
    let job = build_job(worker, context, &attempt, spec);
    let notes = Notes::build(worker, &attempt.flow);
    let drained = step(worker, &attempt, control, job, &notes, settings.longest_sleep);
    let dropped = catch("dropping the dataflow", || {
        for dataflow in [job, notes.dataflow()] {
            if worker.installed_dataflows().contains(&dataflow) {
                worker.drop_dataflow(dataflow);
            }
        }
        Ok(())
    });
    if let Err(error) = dropped {
        tracing::warn!(worker = index, "{error}");
    }
    let in_flight = attempt.flow.credits.borrow().max_in_flight.max(0) as u64;
    context.metrics.max_in_flight.fetch_max(in_flight, Ordering::Relaxed);
    // what this attempt started must not have an effect after the next one has been opened
    context.pool.retire(spec.generation);
    attempt.report(Report::Stopped { worker: index, drained });
    drained
}

/// Builds the job's dataflow, reports which subtasks are open, and returns its number.
fn build_job(
    worker: &mut Worker,
    context: &WorkerContext,
    attempt: &Rc<WorkerAttempt>,
    spec: &AttemptSpec,
) -> usize {
    let job = worker.next_dataflow_index();
    let mut running = Vec::new();
    worker.dataflow_named::<u64, _, _>("job", |scope| {
        let mut streams = Vec::new();
        for task in &context.physical.tasks {
            let outputs_of = |task: usize| context.physical.tasks[task].outputs.clone();
            let open = |info: &SubtaskInfo| match open_chain(context, attempt, spec, task, info) {
                Ok(chain) => {
                    running.push(info.subtask);
                    Some(chain)
                }
                Err(error) => {
                    attempt.fail(Some(info.subtask), error);
                    None
                }
            };
            let produced = add_task(scope, attempt, task, &streams, &outputs_of, open);
            streams.push(produced);
        }
    });
    running.into_iter().for_each(|subtask| attempt.report(Report::Running(subtask)));
    job
}

/// What a panic of a step means. Users' code is caught closer to it, so this is a lost peer or a fault of the
/// engine.
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
    attempt: &WorkerAttempt,
    control: &mpsc::Receiver<Control>,
    job: usize,
    notes: &Notes,
    longest_sleep: Duration,
) -> bool {
    loop {
        loop {
            match control.try_recv() {
                Ok(Control::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Ok(message) => attempt.deliver(&message),
                Err(mpsc::TryRecvError::Empty) => break,
            }
        }
        if attempt.failed.get() {
            // the JobManager has been told; wait for its word, and do nothing more in between
            match control.recv() {
                Ok(Control::Stop) | Err(_) => return false,
                Ok(_) => continue,
            }
        }
        if !notes.has_ended() && !worker.installed_dataflows().contains(&job) {
            notes.end();
        }
        notes.prompt(worker);
        if !worker.has_dataflows() {
            return true;
        }
        let park = notes.park(longest_sleep);
        let stepped =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| worker.step_or_park(Some(park))));
        if let Err(payload) = stepped {
            attempt.fail(None, engine_failure(attempt.worker, &panic_text(&*payload)));
        }
    }
}
