//! Worker processes of this machine: started from the same program, replaced when they die.
//!
//! A process stays from attempt to attempt; each attempt gives it fresh sockets to its peers. A process whose connection to
//! the JobManager closes is lost at once; one that is silent for `heartbeat.timeout` is killed.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use stillstream_types::{Error, ErrorKind, Generation, Result};

use super::fleet::Fleet;
use super::manager::Message;
use super::wire::{self, ToManager, ToWorker, kind};
use crate::control::{AttemptSpec, Control, Report};
use crate::metrics::{Counters, WorkerMetrics};

/// The environment variables by which a worker process knows what it is.
pub(crate) const ENV_PROCESS: &str = "STILLSTREAM_WORKER_PROCESS";
pub(crate) const ENV_MANAGER: &str = "STILLSTREAM_JOBMANAGER";
pub(crate) const ENV_TOKEN: &str = "STILLSTREAM_TOKEN";
pub(crate) const ENV_SUBMISSION: &str = "STILLSTREAM_SUBMISSION";

/// How long a process may take to start and to open its sockets.
const START_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Peer {
    child: Option<Child>,
    writer: Option<TcpStream>,
    /// Where it listens for its peers, in the present generation.
    listening: Option<String>,
    /// Grows with each new process, so that a late end of an old connection is not taken for the new one's.
    incarnation: u64,
}

#[derive(Default)]
struct Peers {
    peers: Vec<Peer>,
    generation: Generation,
}

struct Office {
    peers: Mutex<Peers>,
    changed: Condvar,
    messages: Mutex<mpsc::Sender<Message>>,
    metrics: Vec<Arc<WorkerMetrics>>,
    counters: Arc<Counters>,
    /// Last known counts of each process, since a process sends totals.
    known: Mutex<HashMap<(usize, u64, String), u64>>,
    threads: usize,
    token: String,
    address: String,
    submission: usize,
    silence: Duration,
    closing: AtomicBool,
}

/// Worker processes on this machine.
pub(crate) struct ProcessFleet {
    office: Arc<Office>,
}

impl fmt::Debug for ProcessFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessFleet({} workers)", self.office.metrics.len())
    }
}

/// What a process fleet is made of.
pub(crate) struct ProcessSettings {
    pub processes: usize,
    pub threads: usize,
    pub submission: usize,
    pub silence: Duration,
    pub counters: Arc<Counters>,
    pub messages: mpsc::Sender<Message>,
}

impl ProcessFleet {
    pub fn start(settings: ProcessSettings) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let office = Arc::new(Office {
            peers: Mutex::new(Peers {
                peers: (0..settings.processes).map(|_| Peer::default()).collect(),
                generation: Generation(0),
            }),
            changed: Condvar::new(),
            messages: Mutex::new(settings.messages),
            metrics: (0..settings.processes * settings.threads).map(|_| Arc::default()).collect(),
            counters: settings.counters,
            known: Mutex::default(),
            threads: settings.threads,
            token: super::random_token(),
            address: listener.local_addr()?.to_string(),
            submission: settings.submission,
            silence: settings.silence,
            closing: AtomicBool::new(false),
        });
        let accepting = office.clone();
        std::thread::Builder::new().name("accept".into()).spawn(move || {
            for stream in listener.incoming() {
                if accepting.closing.load(Ordering::SeqCst) {
                    return;
                }
                let office = accepting.clone();
                let welcome = move |stream: TcpStream| {
                    let run = move || office.serve(stream);
                    std::thread::Builder::new().name("worker-link".into()).spawn(run).map(drop)
                };
                if let Err(error) = stream.and_then(welcome) {
                    tracing::warn!("a worker process could not be connected: {error}");
                }
            }
        })?;
        for process in 0..settings.processes {
            office.spawn(process)?;
        }
        Ok(Self { office })
    }
}

impl Office {
    fn post(&self, message: Message) {
        // the job has ended if nobody listens
        let _ = self.messages.lock().send(message);
    }

