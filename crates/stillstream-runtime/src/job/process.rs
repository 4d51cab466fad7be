//! A worker process: builds the same plan, waits for the JobManager's word, runs attempts.
//!
//! It has no life of its own: when the connection to the JobManager closes, it ends at once.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_types::{Error, ErrorKind, Generation, Result, ResultExt};
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};

use super::fleet::ContextFactory;
use super::wire::{self, ToManager, ToWorker, kind};
use crate::control::{AttemptSpec, Control, Report};
use crate::metrics::{Counters, WorkerMetrics};
use crate::shared::ReportSink;
use crate::worker::{Inbox, run_attempt};

/// Which worker process this is, from its environment.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub process: usize,
    pub manager: String,
    pub token: String,
    pub submission: usize,
}

impl Identity {
    /// `None` in the program that the user started.
    #[expect(
        clippy::disallowed_methods,
        reason = "the start-up shell reads what the JobManager wrote for this process"
    )]
    pub fn from_environment() -> Option<Self> {
        use super::remote::{ENV_MANAGER, ENV_PROCESS, ENV_SUBMISSION, ENV_TOKEN};
        let variable = |name| std::env::var(name).ok();
        Some(Self {
            process: variable(ENV_PROCESS)?.parse().ok()?,
            manager: variable(ENV_MANAGER)?,
            token: variable(ENV_TOKEN)?,
            submission: variable(ENV_SUBMISSION)?.parse().ok()?,
        })
    }
}

/// The way to the JobManager.
pub(crate) struct Link {
    writer: Mutex<TcpStream>,
    frame_size: u64,
    metrics: Vec<Arc<WorkerMetrics>>,
    counters: Arc<Counters>,
}

impl Link {
    fn send(&self, message: &ToManager) {
        if wire::write_frame(&mut *self.writer.lock(), message).is_err() {
            // without a JobManager there is nothing to do
            std::process::exit(1);
        }
    }
}

impl Link {
    fn send_figures(&self) {
        let counts = self.counters.all();
        let mut numbers: Vec<u64> = self.metrics.iter().flat_map(|worker| worker.figures()).collect();
        numbers.extend(counts.values());
        let names = counts.into_keys().collect();
        self.send(&ToManager { kind: kind::METRICS, numbers, names, ..ToManager::default() });
    }
}

impl ReportSink for Link {
    fn report(&self, generation: Generation, report: Report) {
        // the job's result may follow at once, and has to have what was counted before
        if matches!(report, Report::Committed { .. } | Report::Stopped { .. }) {
            self.send_figures();
        }
        self.send(&wire::encode_report(generation, report, self.frame_size));
    }
}

/// What a worker process has, beside the plan.
pub(crate) struct WorkerProcess {
    pub identity: Identity,
    pub threads: usize,
    pub metrics: Vec<Arc<WorkerMetrics>>,
    /// The newest generation that was told to stop: one that still waits for its peers gives up.
    pub stopped: AtomicU64,
}

/// Connects to the JobManager.
pub(crate) fn connect(
    identity: &Identity,
    frame_size: u64,
    metrics: Vec<Arc<WorkerMetrics>>,
    counters: Arc<Counters>,
) -> Result<(TcpStream, Arc<Link>)> {
    let stream = TcpStream::connect(&identity.manager)
        .context(|| format!("connecting to the JobManager at {}", identity.manager))?;
    stream.set_nodelay(true)?;
    let link = Arc::new(Link { writer: Mutex::new(stream.try_clone()?), frame_size, metrics, counters });
    let hello = ToManager {
        kind: kind::HELLO,
        index: identity.process as u32,
        text: identity.token.clone(),
        ..ToManager::default()
    };
    link.send(&hello);
    Ok((stream, link))
}

