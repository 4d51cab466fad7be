//! A worker process: builds the same plan, waits for the JobManager's word, runs attempts.
//!
//! It has no life of its own: when the connection to the JobManager closes, it ends at once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_types::crash::crash_point;
use stillstream_types::{Error, ErrorKind, Generation, OperatorId, Result, ResultExt};
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};

use super::fleet::{ContextFactory, run_caught};
use super::peers::{Meeting, open_port};
use super::wire::{self, FromManager, FromWorker, Hello, Start, ToManager, ToWorker};
use crate::catch::{catch_on_thread, spawn};
use crate::clock::Clock;
use crate::control::ReportSink;
use crate::control::{AttemptSpec, Control, Report};
use crate::dataflow::mailbox::Inbox;
use crate::metrics::{Counters, WorkerMetrics};

/// Which worker process this is, from its environment.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub process: usize,
    pub manager: String,
    pub token: String,
    pub submission: usize,
    /// The number of key groups of operators whose state had another one than the default when the job
    /// started.
    pub key_groups: BTreeMap<OperatorId, u32>,
}

impl Identity {
    /// `None` in the program that the user started.
    #[expect(
        clippy::disallowed_methods,
        reason = "the start-up shell reads what the JobManager wrote for this process"
    )]
    pub fn from_environment() -> Option<Self> {
        use super::remote::{ENV_KEY_GROUPS, ENV_MANAGER, ENV_PROCESS, ENV_SUBMISSION, ENV_TOKEN};
        let variable = |name| std::env::var(name).ok();
        Some(Self {
            process: variable(ENV_PROCESS)?.parse().ok()?,
            manager: variable(ENV_MANAGER)?,
            token: variable(ENV_TOKEN)?,
            submission: variable(ENV_SUBMISSION)?.parse().ok()?,
            key_groups: key_groups_in(&variable(ENV_KEY_GROUPS).unwrap_or_default())?,
        })
    }
}

/// The numbers of key groups as a text.
pub(crate) fn key_groups_out(key_groups: &BTreeMap<OperatorId, u32>) -> String {
    key_groups.iter().map(|(id, groups)| format!("{id}={groups}")).collect::<Vec<_>>().join(",")
}

fn key_groups_in(text: &str) -> Option<BTreeMap<OperatorId, u32>> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
        let (id, groups) = pair.split_once('=')?;
        Some((id.parse().ok()?, groups.parse().ok()?))
    });
    pairs.collect()
}

/// How often a process sends its figures while they change.
const BUSY_HEARTBEAT: Duration = Duration::from_millis(100);
/// How often at the least, while they stand still.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(1);

/// What the workers of this process have counted.
pub(crate) struct Figures {
    pub metrics: Vec<Arc<WorkerMetrics>>,
    pub counters: Arc<Counters>,
}

impl Figures {
    fn message(&self) -> ToManager {
        let workers = self.metrics.iter();
        let workers =
            workers.map(|worker| wire::WorkerFigures { figures: worker.figures().to_vec() }).collect();
        let figures =
            wire::Figures { workers, counters: self.counters.counts(), gauges: self.counters.gauges() };
        ToManager { generation: 0, message: Some(FromWorker::Figures(figures)) }
    }
}

/// The way to the JobManager.
pub(crate) struct Link {
    writer: Mutex<TcpStream>,
    frame_size: u64,
    figures: Figures,
}

impl Link {
    fn send(&self, message: &ToManager) {
        if wire::write_frame(&mut *self.writer.lock(), message).is_err() {
            // without a JobManager there is nothing to do
            std::process::exit(1);
        }
    }
}

impl ReportSink for Link {
    fn report(&self, generation: Generation, report: Report) {
        if matches!(report, Report::Committed { .. } | Report::Stopped { .. }) {
            // the job may end on this word: what was counted since the last heartbeat goes before it
            self.send(&self.figures.message());
        }
        self.send(&wire::encode_report(generation, report, self.frame_size));
    }
}

/// What a worker process has, beside the plan.
pub(crate) struct WorkerProcess {
    pub identity: Identity,
    pub threads: usize,
    pub metrics: Vec<Arc<WorkerMetrics>>,
    pub clock: Arc<dyn Clock>,
    /// `heartbeat.timeout`: a process that is silent for so long is killed.
    pub silence: Duration,
    /// The newest generation that was told to stop: one that still waits for its peers gives up, and one that
    /// has not begun never does.
    pub stopped: AtomicU64,
}

