//! A server's process, which ends with the program that started it.
//!
//! Between the two stands a shell that waits for the end of a pipe whose other end only the program holds.
//! The system closes it when the program ends, also by SIGKILL, and then the shell kills the server and
//! deletes its folder. This needs no call of Linux alone, and no thread that has to live as long as the
//! server.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::error::{About, Error, Result};
use crate::packages::runs;

/// `$1` is the log, `$2` the folder to delete at the end of the program, the rest the command. The server
/// holds the pipe of the shell's output, whose end says that the server has ended.
const WATCH: &str = r#"
trap '' INT TERM HUP
log=$1; folder=$2; shift 2
"$@" 3>&1 >>"$log" 2>&1 </dev/null &
server=$!
echo $server
exec >&-
read -r word
kill -9 $server 2>/dev/null
wait $server 2>/dev/null
[ "$word" = killed ] || rm -rf "$folder"
"#;

/// How long a process may take to end after SIGKILL.
const KILLED_WITHIN: Duration = Duration::from_secs(20);

/// A running server.
pub struct Process {
    shell: Child,
    id: String,
    ended: Receiver<()>,
    log: PathBuf,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Process({}, log {})", self.id, self.log.display())
    }
}

impl Process {
    /// Starts a command that prints into `log`. `folder` is deleted once the server and the program that
    /// started it have ended; not after [`kill`](Self::kill), so that the server can be started again on it.
    ///
    /// # Errors
    /// If the system starts no process.
    pub fn start(command: &[String], log: &Path, folder: &Path) -> Result<Self> {
        File::options().create(true).append(true).open(log).about(|| log.display().to_string())?;
        let mut shell = Command::new("sh")
            .args(["-c", WATCH, "sh"])
            .args([log, folder])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .about(|| "starting a shell for a server".to_string())?;
        let Some(output) = shell.stdout.take() else {
            return Err(Error::new("the shell of a server has no output"));
        };
        let mut output = BufReader::new(output);
        let mut id = String::new();
        output.read_line(&mut id).about(|| "the id of a server's process".to_string())?;
        let (sender, ended) = channel();
        let wait = move || {
            // it prints nothing: what is waited for is the end of the pipe
            let _ = std::io::copy(&mut output, &mut std::io::sink());
            drop(sender);
        };
        std::thread::Builder::new()
            .name("services".to_string())
            .spawn(wait)
            .about(|| "starting a thread for a server".to_string())?;
        Ok(Self { shell, id: id.trim().to_string(), ended, log: log.to_path_buf() })
    }

    /// Its number.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether it has ended, by itself or by somebody else's hand.
    pub fn has_ended(&self) -> bool {
        self.has_ended_within(Duration::ZERO)
    }

    fn has_ended_within(&self, time: Duration) -> bool {
        matches!(self.ended.recv_timeout(time), Err(RecvTimeoutError::Disconnected))
    }

    /// Sends SIGSTOP: it lives, and answers nothing.
    ///
    /// # Errors
    /// If it has ended.
    pub fn pause(&self) -> Result<()> {
        self.signal("-STOP")
    }

    /// Sends SIGCONT.
    ///
    /// # Errors
    /// If it has ended.
    pub fn resume(&self) -> Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        match !self.has_ended() && runs("kill", &[signal, &self.id]) {
            true => Ok(()),
            false => Err(Error::new(format!("process {} cannot be sent {signal}: {}", self.id, self.end()))),
        }
    }

    /// Sends SIGKILL and waits until it has ended. Its folder stays.
    ///
    /// # Errors
    /// If it does not end.
    pub fn kill(mut self) -> Result<()> {
        if let Some(mut input) = self.shell.stdin.take() {
            use std::io::Write;
            // a shell that has ended has killed it
            let _ = input.write_all(b"killed\n");
        }
        match self.has_ended_within(KILLED_WITHIN) {
            true => Ok(()),
            false => Err(Error::new(format!("process {} does not end after SIGKILL", self.id))),
        }
    }

    /// The last lines of its log, for an error.
    pub fn end(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(15)..];
        format!("the end of its log {}:\n{}", self.log.display(), last.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // the shell ends when the server has; a zombie is all that could be left
        let _ = self.shell.wait();
    }
}