impl WorkerProcess {
    /// Serves the JobManager until it says that the job is over. Never returns.
    pub fn serve(self, mut stream: TcpStream, link: &Arc<Link>, context: &ContextFactory) -> ! {
        quiet_panics();
        self.start_heartbeat(link);
        let this = Arc::new(self);
        let inboxes: Arc<Mutex<(Generation, Vec<Arc<Inbox>>)>> = Arc::default();
        let mut listener: Option<(Generation, TcpListener)> = None;
        loop {
            let Ok(message) = wire::read_frame::<ToWorker>(&mut stream) else { std::process::exit(1) };
            let generation = Generation(message.generation);
            match message.kind {
                kind::PREPARE => {
                    match TcpListener::bind("127.0.0.1:0").and_then(|l| Ok((l.local_addr()?, l))) {
                        Ok((address, bound)) => {
                            listener = Some((generation, bound));
                            let text = address.to_string();
                            link.send(&ToManager {
                                kind: kind::LISTENING,
                                generation: generation.0,
                                text,
                                ..ToManager::default()
                            });
                        }
                        Err(error) => {
                            link.report(generation, Report::Failed { subtask: None, error: error.into() })
                        }
                    }
                }
                kind::START => {
                    let Some((_, bound)) = listener.take().filter(|(of, _)| *of == generation) else {
                        continue;
                    };
                    let (controls, receivers): (Vec<_>, Vec<_>) =
                        (0..this.threads).map(|_| Inbox::new()).unzip();
                    *inboxes.lock() = (generation, controls.clone());
                    let (this, link, context) = (this.clone(), link.clone(), context.clone());
                    let run = move || {
                        let (controls_of, reports) = (controls, link.clone());
                        if let Err(error) = this.attempt(&message, bound, &controls_of, receivers, &context) {
                            reports.report(generation, Report::Failed { subtask: None, error });
                            for local in 0..this.threads {
                                let worker = this.identity.process * this.threads + local;
                                reports.report(generation, Report::Stopped { worker, drained: false });
                            }
                        }
                    };
                    if let Err(error) = std::thread::Builder::new().name("attempt".into()).spawn(run) {
                        tracing::error!("{error}");
                        std::process::exit(1);
                    }
                }
                kind::CONTROL => {
                    if wire::decode_control(&message) == Some(Control::Stop) {
                        this.stopped.fetch_max(message.generation, Ordering::SeqCst);
                    }
                    let inboxes = inboxes.lock();
                    match wire::decode_control(&message) {
                        Some(control) if inboxes.0 == generation => {
                            inboxes.1.iter().for_each(|inbox| inbox.send(control.clone()))
                        }
                        // told to stop before it started: there is nothing to drop
                        Some(Control::Stop) => {
                            for local in 0..this.threads {
                                let worker = this.identity.process * this.threads + local;
                                link.report(generation, Report::Stopped { worker, drained: false });
                            }
                        }
                        _ => {}
                    }
                }
                kind::SHUTDOWN => std::process::exit(0),
                _ => {}
            }
        }
    }

