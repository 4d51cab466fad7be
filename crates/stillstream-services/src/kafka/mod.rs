//! Apache Kafka: one node, broker and controller in one process.

mod admin;
mod install;
mod protocol;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use crate::error::{About, Error, Result};
use crate::process::Process;
use crate::{cache, ports};

pub use install::{VERSION, prepare};

/// How long a broker may take until it answers. It takes 3 s by itself; tests share their machine.
const STARTED_WITHIN: Duration = Duration::from_secs(120);

/// How many brokers this program has started; for the names of their files.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A running Kafka of this program. It ends with this value, and with the program at the latest.
#[derive(Debug)]
pub struct Kafka {
    bootstrap: [String; 4],
    installed: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    process: Mutex<Option<Process>>,
}

impl Kafka {
    /// Who may come in by SASL (PLAIN and SCRAM-SHA-256).
    pub const USER: &str = "alice";
    /// The password of [`USER`](Self::USER).
    pub const PASSWORD: &str = "alice-secret";

    /// Starts a new broker without topics on free ports, and waits until it answers.
    ///
    /// # Errors
    /// If Kafka was not downloaded (`cargo xtask services prepare` does it), or does not start; with the end
    /// of its log.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// The same with properties of the broker beside those of `services/kafka/server.properties`.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_with(properties: &[(&str, &str)]) -> Result<Self> {
        let installed = install::installed()?;
        // a port may be taken between the look and the start
        let mut tries = 3;
        loop {
            let kafka = Self::make(&installed, properties)?;
            tries -= 1;
            match kafka.run() {
                Ok(()) => return Ok(kafka),
                Err(error) if tries == 0 || !error.to_string().contains("already in use") => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }

    /// The broker of this program, which the first call starts. Tests that only use it share it.
    ///
    /// # Panics
    /// With the error of [`start`](Self::start), or if a test that had it for [itself](Self::alone) left it
    /// in a state from which it does not start.
    pub fn shared() -> RwLockReadGuard<'static, Self> {
        let kafka = Self::of_program().read().unwrap_or_else(PoisonError::into_inner);
        kafka.running();
        kafka
    }

