//! Worker processes of this machine: started from the same program, replaced when they die.
//!
//! A process stays from attempt to attempt; each attempt gives it fresh sockets to its peers. A process whose
//! connection to the JobManager closes is lost at once; one that is silent for `heartbeat.timeout` is killed.
//!
//! An attempt is brought up by a thread of its own, and a process may die at every step of that. Then the
//! attempt has failed like any other: the loss is reported once, each worker is reported as stopped once, and
//! the next attempt starts the process anew. What keeps this right: the generation, whether it was told to
//! stop, and who is connected stand under one lock, and nothing is sent for an attempt that is over.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use stillstream_jobmaster::JobEvent;
use stillstream_types::{Error, ErrorKind, Generation, OperatorId, Result};

use super::door::{Admit, Door};
use super::fleet::Fleet;
use super::process::key_groups_out;
use super::wire::{self, Figures, FromManager, FromWorker, Hello, Start, ToManager, ToWorker};
use crate::catch::spawn;
use crate::clock::Clock;
use crate::control::{AttemptSpec, Control, Report};
use crate::metrics::{Counters, WorkerMetrics};

/// The environment variables by which a worker process knows what it is.
pub(crate) const ENV_PROCESS: &str = "STILLSTREAM_WORKER_PROCESS";
pub(crate) const ENV_MANAGER: &str = "STILLSTREAM_JOBMANAGER";
pub(crate) const ENV_TOKEN: &str = "STILLSTREAM_TOKEN";
pub(crate) const ENV_SUBMISSION: &str = "STILLSTREAM_SUBMISSION";
pub(crate) const ENV_KEY_GROUPS: &str = "STILLSTREAM_KEY_GROUPS";

/// How long a process may take to start and to open its sockets.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// When a process dies, its peers notice as soon as the JobManager does. So long their complaint waits for
/// the cause.
const CAUSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Peer {
    child: Option<Child>,
    writer: Option<TcpStream>,
    /// Where it listens for its peers, in the present generation.
    listening: Option<String>,
    /// Grows with each new process, so that a late end of an old connection is not taken for the new one's.
    incarnation: u64,
    /// Its connection has closed, and it is being seen to that it is dead: its workers are reported as
    /// stopped after that.
    ending: bool,
}

#[derive(Default)]
struct Peers {
    peers: Vec<Peer>,
    generation: Generation,
    /// The newest attempt that was told to stop.
    stopping: Option<Generation>,
    /// The newest attempt in which a process was lost, once that has been reported.
    loss_reported: Option<Generation>,
}

impl Peers {
    /// Whether nothing more may be sent for this attempt, but the word to stop.
    fn is_over(&self, generation: Generation) -> bool {
        self.generation != generation || self.stopping >= Some(generation)
    }

    fn send(&mut self, process: usize, message: &ToWorker) -> io::Result<()> {
        match &mut self.peers[process].writer {
            Some(writer) => wire::write_frame(writer, message),
            None => Err(io::Error::new(
                io::ErrorKind::NotConnected,
                format!("worker process {process} is not connected"),
            )),
        }
    }
}

/// The worker processes, and what is known of each.
struct Connections {
    peers: Mutex<Peers>,
    changed: Condvar,
    /// Takes what the JobManager is to know.
    events: Mutex<Box<dyn Fn(JobEvent) + Send>>,
    metrics: Vec<Arc<WorkerMetrics>>,
    counters: Arc<Counters>,
    /// Last known counts of each process, since a process sends totals.
    known: Mutex<HashMap<(usize, u64, String), u64>>,
    threads: usize,
    token: String,
    submission: usize,
    key_groups: String,
    silence: Duration,
    clock: Arc<dyn Clock>,
    closing: AtomicBool,
}

/// Worker processes on this machine.
pub(crate) struct ProcessFleet {
    connections: Arc<Connections>,
    door: Door,
}