    /// Figures of the workers, ten times a second: it is the heartbeat too.
    fn start_heartbeat(&self, link: &Arc<Link>) {
        let link = link.clone();
        let beat = move || {
            loop {
                link.send_figures();
                std::thread::sleep(Duration::from_millis(100));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("heartbeat".into()).spawn(beat) {
            tracing::error!("{error}");
            std::process::exit(1);
        }
    }

    /// One attempt, from sockets to the last report.
    fn attempt(
        &self,
        start: &ToWorker,
        listener: TcpListener,
        controls: &[Arc<Inbox>],
        receivers: Vec<std::sync::mpsc::Receiver<Control>>,
        context: &ContextFactory,
    ) -> Result<()> {
        let generation = Generation(start.generation);
        let restored = match &start.restored {
            Some(bytes) => Some(Arc::new(wire::decode_restored(bytes, start.location.clone())?)),
            None => None,
        };
        let spec = AttemptSpec { generation, restored };
        let sockets = self.connect_peers(generation, &start.addresses, &listener)?;
        let raw: Vec<TcpStream> =
            sockets.iter().flatten().map(TcpStream::try_clone).collect::<io::Result<_>>()?;
        let hooks = timely::communication::Hooks::default();
        let local = ProcessBuilder::new_typed_vector(self.threads, hooks.refill.clone(), None);
        let (builders, guard) =
            initialize_networking_from_sockets(local, sockets, self.identity.process, self.threads, hooks)?;
        let builders = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
        let seats: Vec<_> = receivers.into_iter().map(|receiver| Mutex::new(Some(receiver))).collect();
        let (threads, metrics, context) = (self.threads, self.metrics.clone(), context.clone());
        let clean = Arc::new(AtomicBool::new(true));
        let ended = clean.clone();
        let guards = timely::execute::execute_from(
            builders,
            Box::new(guard),
            timely::WorkerConfig::default(),
            move |worker| {
                let local = worker.index() % threads;
                let Some(control) = seats[local].lock().take() else { return };
                let drained = run_attempt(worker, &context(metrics[local].clone()), &spec, &control);
                ended.fetch_and(drained, Ordering::SeqCst);
            },
        );
        let guards = guards.map_err(|error| {
            Error::new(ErrorKind::Peer, format!("the dataflow between processes cannot start: {error}"))
        })?;
        for (inbox, guard) in controls.iter().zip(guards.guards()) {
            inbox.bind(guard.thread().clone());
        }
        while !guards.guards().iter().all(|guard| guard.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // After a stop, shutting the sockets ends the threads that read them. After a clean end those threads still have to send
        // what the peers wait for, and end by themselves.
        if !clean.load(Ordering::SeqCst) {
            raw.iter().for_each(|socket| {
                let _ = socket.shutdown(Shutdown::Both);
            });
        }
        let _ = catch_unwind(AssertUnwindSafe(|| guards.join().into_iter().for_each(drop)));
        Ok(())
    }

    /// Sockets to all other processes: this one dials those with lower numbers and is dialled by those with higher ones.
    fn connect_peers(
        &self,
        generation: Generation,
        addresses: &[String],
        listener: &TcpListener,
    ) -> Result<Vec<Option<TcpStream>>> {
        let (me, deadline) = (self.identity.process, Duration::from_secs(30));
        let pass = format!("{}-{generation:020}", self.identity.token);
        let mut sockets: Vec<Option<TcpStream>> = addresses.iter().map(|_| None).collect();
        for (peer, address) in addresses.iter().enumerate().take(me) {
            let mut socket = TcpStream::connect(address)
                .context(|| format!("connecting to worker process {peer} at {address}"))?;
            socket.set_nodelay(true)?;
            socket.write_all(pass.as_bytes())?;
            socket.write_all(&(me as u64).to_le_bytes())?;
            sockets[peer] = Some(socket);
        }
        listener.set_nonblocking(true)?;
        let mut left = deadline;
        while sockets.iter().enumerate().any(|(peer, socket)| peer > me && socket.is_none()) {
            match listener.accept() {
                Ok((mut socket, _)) => {
                    socket.set_nonblocking(false)?;
                    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
                    let mut found = vec![0u8; pass.len()];
                    let mut peer = [0u8; 8];
                    if socket.read_exact(&mut found).and_then(|()| socket.read_exact(&mut peer)).is_err()
                        || found != pass.as_bytes()
                    {
                        tracing::warn!("a connection without this attempt's secret was refused");
                        continue;
                    }
                    socket.set_read_timeout(None)?;
                    socket.set_nodelay(true)?;
                    let peer = u64::from_le_bytes(peer) as usize;
                    if let Some(slot) = sockets.get_mut(peer) {
                        *slot = Some(socket);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.stopped.load(Ordering::SeqCst) >= generation.0 {
                        return Err(Error::new(
                            ErrorKind::Peer,
                            "told to stop while waiting for the other processes",
                        ));
                    }
                    if left.is_zero() {
                        let message =
                            format!("worker process {me} waited {deadline:?} for its peers to connect");
                        return Err(Error::new(ErrorKind::Peer, message));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                    left = left.saturating_sub(Duration::from_millis(1));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sockets)
    }
}

/// A lost peer makes Timely's network threads panic; the JobManager tells the story in one line, so they need not.
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