    fn spawn(&self, process: usize) -> Result<()> {
        let program = std::env::current_exe()?;
        // first, since the new process may connect before `spawn` returns
        self.peers.lock().peers[process].incarnation += 1;
        let child = Command::new(&program)
            .args(std::env::args_os().skip(1))
            .env(ENV_PROCESS, process.to_string())
            .env(ENV_MANAGER, &self.address)
            .env(ENV_TOKEN, &self.token)
            .env(ENV_SUBMISSION, self.submission.to_string())
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| {
                Error::from(error)
                    .context(format!("starting worker process {process} ({})", program.display()))
            })?;
        tracing::debug!(process, pid = child.id(), "worker process started");
        self.peers.lock().peers[process].child = Some(child);
        Ok(())
    }

    /// Reads everything that one worker process says.
    fn serve(&self, mut stream: TcpStream) {
        let Some((process, incarnation)) = self.welcome(&mut stream) else { return };
        let ended = loop {
            match wire::read_frame::<ToManager>(&mut stream) {
                Ok(message) => self.message(process, incarnation, message),
                Err(error) => break error,
            }
        };
        self.lost(process, incarnation, &ended);
    }

    fn welcome(&self, stream: &mut TcpStream) -> Option<(usize, u64)> {
        // a stranger must not hold the thread for ever
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let hello: ToManager = wire::read_frame(stream).ok()?;
        let process = hello.index as usize;
        if hello.kind != kind::HELLO || hello.text != self.token || process >= self.peers.lock().peers.len() {
            tracing::warn!("a connection without the job's token was refused");
            return None;
        }
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(self.silence)).ok()?;
        let mut peers = self.peers.lock();
        let peer = &mut peers.peers[process];
        peer.writer = Some(stream.try_clone().ok()?);
        self.changed.notify_all();
        Some((process, peer.incarnation))
    }

    fn message(&self, process: usize, incarnation: u64, message: ToManager) {
        match message.kind {
            kind::LISTENING => {
                let mut peers = self.peers.lock();
                if peers.generation.0 == message.generation {
                    peers.peers[process].listening = Some(message.text);
                    self.changed.notify_all();
                }
            }
            kind::METRICS => {
                for (local, figures) in message.numbers.chunks_exact(4).enumerate() {
                    if let Some(metrics) = self.metrics.get(process * self.threads + local) {
                        metrics.learn([figures[0], figures[1], figures[2], figures[3]]);
                    }
                }
                let mut known = self.known.lock();
                for (name, total) in message.names.iter().zip(message.numbers.iter().skip(4 * self.threads)) {
                    let last = known.entry((process, incarnation, name.clone())).or_default();
                    self.counters.add(name, total.saturating_sub(*last));
                    *last = *total;
                }
            }
            _ => {
                let generation = Generation(message.generation);
                match wire::decode_report(message) {
                    Ok(Some(report)) => self.post(Message::Report(generation, report)),
                    Ok(None) => {}
                    Err(error) => {
                        self.post(Message::Report(generation, Report::Failed { subtask: None, error }))
                    }
                }
            }
        }
    }

    /// The connection has ended: the process is dead, or as good as dead.
    fn lost(&self, process: usize, incarnation: u64, why: &io::Error) {
        if self.closing.load(Ordering::SeqCst) {
            return;
        }
        let (generation, how) = {
            let mut peers = self.peers.lock();
            let generation = peers.generation;
            let peer = &mut peers.peers[process];
            if peer.incarnation != incarnation {
                return;
            }
            peer.writer = None;
            peer.listening = None;
            let silent = matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            (generation, peer.child.take().map(|child| end_of(child, silent, self.silence)))
        };
        let how = how.unwrap_or_else(|| "its connection closed".into());
        let error = Error::new(ErrorKind::Peer, format!("worker process {process} was lost: {how}"));
        self.post(Message::Report(generation, Report::Failed { subtask: None, error }));
        for local in 0..self.threads {
            let worker = process * self.threads + local;
            self.post(Message::Report(generation, Report::Stopped { worker, drained: false }));
        }
    }

    fn send(&self, process: usize, message: &ToWorker) -> io::Result<()> {
        let mut peers = self.peers.lock();
        match &mut peers.peers[process].writer {
            Some(writer) => wire::write_frame(writer, message),
            None => Err(io::Error::new(
                io::ErrorKind::NotConnected,
                format!("worker process {process} is not connected"),
            )),
        }
    }

    /// Waits until `ready` holds for all processes.
    fn wait_for(&self, generation: Generation, what: &str, ready: impl Fn(&Peer) -> bool) -> Result<()> {
        let mut left = START_TIMEOUT;
        let step = Duration::from_millis(50);
        let mut peers = self.peers.lock();
        loop {
            if peers.generation != generation || self.closing.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::Peer, "the attempt is over"));
            }
            let missing: Vec<usize> =
                (0..peers.peers.len()).filter(|process| !ready(&peers.peers[*process])).collect();
            if missing.is_empty() {
                return Ok(());
            }
            for process in &missing {
                let child = &mut peers.peers[*process].child;
                if let Some(status) = child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                    *child = None;
                    let message = format!(
                        "worker process {process} ended with {status} before it was ready; see its own error"
                    );
                    return Err(Error::new(ErrorKind::Peer, message));
                }
            }
            if left.is_zero() {
                return Err(Error::new(
                    ErrorKind::Peer,
                    format!("worker processes {missing:?} {what} within {START_TIMEOUT:?}"),
                ));
            }
            self.changed.wait_for(&mut peers, step);
            left = left.saturating_sub(step);
        }
    }

    /// Brings all processes up, has them listen, and tells them to start.
    fn deploy(&self, spec: &AttemptSpec) -> Result<()> {
        let generation = spec.generation;
        let processes = self.metrics.len() / self.threads;
        for process in 0..processes {
            if self.peers.lock().peers[process].child.is_none() {
                self.spawn(process)?;
            }
        }
        self.wait_for(generation, "did not connect", |peer| peer.writer.is_some())?;
        let prepare = ToWorker { kind: kind::PREPARE, generation: generation.0, ..ToWorker::default() };
        for process in 0..processes {
            self.send(process, &prepare)?;
        }
        self.wait_for(generation, "did not open their sockets", |peer| peer.listening.is_some())?;
        let addresses = self.peers.lock().peers.iter().filter_map(|peer| peer.listening.clone()).collect();
        let start = ToWorker {
            kind: kind::START,
            generation: generation.0,
            addresses,
            restored: spec.restored.as_ref().map(|restored| wire::encode_restored(restored)),
            location: spec.restored.as_ref().and_then(|restored| restored.location.clone()),
            ..ToWorker::default()
        };
        for process in 0..processes {
            self.send(process, &start)?;
        }
        Ok(())
    }
}