impl fmt::Debug for ProcessFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessFleet({} workers)", self.connections.metrics.len())
    }
}

/// What a process fleet is made of.
pub(crate) struct ProcessSettings {
    pub processes: usize,
    pub threads: usize,
    pub submission: usize,
    /// The number of key groups of each operator, for plans that worker processes make themselves.
    pub key_groups: BTreeMap<OperatorId, u32>,
    pub silence: Duration,
    pub counters: Arc<Counters>,
    /// Takes what the JobManager is to know.
    pub events: Box<dyn Fn(JobEvent) + Send>,
    pub clock: Arc<dyn Clock>,
    /// Where connections are taken.
    pub tokio: tokio::runtime::Handle,
}

impl ProcessFleet {
    pub fn start(settings: ProcessSettings) -> Result<Self> {
        let connections = Arc::new(Connections {
            peers: Mutex::new(Peers {
                peers: (0..settings.processes).map(|_| Peer::default()).collect(),
                ..Peers::default()
            }),
            changed: Condvar::new(),
            events: Mutex::new(settings.events),
            metrics: (0..settings.processes * settings.threads).map(|_| Arc::default()).collect(),
            counters: settings.counters,
            known: Mutex::default(),
            threads: settings.threads,
            token: super::random_token(),
            submission: settings.submission,
            key_groups: key_groups_out(&settings.key_groups),
            silence: settings.silence,
            clock: settings.clock,
            closing: AtomicBool::new(false),
        });
        let admitting = connections.clone();
        let admit: Admit = Arc::new(move |stream, hello| admitting.admit(stream, &hello));
        let door = Door::open(&settings.tokio, admit)?;
        let fleet = Self { connections, door };
        for process in 0..settings.processes {
            fleet.connections.spawn(
                &mut fleet.connections.peers.lock(),
                process,
                &fleet.door.address.to_string(),
            )?;
        }
        Ok(fleet)
    }
}

impl Connections {
    fn post(&self, event: JobEvent) {
        // the job has ended if nobody listens
        (self.events.lock())(event);
    }

    fn post_report(&self, generation: Generation, report: Report) {
        self.post(JobEvent::Report(generation, report));
    }

    fn post_failed(&self, generation: Generation, error: Error) {
        self.post_report(generation, Report::Failed { subtask: None, error });
    }

    fn post_stopped(&self, generation: Generation, process: usize) {
        for local in 0..self.threads {
            let worker = process * self.threads + local;
            self.post_report(generation, Report::Stopped { worker, drained: false });
        }
    }

    fn processes(&self) -> usize {
        self.metrics.len() / self.threads
    }

