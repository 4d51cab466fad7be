//! Where worker processes come in: the JobManager's port, and who is let through.
//!
//! Anybody on the machine can connect. Until a connection has said the job's token it costs one small task:
//! no thread, no more memory than its hello may have bytes, and not for long.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use stillstream_types::{ErrorKind, Result, ResultExt};
use tokio::io::AsyncReadExt;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};

use super::wire::{self, LARGEST_HELLO, ToManager};

/// How long a connection may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that have not said who they are: when there are more, the oldest is dropped. A worker process
/// says it at once.
const WAITING_ROOM: usize = 64;

/// Takes a connection with its hello; an error says why it is refused.
pub(crate) type Admit = Arc<dyn Fn(TcpStream, ToManager) -> io::Result<()> + Send + Sync>;

/// An open port on this machine; dropping it closes it.
pub(crate) struct Door {
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Door({})", self.address)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Door {
    /// Opens a port and hands connections to `admit` as soon as they have said hello.
    ///
    /// # Errors
    /// If the system gives no port.
    pub fn open(handle: &Handle, admit: Admit) -> Result<Self> {
        let bind = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let _inside = handle.enter();
            Ok::<_, io::Error>((tokio::net::TcpListener::from_std(listener)?, address))
        };
        let (listener, address) = bind()
            .context(|| "the JobManager cannot open a port on 127.0.0.1 for its worker processes")
            .kind(ErrorKind::Peer)?;
        Ok(Self { address, accepting: handle.spawn(accept(listener, admit)) })
    }
}

/// Some connections were refused. Only every power of two of them is worth a line: a stranger must not fill
/// the log.
fn refused(count: u64, why: &str) {
    if count.is_power_of_two() {
        tracing::warn!("a connection to the JobManager's port was refused: {why} ({count} so far)");
    } else {
        tracing::debug!("a connection to the JobManager's port was refused: {why}");
    }
}

async fn accept(listener: tokio::net::TcpListener, admit: Admit) {
    let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let refuse = move |why: &str| {
        refused(count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1, why);
    };
    let mut waiting: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // such as too many open files: it passes, and is no reason to spin
                tracing::warn!("the JobManager's port cannot take a connection: {error}");
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        waiting.retain(|task| !task.is_finished());
        if waiting.len() >= WAITING_ROOM
            && let Some(oldest) = waiting.pop_front()
        {
            oldest.abort();
            refuse("it said nothing while many others came");
        }
        let (admit, refuse) = (admit.clone(), refuse.clone());
        let introduction = async move {
            let known = match tokio::time::timeout(HELLO_TIMEOUT, introduce(stream)).await {
                Ok(known) => known,
                Err(_) => Err(io::Error::other(format!("it said nothing for {HELLO_TIMEOUT:?}"))),
            };
            if let Err(error) = known.and_then(|(stream, hello)| admit(stream, hello)) {
                refuse(&error.to_string());
            }
        };
        waiting.push_back(tokio::spawn(introduction).abort_handle());
    }
}

/// Reads the hello of a connection.
async fn introduce(mut stream: tokio::net::TcpStream) -> io::Result<(TcpStream, ToManager)> {
    let mut head = [0u8; 4];
    stream.read_exact(&mut head).await?;
    let mut hello = vec![0u8; wire::frame_len(head, LARGEST_HELLO)?];
    stream.read_exact(&mut hello).await?;
    let hello = wire::decode_frame(&hello)?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok((stream, hello))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc;

    use super::super::wire::{FromWorker, Hello};
    use super::*;

    fn hello(token: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let hello = FromWorker::Hello(Hello { process: 0, token: token.into() });
        let hello = ToManager { generation: 0, message: Some(hello) };
        wire::write_frame(&mut bytes, &hello).unwrap();
        bytes
    }

    #[test]
    fn a_worker_process_comes_in_at_once_although_hundreds_of_strangers_say_nothing_or_promise_a_gigabyte() {
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, admitted) = mpsc::channel();
        let admit: Admit = Arc::new(move |stream, hello: ToManager| match hello.message {
            Some(FromWorker::Hello(hello)) if hello.token == "the token" => {
                sender.send(stream).unwrap();
                Ok(())
            }
            _ => Err(io::Error::other("it does not know the job's token")),
        });
        let door = Door::open(tokio.handle(), admit).unwrap();
        let connect = || {
            let stream = TcpStream::connect(door.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream
        };
        let silent: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
        for first in
            [(1u32 << 30).to_le_bytes().to_vec(), hello("a guess"), b"GET / HTTP/1.1\r\n\r\n".to_vec()]
        {
            let mut stranger = connect();
            stranger.write_all(&first).unwrap();
            // a reset, if some of what it said was never read
            assert_eq!(stranger.read(&mut [0; 8]).unwrap_or(0), 0, "it is turned away at once");
        }
        let mut worker = connect();
        worker.write_all(&hello("the token")).unwrap();
        admitted.recv_timeout(HELLO_TIMEOUT / 2).expect("it did not have to wait for the strangers");
        // the oldest of the silent ones had to go when so many came
        let mut oldest = &silent[0];
        assert_eq!(oldest.read(&mut [0; 8]).unwrap_or(0), 0);
        drop(door);
    }
}