/// Connects to the JobManager.
pub(crate) fn connect(
    identity: &Identity,
    frame_size: u64,
    figures: Figures,
) -> Result<(TcpStream, Arc<Link>)> {
    let stream = TcpStream::connect(&identity.manager)
        .context(|| format!("connecting to the JobManager at {}", identity.manager))?;
    stream.set_nodelay(true)?;
    let link = Arc::new(Link { writer: Mutex::new(stream.try_clone()?), frame_size, figures });
    let hello = Hello { process: identity.process as u32, token: identity.token.clone() };
    link.send(&ToManager { generation: 0, message: Some(FromWorker::Hello(hello)) });
    Ok((stream, link))
}

/// A place where a test may make a worker process die.
fn passing(point: &str) {
    if let Err(crash) = crash_point(point) {
        tracing::warn!("{crash}: the worker process goes on");
    }
}

/// Control messages of each worker, until its thread has taken them.
type Seats = Arc<Vec<Mutex<Option<mpsc::Receiver<Control>>>>>;

impl WorkerProcess {
    /// Serves the JobManager until it says that the job is over. Never returns.
    pub fn serve(self, mut stream: TcpStream, link: &Arc<Link>, context: &ContextFactory) -> ! {
        quiet_panics();
        start_heartbeat(link, IDLE_HEARTBEAT.min(self.silence / 4));
        let this = Arc::new(self);
        let mut running: (Generation, Vec<Arc<Inbox>>) = Default::default();
        let mut listener: Option<(Generation, TcpListener)> = None;
        loop {
            let Ok(message) = wire::read_frame::<ToWorker>(&mut stream) else { std::process::exit(1) };
            let generation = Generation(message.generation);
            let Some(message) = message.message else { continue };
            match message {
                FromManager::Prepare(()) => {
                    passing("before-worker-listens");
                    match open_port(this.identity.process) {
                        Ok((bound, address)) => {
                            listener = Some((generation, bound));
                            let message = Some(FromWorker::Listening(address.to_string()));
                            link.send(&ToManager { generation: generation.0, message });
                            passing("after-worker-listens");
                        }
                        Err(error) => link.report(generation, Report::Failed { subtask: None, error }),
                    }
                }
                // an attempt that was told to stop before it began does not begin: it has been reported as
                // stopped
                FromManager::Start(_) if this.is_stopped(generation) => listener = None,
                FromManager::Start(start) => {
                    passing("before-worker-starts");
                    let Some((_, bound)) = listener.take().filter(|(of, _)| *of == generation) else {
                        let text = format!(
                            "worker process {} was told to start before it was told to listen",
                            this.identity.process
                        );
                        let error = Error::new(ErrorKind::Peer, text);
                        link.report(generation, Report::Failed { subtask: None, error });
                        this.report_stopped(link, generation, 0..this.threads);
                        continue;
                    };
                    let (controls, receivers): (Vec<_>, Vec<_>) =
                        (0..this.threads).map(|_| Inbox::new()).unzip();
                    running = (generation, controls.clone());
                    let (this, link, context) = (this.clone(), link.clone(), context.clone());
                    let run =
                        move || this.run(generation, start, &bound, (controls, receivers), &context, &link);
                    let panicked = |error| {
                        tracing::error!("{error}");
                        std::process::exit(1);
                    };
                    if let Err(error) = spawn(format!("attempt-{generation}"), run, panicked) {
                        tracing::error!("a thread for attempt {generation} cannot be started: {error}");
                        std::process::exit(1);
                    }
                }
                FromManager::Shutdown(()) => std::process::exit(0),
                control => {
                    let Some(control) = control.control() else { continue };
                    let stop = control == Control::Stop;
                    if stop {
                        this.stopped.fetch_max(generation.0, Ordering::SeqCst);
                    }
                    if running.0 == generation {
                        running.1.iter().for_each(|inbox| inbox.send(control.clone()));
                    } else if stop {
                        // told to stop before it started: there is nothing to drop
                        this.report_stopped(link, generation, 0..this.threads);
                    }
                }
            }
        }
    }

    fn is_stopped(&self, generation: Generation) -> bool {
        self.stopped.load(Ordering::SeqCst) >= generation.0
    }

    fn report_stopped(
        &self,
        link: &Link,
        generation: Generation,
        local_workers: impl IntoIterator<Item = usize>,
    ) {
        for local in local_workers {
            let worker = self.identity.process * self.threads + local;
            link.report(generation, Report::Stopped { worker, drained: false });
        }
    }