    /// Starts a process, under the lock: a process that dies at once is found with its child in place.
    fn spawn(&self, peers: &mut Peers, process: usize, address: &str) -> Result<()> {
        let program = std::env::current_exe()?;
        let peer = &mut peers.peers[process];
        peer.incarnation += 1;
        (peer.writer, peer.listening) = (None, None);
        let child = Command::new(&program)
            .args(std::env::args_os().skip(1))
            .env(ENV_PROCESS, process.to_string())
            .env(ENV_MANAGER, address)
            .env(ENV_TOKEN, &self.token)
            .env(ENV_SUBMISSION, self.submission.to_string())
            .env(ENV_KEY_GROUPS, &self.key_groups)
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| {
                Error::from(error)
                    .context(format!("starting worker process {process} ({})", program.display()))
                    .with_kind(ErrorKind::Peer)
            })?;
        tracing::debug!(process, pid = child.id(), "worker process started");
        peer.child = Some(child);
        Ok(())
    }

    /// Lets a connection in that knows the token, and reads it on a thread of its own.
    fn admit(self: &Arc<Self>, stream: TcpStream, hello: &ToManager) -> io::Result<()> {
        let known = match &hello.message {
            Some(FromWorker::Hello(Hello { process, token })) if same(token, &self.token) => {
                *process as usize
            }
            _ => usize::MAX,
        };
        if known >= self.processes() {
            return Err(io::Error::other("it does not know the job's token"));
        }
        let process = known;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.silence))?;
        let writer = stream.try_clone()?;
        // a process that takes nothing more is as silent as one that says nothing
        writer.set_write_timeout(Some(self.silence))?;
        let incarnation = {
            let mut peers = self.peers.lock();
            let peer = &mut peers.peers[process];
            peer.writer = Some(writer);
            peer.incarnation
        };
        self.changed.notify_all();
        let (connections, watching) = (self.clone(), self.clone());
        let run = move || connections.read(process, incarnation, stream);
        let panicked = move |error| watching.post(JobEvent::Panicked(error));
        spawn(format!("worker-link-{process}"), run, panicked).map(drop)
    }

    /// Reads everything that one worker process says.
    fn read(&self, process: usize, incarnation: u64, mut stream: TcpStream) {
        let ended = loop {
            match wire::read_frame::<ToManager>(&mut stream) {
                Ok(message) => self.message(process, incarnation, message),
                Err(error) => break error,
            }
        };
        self.lost(process, incarnation, &ended);
    }

    fn message(&self, process: usize, incarnation: u64, message: ToManager) {
        let generation = Generation(message.generation);
        match message.message {
            None => {}
            Some(FromWorker::Listening(address)) => {
                let mut peers = self.peers.lock();
                if peers.generation == generation {
                    peers.peers[process].listening = Some(address);
                    self.changed.notify_all();
                }
            }
            Some(FromWorker::Figures(Figures { workers, counters, gauges })) => {
                for (local, figures) in workers.into_iter().take(self.threads).enumerate() {
                    if let Some(metrics) = self.metrics.get(process * self.threads + local) {
                        metrics.learn(&figures.figures);
                    }
                }
                self.counters.learn(process, gauges);
                let mut known = self.known.lock();
                for (name, total) in counters {
                    let last = known.entry((process, incarnation, name.clone())).or_default();
                    self.counters.add(&name, total.saturating_sub(*last));
                    *last = total;
                }
            }
            Some(message) => match wire::decode_report(message) {
                Ok(Some(Report::Failed { error, .. }))
                    if error.kind() == ErrorKind::Peer && self.cause_is_known(generation) =>
                {
                    tracing::debug!("worker process {process}: {error}");
                }
                Ok(Some(report)) => self.post_report(generation, report),
                Ok(None) => {}
                Err(error) => self.post_failed(generation, error),
            },
        }
    }

    /// A worker has lost a peer. Waits, for a moment, until it is known which process died and how: that is
    /// then the attempt's failure, and not what others saw of it.
    fn cause_is_known(&self, generation: Generation) -> bool {
        let mut peers = self.peers.lock();
        let deadline = self.clock.elapsed() + CAUSE_TIMEOUT;
        loop {
            if peers.loss_reported >= Some(generation) {
                return true;
            }
            let left = deadline.saturating_sub(self.clock.elapsed());
            if peers.is_over(generation) || left.is_zero() || self.closing.load(Ordering::SeqCst) {
                return false;
            }
            self.changed.wait_for(&mut peers, left);
        }
    }

    /// The connection has ended: the process is dead, or as good as dead.
    fn lost(&self, process: usize, incarnation: u64, why: &io::Error) {
        if self.closing.load(Ordering::SeqCst) {
            return;
        }
        let (generation, child) = {
            let mut peers = self.peers.lock();
            let generation = peers.generation;
            let peer = &mut peers.peers[process];
            if peer.incarnation != incarnation {
                return;
            }
            (peer.writer, peer.listening, peer.ending) = (None, None, true);
            self.counters.learn(process, BTreeMap::new());
            (generation, peer.child.take())
        };
        self.changed.notify_all();
        let silent = matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        let how = match child {
            Some(child) => end_of(child, silent, self.silence),
            None => "its connection closed".into(),
        };
        let mut peers = self.peers.lock();
        peers.peers[process].ending = false;
        let text = format!("worker process {process} was lost: {how}");
        self.post_failed(generation, Error::new(ErrorKind::Peer, text));
        self.post_stopped(generation, process);
        // it died between two attempts, and the newer one was told to stop before this process was started
        // anew
        let newer = peers.generation;
        if newer != generation && peers.stopping == Some(newer) && peers.peers[process].writer.is_none() {
            self.post_stopped(newer, process);
        }
        peers.loss_reported = peers.loss_reported.max(Some(generation));
        drop(peers);
        self.changed.notify_all();
    }

    /// Waits until `ready` holds for all processes. `None`: the attempt is over, and somebody else has said
    /// why.
    fn wait_for(
        &self,
        generation: Generation,
        what: &str,
        ready: impl Fn(&Peer) -> bool,
    ) -> Result<Option<MutexGuard<'_, Peers>>> {
        let deadline = self.clock.elapsed() + START_TIMEOUT;
        let mut peers = self.peers.lock();
        loop {
            if peers.is_over(generation) || self.closing.load(Ordering::SeqCst) {
                return Ok(None);
            }
            let missing: Vec<usize> =
                (0..peers.peers.len()).filter(|process| !ready(&peers.peers[*process])).collect();
            if missing.is_empty() {
                return Ok(Some(peers));
            }
            for process in &missing {
                let peer = &mut peers.peers[*process];
                let lost = match &mut peer.child {
                    // its connection has closed, and how it ended is about to be reported
                    None if peer.ending => None,
                    None => Some("was lost".to_owned()),
                    Some(_) if peer.writer.is_some() => None,
                    Some(child) => child.try_wait().ok().flatten().map(|status| {
                        format!("ended ({}) before it was connected; see its own error", ended_by(status))
                    }),
                };
                if let Some(how) = lost {
                    peer.child = None;
                    let text = format!("worker process {process} {how}");
                    return Err(Error::new(ErrorKind::Peer, text));
                }
            }
            let left = deadline.saturating_sub(self.clock.elapsed());
            if left.is_zero() {
                return Err(Error::new(
                    ErrorKind::Peer,
                    format!("worker processes {missing:?} {what} within {START_TIMEOUT:?}"),
                ));
            }
            // a process that dies before it has connected is only found by asking for it
            self.changed.wait_for(&mut peers, left.min(Duration::from_millis(50)));
        }
    }

    /// Brings all processes up, has them listen, and tells them to start.
    fn deploy(&self, spec: &AttemptSpec, address: &str) -> Result<()> {
        let generation = spec.generation;
        for process in 0..self.processes() {
            let mut peers = self.peers.lock();
            if peers.is_over(generation) {
                return Ok(());
            }
            let child = peers.peers[process].child.as_mut();
            if child.is_none_or(|child| matches!(child.try_wait(), Ok(Some(_)))) {
                self.spawn(&mut peers, process, address)?;
            }
        }
        let Some(mut peers) = self.wait_for(generation, "did not connect", |peer| peer.writer.is_some())?
        else {
            return Ok(());
        };
        let prepare = ToWorker { generation: generation.0, message: Some(FromManager::Prepare(())) };
        for process in 0..self.processes() {
            peers.send(process, &prepare)?;
        }
        drop(peers);
        let listening = |peer: &Peer| peer.listening.is_some() && peer.writer.is_some();
        let Some(mut peers) = self.wait_for(generation, "did not open their sockets", listening)? else {
            return Ok(());
        };
        let start = Start {
            // all of them are there, in the order of their numbers
            addresses: peers.peers.iter().filter_map(|peer| peer.listening.clone()).collect(),
            restored: spec.restored.as_deref().map(Into::into),
        };
        let start = ToWorker { generation: generation.0, message: Some(FromManager::Start(start)) };
        for process in 0..self.processes() {
            peers.send(process, &start)?;
        }
        Ok(())
    }
}

