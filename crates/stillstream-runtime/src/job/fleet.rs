//! The workers of a job: threads of this process, or processes.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_types::{Error, ErrorKind, Result};

use crate::control::{AttemptSpec, Control, Report};
use crate::metrics::WorkerMetrics;
use crate::shared::ReportSink;
use crate::worker::{Inbox, WorkerContext, run_attempt};

/// Runs attempts. All answers come as reports.
pub(crate) trait Fleet: Send {
    /// Starts an attempt on all workers; the previous one has stopped.
    fn start(&mut self, spec: AttemptSpec) -> Result<()>;
    /// Sends to every worker of the attempt.
    fn send(&mut self, control: Control);
    /// How many workers there are; each reports `Stopped` once per attempt.
    fn workers(&self) -> usize;
    /// These workers did not stop in time: replace them if that can be done.
    ///
    /// # Errors
    /// If they cannot be replaced: a thread cannot be ended from the outside.
    fn replace(&mut self, workers: &[usize]) -> Result<()>;
    /// What each worker is doing.
    fn metrics(&self) -> Vec<Arc<WorkerMetrics>>;
    /// Ends all workers that can be ended, within `grace`.
    fn shutdown(&mut self, grace: Duration);
}

enum Order {
    Attempt(AttemptSpec, mpsc::Receiver<Control>),
    End,
}

struct Seat {
    orders: mpsc::Sender<Order>,
    inbox: Option<Arc<Inbox>>,
    metrics: Arc<WorkerMetrics>,
}

/// Worker threads in this process. They stay from attempt to attempt, so that a restart takes milliseconds.
pub(crate) struct LocalFleet {
    seats: Vec<Seat>,
    guards: Option<timely::communication::WorkerGuards<()>>,
    stuck: bool,
}

impl fmt::Debug for LocalFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalFleet({} workers)", self.seats.len())
    }
}

/// Makes the context of worker `index`.
pub(crate) type ContextFactory = Arc<dyn Fn(Arc<WorkerMetrics>) -> WorkerContext + Send + Sync>;

impl LocalFleet {
    pub fn start(workers: usize, context: ContextFactory) -> Result<Self> {
        let mut seats = Vec::new();
        let mut receivers = Vec::new();
        for _ in 0..workers {
            let (orders, receiver) = mpsc::channel::<Order>();
            let metrics = Arc::new(WorkerMetrics::default());
            receivers.push(Mutex::new(Some((receiver, metrics.clone()))));
            seats.push(Seat { orders, inbox: None, metrics });
        }
        let started = timely::execute(timely::Config::process(workers), move |worker| {
            let Some((orders, metrics)) = receivers[worker.index()].lock().take() else { return };
            let context = context(metrics);
            while let Ok(Order::Attempt(spec, control)) = orders.recv() {
                run_attempt(worker, &context, &spec, &control);
            }
        });
        let guards = started.map_err(|error| {
            Error::new(ErrorKind::Plan, format!("worker threads cannot be started: {error}"))
        })?;
        Ok(Self { seats, guards: Some(guards), stuck: false })
    }
}

impl Fleet for LocalFleet {
    fn start(&mut self, spec: AttemptSpec) -> Result<()> {
        let threads: Vec<std::thread::Thread> = self
            .guards
            .iter()
            .flat_map(|guards| guards.guards())
            .map(|guard| guard.thread().clone())
            .collect();
        for (at, seat) in self.seats.iter_mut().enumerate() {
            let (inbox, control) = Inbox::new();
            if let Some(thread) = threads.get(at) {
                inbox.bind(thread.clone());
            }
            seat.inbox = Some(inbox);
            seat.orders
                .send(Order::Attempt(spec.clone(), control))
                .map_err(|_| Error::new(ErrorKind::Peer, format!("worker thread {at} has ended")))?;
        }
        Ok(())
    }

    fn send(&mut self, control: Control) {
        self.seats
            .iter()
            .filter_map(|seat| seat.inbox.as_ref())
            .for_each(|inbox| inbox.send(control.clone()));
    }

    fn workers(&self) -> usize {
        self.seats.len()
    }

    fn replace(&mut self, workers: &[usize]) -> Result<()> {
        self.stuck = true;
        Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "worker thread(s) {workers:?} cannot be ended from the outside; they are left behind and the job is given up \
                 (with --processes 2 or more the process would be replaced)"
            ),
        ))
    }

    fn metrics(&self) -> Vec<Arc<WorkerMetrics>> {
        self.seats.iter().map(|seat| seat.metrics.clone()).collect()
    }

    fn shutdown(&mut self, _: Duration) {
        self.seats.iter().for_each(|seat| {
            let _ = seat.orders.send(Order::End);
        });
        if let Some(guards) = self.guards.take() {
            if self.stuck {
                // joining a thread that never returns would never return
                std::mem::forget(guards);
            } else {
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    guards.join().into_iter().for_each(drop)
                }));
            }
        }
    }
}

/// Reports into the JobManager's queue.
pub(crate) struct ReportQueue<F>(pub F);

impl<F: Fn(stillstream_types::Generation, Report) + Send + Sync> ReportSink for ReportQueue<F> {
    fn report(&self, generation: stillstream_types::Generation, report: Report) {
        (self.0)(generation, report);
    }
}