/// Ends a lost process for good and says how it ended.
fn end_of(mut child: Child, silent: bool, silence: Duration) -> String {
    let pid = child.id();
    if silent {
        let _ = child.kill();
        let _ = child.wait();
        return format!("process {pid} was silent for {silence:?} (heartbeat.timeout) and was killed");
    }
    for _ in 0..100 {
        match child.try_wait() {
            Ok(Some(status)) => return format!("process {pid} ended with {status}"),
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => return format!("process {pid} cannot be asked: {error}"),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    format!("process {pid} closed its connection and was killed")
}

impl Fleet for ProcessFleet {
    fn start(&mut self, spec: AttemptSpec) -> Result<()> {
        {
            let mut peers = self.office.peers.lock();
            peers.generation = spec.generation;
            peers.peers.iter_mut().for_each(|peer| peer.listening = None);
        }
        let office = self.office.clone();
        std::thread::Builder::new().name("deploy".into()).spawn(move || {
            if let Err(error) = office.deploy(&spec) {
                office.post(Message::Report(
                    spec.generation,
                    Report::Failed { subtask: None, error: error.with_kind(ErrorKind::Peer) },
                ));
                // those that never got the start have nothing to stop
                office.post(Message::DeployFailed(spec.generation));
            }
        })?;
        Ok(())
    }

    fn send(&mut self, control: Control) {
        let generation = self.office.peers.lock().generation;
        let message = wire::encode_control(generation, &control);
        for process in 0..self.office.metrics.len() / self.office.threads {
            if let Err(error) = self.office.send(process, &message) {
                // a lost process is reported by its own connection
                tracing::debug!(process, "{error}");
            }
        }
    }

    fn workers(&self) -> usize {
        self.office.metrics.len()
    }

    fn replace(&mut self, workers: &[usize]) -> Result<()> {
        let mut peers = self.office.peers.lock();
        let processes: std::collections::BTreeSet<usize> =
            workers.iter().map(|worker| worker / self.office.threads).collect();
        for process in processes {
            let peer = &mut peers.peers[process];
            peer.incarnation += 1;
            peer.writer = None;
            peer.listening = None;
            if let Some(mut child) = peer.child.take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<Arc<WorkerMetrics>> {
        self.office.metrics.clone()
    }

    fn shutdown(&mut self, grace: Duration) {
        self.office.closing.store(true, Ordering::SeqCst);
        let shutdown = ToWorker { kind: kind::SHUTDOWN, ..ToWorker::default() };
        for process in 0..self.office.metrics.len() / self.office.threads {
            let _ = self.office.send(process, &shutdown);
        }
        // wakes the accepting thread, so that it ends
        let _ = TcpStream::connect(&self.office.address);
        let mut left = grace.min(Duration::from_secs(5));
        let step = Duration::from_millis(5);
        let children: Vec<Child> =
            self.office.peers.lock().peers.iter_mut().filter_map(|peer| peer.child.take()).collect();
        for mut child in children {
            while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                if left.is_zero() {
                    let _ = child.kill();
                    let _ = child.wait();
                    break;
                }
                std::thread::sleep(step);
                left = left.saturating_sub(step);
            }
        }
    }
}