/// Whether two texts are equal, in a time that does not tell where they differ.
fn same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
    one.len() == other.len() && differences == 0
}

/// How a process ended, for people.
fn ended_by(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(9) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("{status}: somebody killed it, or the kernel did as memory ran out");
    }
    status.to_string()
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
            Ok(Some(status)) => return format!("process {pid} ended with {}", ended_by(status)),
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
            let mut peers = self.connections.peers.lock();
            peers.generation = spec.generation;
            peers.peers.iter_mut().for_each(|peer| peer.listening = None);
        }
        // a thread that brings up the attempt before this one goes home
        self.connections.changed.notify_all();
        let (connections, watching, generation) =
            (self.connections.clone(), self.connections.clone(), spec.generation);
        let address = self.door.address.to_string();
        let deploy = move || {
            if let Err(error) = connections.deploy(&spec, &address) {
                connections.post_failed(spec.generation, error.with_kind(ErrorKind::Peer));
            }
        };
        spawn("deploy", deploy, move |error| watching.post_failed(generation, error))?;
        Ok(())
    }

    fn send(&mut self, control: Control) {
        let mut peers = self.connections.peers.lock();
        let generation = peers.generation;
        let stop = control == Control::Stop;
        let message = ToWorker { generation: generation.0, message: Some(control.into()) };
        if stop {
            peers.stopping = Some(generation);
            self.connections.changed.notify_all();
        }
        for process in 0..self.connections.processes() {
            let peer = &peers.peers[process];
            if peer.writer.is_none() {
                if stop && !peer.ending {
                    // it has not come so far as to have something to stop
                    self.connections.post_stopped(generation, process);
                }
            } else if let Err(error) = peers.send(process, &message) {
                // a lost process is reported by its own connection
                tracing::debug!(process, "{error}");
            }
        }
    }

    fn workers(&self) -> usize {
        self.connections.metrics.len()
    }

    fn replace(&mut self, workers: &[usize]) -> Result<()> {
        let mut peers = self.connections.peers.lock();
        let processes: std::collections::BTreeSet<usize> =
            workers.iter().map(|worker| worker / self.connections.threads).collect();
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
        self.connections.metrics.clone()
    }

    fn shutdown(&mut self, grace: Duration) {
        self.connections.closing.store(true, Ordering::SeqCst);
        self.connections.changed.notify_all();
        let shutdown = ToWorker { generation: 0, message: Some(FromManager::Shutdown(())) };
        let children: Vec<Child> = {
            let mut peers = self.connections.peers.lock();
            for process in 0..self.connections.processes() {
                let _ = peers.send(process, &shutdown);
            }
            peers.peers.iter_mut().filter_map(|peer| peer.child.take()).collect()
        };
        let clock = &self.connections.clock;
        let deadline = clock.elapsed() + grace.min(Duration::from_secs(5));
        for mut child in children {
            while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                if clock.elapsed() >= deadline {
                    let _ = child.kill();
                    let _ = child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Drop for ProcessFleet {
    /// For a JobManager that panicked: no process must outlive it.
    fn drop(&mut self) {
        if !self.connections.closing.load(Ordering::SeqCst) {
            self.shutdown(Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_only_the_same_if_all_of_it_is() {
        assert!(same("0f3a", "0f3a"));
        for other in ["", "0f3", "0f3a0", "0f3b", "1f3a"] {
            assert!(!same("0f3a", other), "{other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_killed_process_is_named_with_its_signal() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        child.kill().unwrap();
        let text = end_of(child, false, Duration::from_secs(1));
        assert!(text.contains(&format!("process {pid}")) && text.contains("signal: 9 (SIGKILL)"), "{text}");
    }
}
