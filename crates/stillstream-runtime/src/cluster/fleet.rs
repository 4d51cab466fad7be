//! The workers of a job: threads of this process, or processes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_types::{Error, ErrorKind, Result};
use timely::worker::Worker;

use crate::catch::catch;
use crate::control::ReportSink;
use crate::control::{AttemptSpec, Control, Report};
use crate::dataflow::mailbox::Inbox;
use crate::dataflow::open::WorkerContext;
use crate::dataflow::worker::run_attempt;
use crate::metrics::WorkerMetrics;

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

/// What a thread is told.
enum ThreadCommand {
    Attempt(AttemptSpec, Arc<Inbox>, mpsc::Receiver<Control>),
    End,
}

/// The thread of one worker, as the fleet sees it.
struct WorkerThread {
    commands: mpsc::Sender<ThreadCommand>,
    inbox: Option<Arc<Inbox>>,
}

/// Worker threads in this process. They stay from attempt to attempt, so that a restart takes milliseconds.
pub(crate) struct LocalFleet {
    context: ContextFactory,
    metrics: Vec<Arc<WorkerMetrics>>,
    threads: Vec<WorkerThread>,
    guards: Option<timely::communication::WorkerGuards<()>>,
    /// A worker thread has panicked: what the workers know of each other cannot be trusted any more.
    broken: Arc<AtomicBool>,
    stuck: bool,
}

impl fmt::Debug for LocalFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalFleet({} workers)", self.threads.len())
    }
}

/// Makes what a worker needs, given where it counts what it does.
pub(crate) type ContextFactory = Arc<dyn Fn(Arc<WorkerMetrics>) -> WorkerContext + Send + Sync>;

/// Runs one attempt on this thread. A panic of the engine becomes a failure that names the worker, and the
/// worker is reported as stopped all the same: otherwise the JobManager would wait for it. `broken` is set
/// before that, and the worker must not be used again. Returns whether all input had been processed.
pub(crate) fn run_caught(
    worker: &mut Worker,
    context: &WorkerContext,
    spec: &AttemptSpec,
    control: &mpsc::Receiver<Control>,
    broken: &AtomicBool,
) -> bool {
    let index = worker.index();
    let ran =
        catch(&format!("the thread of worker {index}"), || Ok(run_attempt(worker, context, spec, control)));
    let error = match ran {
        Ok(drained) => return drained,
        Err(error) => error,
    };
    broken.store(true, Ordering::SeqCst);
    // Timely steps whatever is left when the thread ends, for ever if need be
    let dropped = catch("dropping the dataflows", || {
        worker.installed_dataflows().into_iter().for_each(|dataflow| worker.drop_dataflow(dataflow));
        Ok(())
    });
    if let Err(more) = dropped {
        tracing::debug!(worker = index, "{more}");
    }
    context.pool.retire(spec.generation);
    context.reports.report(spec.generation, Report::Failed { subtask: None, error });
    context.reports.report(spec.generation, Report::Stopped { worker: index, drained: false });
    false
}

impl LocalFleet {
    pub fn start(workers: usize, context: ContextFactory) -> Result<Self> {
        let metrics = (0..workers).map(|_| Arc::default()).collect();
        let (threads, broken) = (Vec::new(), Arc::default());
        let mut fleet = Self { context, metrics, threads, guards: None, broken, stuck: false };
        fleet.start_threads()?;
        Ok(fleet)
    }

    /// Starts the worker threads.
    fn start_threads(&mut self) -> Result<()> {
        let workers = self.metrics.len();
        let (threads, receivers): (Vec<_>, Vec<_>) = (0..workers)
            .map(|_| {
                let (commands, receiver) = mpsc::channel::<ThreadCommand>();
                (WorkerThread { commands, inbox: None }, Mutex::new(Some(receiver)))
            })
            .unzip();
        self.broken = Arc::default();
        let (context, metrics, broken) = (self.context.clone(), self.metrics.clone(), self.broken.clone());
        let started = timely::execute(timely::Config::process(workers), move |worker| {
            let index = worker.index();
            let Some(commands) = receivers[index].lock().take() else { return };
            let context = context(metrics[index].clone());
            while let Ok(ThreadCommand::Attempt(spec, inbox, control)) = commands.recv() {
                inbox.bind(std::thread::current());
                run_caught(worker, &context, &spec, &control, &broken);
                if broken.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        let guards = started.map_err(|error| {
            Error::new(ErrorKind::Plan, format!("worker threads cannot be started: {error}"))
        })?;
        (self.threads, self.guards) = (threads, Some(guards));
        Ok(())
    }

    /// Tells one worker, so that a test can choose their order.
    #[cfg(test)]
    pub(crate) fn tell(&self, worker: usize, control: Control) {
        if let Some(inbox) = &self.threads[worker].inbox {
            inbox.send(control);
        }
    }

    /// Ends the worker threads, which run no attempt.
    fn end_threads(&mut self) {
        self.threads.iter().for_each(|thread| {
            let _ = thread.commands.send(ThreadCommand::End);
        });
        let Some(guards) = self.guards.take() else { return };
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

impl Drop for LocalFleet {
    fn drop(&mut self) {
        // joining is for `shutdown`, which was not called if the JobManager itself panicked
        std::mem::forget(self.guards.take());
    }
}

impl Fleet for LocalFleet {
    fn start(&mut self, spec: AttemptSpec) -> Result<()> {
        if self.broken.load(Ordering::SeqCst) {
            tracing::info!("worker threads are started anew after a panic");
            self.end_threads();
            self.start_threads()?;
        }
        for (at, thread) in self.threads.iter_mut().enumerate() {
            let (inbox, control) = Inbox::new();
            thread.inbox = Some(inbox.clone());
            thread
                .commands
                .send(ThreadCommand::Attempt(spec.clone(), inbox, control))
                .map_err(|_| Error::new(ErrorKind::Peer, format!("worker thread {at} has ended")))?;
        }
        Ok(())
    }

    fn send(&mut self, control: Control) {
        self.threads
            .iter()
            .filter_map(|thread| thread.inbox.as_ref())
            .for_each(|inbox| inbox.send(control.clone()));
    }

    fn workers(&self) -> usize {
        self.threads.len()
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
        self.metrics.clone()
    }

    fn shutdown(&mut self, _: Duration) {
        self.end_threads();
    }
}

/// Reports into the JobManager's queue.
pub(crate) struct ReportQueue<F>(pub F);

impl<F: Fn(stillstream_types::Generation, Report) + Send + Sync> ReportSink for ReportQueue<F> {
    fn report(&self, generation: stillstream_types::Generation, report: Report) {
        (self.0)(generation, report);
    }
}
