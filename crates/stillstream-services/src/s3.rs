//! An S3 server: versitygw, which keeps its objects as files and so can be killed; without Go, which builds
//! it, moto, which keeps them in memory.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::command::run;
use crate::error::{About, Error, Result};
use crate::kafka::now;
use crate::packages::{self, Needed};
use crate::process::Process;
use crate::{cache, ports};

/// The version of versitygw.
pub const VERSION: &str = "1.8.0";
/// The version of moto.
pub const MOTO_VERSION: &str = "5.2.1";

const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw";

/// How long a server may take until it answers.
const STARTED_WITHIN: Duration = Duration::from_secs(60);

/// How many servers this program has started; for the names of their files.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Which program it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Versity,
    Moto,
}

impl Kind {
    /// The one that can be made here: the first needs Go.
    fn here() -> Self {
        let built = cache::folder().join(Self::Versity.name()).is_dir();
        if built || packages::runs("go", &["version"]) { Self::Versity } else { Self::Moto }
    }

    fn name(self) -> String {
        match self {
            Self::Versity => format!("versitygw-{VERSION}"),
            Self::Moto => format!("moto-{MOTO_VERSION}"),
        }
    }
}

/// Makes an S3 server unless it is there: versitygw by Go (77 s on two cores), or where there is no Go moto
/// by pip.
///
/// # Errors
/// If neither Go nor Python is there, or the download fails.
pub fn prepare() -> Result<PathBuf> {
    let kind = Kind::here();
    cache::once(&kind.name(), |folder| match kind {
        Kind::Versity => {
            let module = format!("{MODULE}@v{VERSION}");
            // its build cache is not needed again
            run(Command::new("go")
                .args(["install", &module])
                .env("GOBIN", folder)
                .env("GOFLAGS", "-ldflags=-s"))
        }
        Kind::Moto => {
            packages::provide(&[Needed { program: "python3", ask: "--version", package: "python3-venv" }])?;
            run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
            let package = format!("moto[s3,server]=={MOTO_VERSION}");
            // by its module: a folder that is renamed breaks the paths in the programs of a virtual
            // environment
            run(Command::new(folder.join("bin/python")).args(["-m", "pip", "install", "-q", &package]))
        }
    })
}

/// A running S3 server of this program, with one bucket. It ends with this value, and with the program at the
/// latest.
#[derive(Debug)]
pub struct S3 {
    kind: Kind,
    installed: PathBuf,
    port: u16,
    folder: PathBuf,
    log: PathBuf,
    process: Mutex<Option<Process>>,
}

impl S3 {
    /// The bucket that is there.
    pub const BUCKET: &str = "stillstream";
    /// Who may come in.
    pub const ACCESS_KEY: &str = "test";
    /// The secret of [`ACCESS_KEY`](Self::ACCESS_KEY).
    pub const SECRET_KEY: &str = "testtest";

    /// Starts a new server with an empty bucket on a free port, and waits until it answers.
    ///
    /// # Errors
    /// If it was not made (`cargo xtask services prepare` does it), or does not start; with the end of its
    /// log.
    pub fn start() -> Result<Self> {
        let kind = Kind::here();
        let installed = cache::folder().join(kind.name());
        if !installed.is_dir() {
            return Err(Error::new(format!(
                "no S3 server is at {}: run `cargo xtask services prepare`, which makes one",
                installed.display()
            )));
        }
        let [port] = ports::free()?;
        let name = format!("s3-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("stillstream-{name}"));
        if folder.exists() {
            // of a process that had our number before
            std::fs::remove_dir_all(&folder).about(|| folder.display().to_string())?;
        }
        // a bucket is a folder
        let bucket = folder.join("data").join(Self::BUCKET);
        std::fs::create_dir_all(&bucket).about(|| bucket.display().to_string())?;
        let s3 = Self { kind, installed, port, folder, log: cache::log(&name)?, process: Mutex::new(None) };
        s3.run()?;
        Ok(s3)
    }

    fn run(&self) -> Result<()> {
        let text = |path: PathBuf| path.display().to_string();
        let address = format!("127.0.0.1:{}", self.port);
        let command = match self.kind {
            Kind::Versity => {
                let credentials = [
                    format!("ROOT_ACCESS_KEY={}", Self::ACCESS_KEY),
                    format!("ROOT_SECRET_KEY={}", Self::SECRET_KEY),
                ];
                let mut command = vec!["env".to_string()];
                command.extend(credentials);
                command.push(text(self.installed.join("versitygw")));
                command.extend(["--port", &address, "--quiet", "--access-log"].map(str::to_string));
                command.push(text(self.access_log()));
                command.extend(["posix".to_string(), text(self.folder.join("data"))]);
                command
            }
            Kind::Moto => {
                let python = text(self.installed.join("bin/python"));
                let port = self.port.to_string();
                let start = "from moto.server import main; main()";
                [&python, "-c", start, "-H", "127.0.0.1", "-p", &port].map(str::to_string).to_vec()
            }
        };
        let process = Process::start(&command, &self.log, &self.folder)?;
        let start = now();
        while let Err(error) = self.ask("GET / HTTP/1.1") {
            if process.has_ended() || start.elapsed() > STARTED_WITHIN {
                let (took, end) = (start.elapsed().as_secs(), process.end());
                return Err(Error::new(format!("no S3 server at {address} within {took} s: {error}; {end}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        *self.process() = Some(process);
        if self.kind == Kind::Moto {
            // it takes any credentials, and none
            self.ask(&format!("PUT /{} HTTP/1.1", Self::BUCKET))?;
        }
        Ok(())
    }

    /// Sends a request without credentials and a body, and waits for the first bytes of an answer.
    fn ask(&self, request: &str) -> Result<()> {
        let about = || format!("{request} to 127.0.0.1:{}", self.port);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).about(about)?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).about(about)?;
        let text = format!("{request}\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).about(about)?;
        stream.read_exact(&mut [0; 12]).about(about)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it answers: a URL.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The variables of the environment by which a client of the cloud's finds it and comes in.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("AWS_ENDPOINT_URL_S3", self.endpoint()),
            ("AWS_ACCESS_KEY_ID", Self::ACCESS_KEY.into()),
            ("AWS_SECRET_ACCESS_KEY", Self::SECRET_KEY.into()),
        ]
    }

    /// Whether its objects outlive [`kill`](Self::kill).
    pub fn keeps_objects(&self) -> bool {
        self.kind == Kind::Versity
    }

    /// A file with a line for each request that was answered, if the server writes one.
    pub fn access_log(&self) -> PathBuf {
        self.folder.join("access.log")
    }

    /// The file of its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Kills it with SIGKILL and waits until it has ended; nothing if it does not run.
    ///
    /// # Errors
    /// If it does not end.
    pub fn kill(&self) -> Result<()> {
        let process = self.process().take();
        process.map_or(Ok(()), Process::kill)
    }

    /// Starts it on the same port and data, after a [`kill`](Self::kill) or instead of it, and waits until it
    /// answers.
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
            None => Err(Error::new("the S3 server does not run: it was killed")),
        }
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        // the shell of the process deletes the folder, but not after a kill
        drop(process.take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