    /// The broker of this program for a test that kills, pauses or restarts it: no other has it meanwhile.
    ///
    /// # Panics
    /// As [`shared`](Self::shared).
    pub fn alone() -> RwLockWriteGuard<'static, Self> {
        let kafka = Self::of_program().write().unwrap_or_else(PoisonError::into_inner);
        kafka.running();
        kafka
    }

    fn of_program() -> &'static RwLock<Self> {
        static KAFKA: OnceLock<RwLock<Kafka>> = OnceLock::new();
        KAFKA.get_or_init(|| match Self::start() {
            Ok(kafka) => RwLock::new(kafka),
            Err(error) => panic!("{error}"),
        })
    }

    /// Undoes what a test that failed did to it.
    fn running(&self) {
        let state = {
            let process = self.process();
            process.as_ref().is_some_and(|process| !process.has_ended() && process.resume().is_ok())
        };
        if !state && let Err(error) = self.restart() {
            panic!("{error}");
        }
        eprintln!("Kafka's log: {}", self.log.display());
    }

    fn make(installed: &Path, properties: &[(&str, &str)]) -> Result<Self> {
        let [plain, sasl, tls, sasl_tls, controller] = ports::free()?;
        let name = format!("kafka-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("stillstream-{name}"));
        let data = folder.join("data");
        if folder.exists() {
            // of a process that had our number before
            std::fs::remove_dir_all(&folder).about(|| folder.display().to_string())?;
        }
        std::fs::create_dir_all(&data).about(|| data.display().to_string())?;
        install::format(installed, &data)?;
        let mut text = install::properties(&[
            ("PORT", &plain.to_string()),
            ("SASL_PORT", &sasl.to_string()),
            ("TLS_PORT", &tls.to_string()),
            ("SASL_TLS_PORT", &sasl_tls.to_string()),
            ("CONTROLLER_PORT", &controller.to_string()),
            ("DIR", &data.display().to_string()),
            ("KEYSTORE", &installed.join(install::KEYSTORE).display().to_string()),
        ]);
        for (key, value) in properties {
            text.push_str(&format!("{key}={value}\n"));
        }
        let file = folder.join("server.properties");
        std::fs::write(&file, text).about(|| file.display().to_string())?;
        let bootstrap = [plain, sasl, tls, sasl_tls].map(|port| format!("127.0.0.1:{port}"));
        let log = cache::log(&name)?;
        Ok(Self { bootstrap, installed: installed.to_path_buf(), folder, log, process: Mutex::new(None) })
    }

    fn run(&self) -> Result<()> {
        let mut command = vec!["java".to_string()];
        // it shares its cores with the test, and few live long enough for the second compiler
        command.extend(["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"].map(str::to_string));
        let logging = self.installed.join(install::LOGGING);
        command.push(format!("-Dlog4j2.configurationFile={}", logging.display()));
        command.push("-cp".to_string());
        command.push(install::class_path(&self.installed));
        command.push("kafka.Kafka".to_string());
        command.push(self.folder.join("server.properties").display().to_string());
        let process = Process::start(&command, &self.log, &self.folder)?;
        let start = now();
        loop {
            let error = match protocol::Connection::open(self.bootstrap()) {
                Ok(mut connection) => match admin::is_ready(&mut connection) {
                    Ok(true) => break,
                    Ok(false) => "it has not joined its cluster".to_string(),
                    Err(error) => error.to_string(),
                },
                Err(error) => error.to_string(),
            };
            if process.has_ended() || start.elapsed() > STARTED_WITHIN {
                let took = start.elapsed().as_secs();
                let end = process.end();
                return Err(Error::new(format!(
                    "Kafka did not start at {} within {took} s: {error}; {end}",
                    self.bootstrap()
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        *self.process() = Some(process);
        Ok(())
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a client calls `bootstrap.servers`: host and port, without encryption and without a password.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap[0]
    }

    /// The address of the listener `SASL_PLAINTEXT`: with a password, without encryption.
    pub fn sasl(&self) -> &str {
        &self.bootstrap[1]
    }

    /// The address of the listener `SSL`: encrypted, without a password. Its certificate is for `localhost`
    /// and 127.0.0.1.
    pub fn tls(&self) -> &str {
        &self.bootstrap[2]
    }

    /// The address of the listener `SASL_SSL`: encrypted and with a password.
    pub fn sasl_tls(&self) -> &str {
        &self.bootstrap[3]
    }

    /// The certificate, in PEM, by which a client knows the encrypted listeners.
    pub fn certificate(&self) -> PathBuf {
        self.installed.join(install::CERTIFICATE)
    }

    /// The file of its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Kills it with SIGKILL and waits until it has ended; nothing if it does not run. Its data stays.
    ///
    /// # Errors
    /// If it does not end.
    pub fn kill(&self) -> Result<()> {
        let process = self.process().take();
        process.map_or(Ok(()), Process::kill)
    }

    /// Starts it on the same ports and data, after a [`kill`](Self::kill) or instead of it, and waits until
    /// it answers.
    ///
    /// # Errors
    /// If it does not start; with the end of its log.
    pub fn restart(&self) -> Result<()> {
        self.kill()?;
        self.run()
    }

    /// Stops its process where it is: connections stay, and nobody answers.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pause(&self) -> Result<()> {
        self.with_process(Process::pause)
    }

    /// Lets it go on after a [`pause`](Self::pause).
    ///
    /// # Errors
    /// If it does not run.
    pub fn resume(&self) -> Result<()> {
        self.with_process(Process::resume)
    }

    fn with_process(&self, act: impl FnOnce(&Process) -> Result<()>) -> Result<()> {
        match &*self.process() {
            Some(process) => act(process),
            None => Err(Error::new("Kafka does not run: it was killed")),
        }
    }

    /// Makes a topic and waits until it can be used.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn create_topic(&self, name: &str, partitions: u32) -> Result<()> {
        self.create_topic_with(name, partitions, &[])
    }

    /// Makes a topic with settings of its own, such as `max.message.bytes`.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn create_topic_with(&self, name: &str, partitions: u32, settings: &[(&str, &str)]) -> Result<()> {
        let mut connection = self.connection()?;
        admin::create_topic(&mut connection, name, partitions, settings)?;
        admin::wait_for(&mut connection, name, partitions)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn delete_topic(&self, name: &str) -> Result<()> {
        admin::delete_topic(&mut self.connection()?, name)
    }

    /// Gives a topic more partitions: `total` is how many it then has.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn add_partitions(&self, topic: &str, total: u32) -> Result<()> {
        let mut connection = self.connection()?;
        admin::create_partitions(&mut connection, topic, total)?;
        admin::wait_for(&mut connection, topic, total)
    }

    /// Deletes the records of a partition that lie before an offset, as retention does.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn delete_records(&self, topic: &str, partition: u32, before: u64) -> Result<()> {
        admin::delete_records(&mut self.connection()?, topic, partition, before)
    }

    fn connection(&self) -> Result<protocol::Connection> {
        protocol::Connection::open(self.bootstrap())
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        // the shell of the process deletes the folder, but not after a kill
        drop(process.take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[expect(clippy::disallowed_methods, reason = "how long to wait for a server")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