    /// One attempt. However it goes, each worker is reported as stopped in the end: by its own thread, or
    /// here if that never came so far.
    fn run(
        &self,
        generation: Generation,
        start: Start,
        listener: &TcpListener,
        (controls, receivers): (Vec<Arc<Inbox>>, Vec<mpsc::Receiver<Control>>),
        context: &ContextFactory,
        link: &Link,
    ) {
        let seats: Seats =
            Arc::new(receivers.into_iter().map(|receiver| Mutex::new(Some(receiver))).collect());
        let ran = catch_on_thread(|| self.attempt(generation, start, listener, controls, &seats, context));
        let idle: Vec<usize> =
            (0..self.threads).filter(|local| seats[*local].lock().take().is_some()).collect();
        let failure = ran.err().or_else(|| {
            let text = "its threads lost the connection to another worker process before they began";
            let process = self.identity.process;
            (!idle.is_empty())
                .then(|| Error::new(ErrorKind::Peer, format!("worker process {process}: {text}")))
        });
        if let Some(error) = failure {
            link.report(generation, Report::Failed { subtask: None, error });
        }
        self.report_stopped(link, generation, idle);
    }

    /// One attempt, from sockets to the end of its threads.
    fn attempt(
        &self,
        generation: Generation,
        start: Start,
        listener: &TcpListener,
        controls: Vec<Arc<Inbox>>,
        seats: &Seats,
        context: &ContextFactory,
    ) -> Result<()> {
        let restored = start.restored.map(|restored| restored.read().map(Arc::new)).transpose()?;
        let spec = AttemptSpec { generation, restored };
        passing("before-workers-meet");
        let meeting = Meeting {
            process: self.identity.process,
            token: &self.identity.token,
            generation,
            clock: &*self.clock,
            stopped: &|| self.is_stopped(generation),
        };
        let sockets = meeting.connect(&start.addresses, listener)?;
        passing("after-workers-met");
        let raw: Vec<TcpStream> =
            sockets.iter().flatten().map(TcpStream::try_clone).collect::<io::Result<_>>()?;
        let hooks = timely::communication::Hooks::default();
        let local = ProcessBuilder::new_typed_vector(self.threads, hooks.refill.clone(), None);
        let (builders, guard) =
            initialize_networking_from_sockets(local, sockets, self.identity.process, self.threads, hooks)?;
        let builders = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
        let (threads, seats, context) = (self.threads, seats.clone(), context.clone());
        let metrics = self.metrics.clone();
        let clean = Arc::new(AtomicBool::new(true));
        let ended = clean.clone();
        // nothing is ever sent: when the last worker thread has ended, all copies of `alive` are gone and
        // `all_ended` hears of it
        let (alive, all_ended) = mpsc::channel::<Infallible>();
        let guards = timely::execute::execute_from(
            builders,
            Box::new(guard),
            timely::WorkerConfig::default(),
            move |worker| {
                let (_, local) = (&alive, worker.index() % threads);
                let Some(control) = seats[local].lock().take() else { return };
                controls[local].bind(std::thread::current());
                let context = context(metrics[local].clone());
                let drained = run_caught(worker, &context, &spec, &control, &AtomicBool::new(false));
                ended.fetch_and(drained, Ordering::SeqCst);
            },
        );
        let guards = guards.map_err(|error| {
            Error::new(ErrorKind::Peer, format!("the dataflow between processes cannot start: {error}"))
        })?;
        let _ = all_ended.recv();
        // After a stop, shutting the sockets ends the threads that read them. After a clean end those threads
        // still have to send what the peers wait for, and end by themselves.
        if !clean.load(Ordering::SeqCst) {
            raw.iter().for_each(|socket| {
                let _ = socket.shutdown(Shutdown::Both);
            });
        }
        let _ = catch_unwind(AssertUnwindSafe(|| guards.join().into_iter().for_each(drop)));
        Ok(())
    }
}

/// Figures of the workers, which are the heartbeat too. A process whose figures stand still sends them less
/// often, so that one that has nothing to do is left asleep.
fn start_heartbeat(link: &Arc<Link>, idle: Duration) {
    let beating = link.clone();
    let beat = move || {
        let (mut sent, mut pause) = (ToManager::default(), BUSY_HEARTBEAT);
        loop {
            let message = beating.figures.message();
            beating.send(&message);
            pause = if message == sent { (pause * 2).min(idle) } else { BUSY_HEARTBEAT.min(idle) };
            sent = message;
            std::thread::sleep(pause);
        }
    };
    // a process without a heartbeat is as good as dead
    let panicked = |error| {
        tracing::error!("{error}");
        std::process::exit(1);
    };
    if let Err(error) = spawn("heartbeat", beat, panicked) {
        tracing::error!("the thread `heartbeat` cannot be started: {error}");
        std::process::exit(1);
    }
}

/// A lost peer makes Timely's network threads panic; the JobManager tells the story in one line, so they need
/// not.
fn quiet_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("");
        let location = info.location().map_or("", |location| location.file());
        if name.starts_with("timely:send")
            || name.starts_with("timely:recv")
            || location.contains("timely_communication")
        {
            tracing::debug!("{info}");
        } else {
            usual(info);
        }
    }));
}
