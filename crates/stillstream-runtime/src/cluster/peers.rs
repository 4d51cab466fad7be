//! Sockets between the worker processes of one attempt.
//!
//! A process dials those with lower numbers and is dialled by those with higher ones. A connection says first
//! who it is: a pass of a fixed length with the job's token and the generation, and the number of its
//! process. Whoever says something else, or nothing for some seconds, is turned away; strangers keep nobody
//! waiting.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use stillstream_types::{Error, ErrorKind, Generation, Result, ResultExt};

use crate::clock::Clock;

/// How long a process waits for its peers.
const PEERS_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may take to say who it is, and a peer to answer a call.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that have not said who they are: when there are more, the oldest is dropped.
const WAITING_ROOM: usize = 64;

/// What a process needs to meet its peers.
pub(crate) struct Meeting<'a> {
    pub process: usize,
    pub token: &'a str,
    pub generation: Generation,
    pub clock: &'a dyn Clock,
    /// Whether the attempt was told to stop.
    pub stopped: &'a dyn Fn() -> bool,
}

/// Opens a port for the other worker processes.
pub(crate) fn open_port(process: usize) -> Result<(TcpListener, SocketAddr)> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    bound
        .context(|| {
            format!("worker process {process} cannot open a port on 127.0.0.1 for the other worker processes")
        })
        .kind(ErrorKind::Peer)
}

/// A connection that has not said who it is.
struct Stranger {
    socket: TcpStream,
    said: Vec<u8>,
    since: Duration,
}

/// What is known of a connection.
enum Known {
    NotYet,
    Peer(usize),
    Refused(String),
}

impl Stranger {
    /// Reads what has come, without waiting, and never more than a pass.
    fn ask(&mut self, pass: &[u8], now: Duration) -> Known {
        let whole = pass.len() + 8;
        let mut buffer = [0u8; 256];
        while self.said.len() < whole {
            let room = (whole - self.said.len()).min(buffer.len());
            match self.socket.read(&mut buffer[..room]) {
                Ok(0) => return Known::Refused("it closed before it said who it is".into()),
                Ok(read) => self.said.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return match now.saturating_sub(self.since) > HELLO_TIMEOUT {
                        true => Known::Refused(format!("it said nothing for {HELLO_TIMEOUT:?}")),
                        false => Known::NotYet,
                    };
                }
                Err(error) => return Known::Refused(error.to_string()),
            }
        }
        let (found, peer) = self.said.split_at(pass.len());
        if found != pass {
            return Known::Refused("it does not know this attempt's secret".into());
        }
        Known::Peer(peer.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }
}

impl Meeting<'_> {
    fn lost(&self, what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Peer, format!("worker process {}: {}", self.process, what.into()))
    }

    fn pass(&self) -> Vec<u8> {
        format!("{}-{:020}", self.token, self.generation).into_bytes()
    }

    fn dial(&self, peer: usize, address: &str) -> Result<TcpStream> {
        let what = || format!("connecting to worker process {peer} at {address}");
        let address: SocketAddr = address.parse().map_err(io::Error::other).context(what)?;
        let mut socket = TcpStream::connect_timeout(&address, HELLO_TIMEOUT).context(what)?;
        socket.set_nodelay(true).context(what)?;
        let mut hello = self.pass();
        hello.extend_from_slice(&(self.process as u64).to_le_bytes());
        socket.write_all(&hello).context(what)?;
        Ok(socket)
    }

    /// Sockets to all other processes, by their number.
    ///
    /// # Errors
    /// If a peer cannot be reached or does not come in time, or the attempt was told to stop.
    pub fn connect(&self, addresses: &[String], listener: &TcpListener) -> Result<Vec<Option<TcpStream>>> {
        let me = self.process;
        if me >= addresses.len() {
            return Err(
                self.lost(format!("it was given only {} addresses of worker processes", addresses.len()))
            );
        }
        let mut sockets: Vec<Option<TcpStream>> = addresses.iter().map(|_| None).collect();
        for (peer, address) in addresses.iter().enumerate().take(me) {
            sockets[peer] = Some(self.dial(peer, address).kind(ErrorKind::Peer)?);
        }
        listener.set_nonblocking(true)?;
        let (deadline, pass) = (self.clock.elapsed() + PEERS_TIMEOUT, self.pass());
        let mut strangers: Vec<Stranger> = Vec::new();
        loop {
            let missing: Vec<usize> =
                (me + 1..sockets.len()).filter(|peer| sockets[*peer].is_none()).collect();
            if missing.is_empty() {
                return Ok(sockets);
            }
            let now = self.clock.elapsed();
            if (self.stopped)() {
                return Err(self.lost("told to stop while waiting for the other processes"));
            }
            if now > deadline {
                return Err(self
                    .lost(format!("worker processes {missing:?} did not connect within {PEERS_TIMEOUT:?}")));
            }
            let arrived = self.accept(listener, &mut strangers, now)?;
            let before = strangers.len();
            let mut at = 0;
            while at < strangers.len() {
                match strangers[at].ask(&pass, now) {
                    Known::NotYet => at += 1,
                    Known::Refused(why) => {
                        tracing::warn!("worker process {me} refused a connection: {why}");
                        strangers.remove(at);
                    }
                    Known::Peer(peer) => {
                        let socket = strangers.remove(at).socket;
                        socket.set_nonblocking(false)?;
                        socket.set_nodelay(true)?;
                        match sockets.get_mut(peer) {
                            Some(place) if peer > me && place.is_none() => *place = Some(socket),
                            _ => tracing::warn!(
                                "worker process {me} refused a connection of a process {peer} that it does not expect"
                            ),
                        }
                    }
                }
            }
            if !arrived && before == strangers.len() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Takes one connection, if there is one.
    fn accept(&self, listener: &TcpListener, strangers: &mut Vec<Stranger>, now: Duration) -> Result<bool> {
        match listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(true)?;
                if strangers.len() >= WAITING_ROOM {
                    strangers.remove(0);
                }
                strangers.push(Stranger { socket, said: Vec::new(), since: now });
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            // the connection was reset before it was taken, or a signal came
            Err(error)
                if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) =>
            {
                Ok(false)
            }
            Err(error) => Err(self.lost(format!("its port for the other processes failed: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn meeting<'a>(process: usize, clock: &'a dyn Clock, stopped: &'a dyn Fn() -> bool) -> Meeting<'a> {
        Meeting { process, token: "0123456789abcdef", generation: Generation(3), clock, stopped }
    }

    #[test]
    fn processes_meet_although_strangers_hold_connections_and_say_nothing_or_something_else() {
        let clock = SystemClock::default();
        let ports: Vec<_> = (0..3).map(|process| open_port(process).unwrap()).collect();
        let addresses: Vec<String> = ports.iter().map(|(_, address)| address.to_string()).collect();
        let mut strangers = Vec::new();
        for (n, address) in addresses.iter().cycle().take(120).enumerate() {
            let mut stranger = TcpStream::connect(address).unwrap();
            if n % 2 == 0 {
                stranger.write_all(&[b'x'; 500]).unwrap();
            }
            strangers.push(stranger);
        }
        let begun = clock.elapsed();
        std::thread::scope(|scope| {
            let meet = |process: usize| {
                let (clock, addresses, listener) = (&clock, &addresses, &ports[process].0);
                scope.spawn(move || meeting(process, clock, &|| false).connect(addresses, listener).unwrap())
            };
            let found: Vec<Vec<bool>> = (0..3)
                .map(meet)
                .collect::<Vec<_>>()
                .into_iter()
                .map(|met| met.join().unwrap().iter().map(Option::is_some).collect())
                .collect();
            assert_eq!(found, [[false, true, true], [true, false, true], [true, true, false]]);
        });
        let took = clock.elapsed().saturating_sub(begun);
        assert!(took < PEERS_TIMEOUT, "nobody waited for a stranger: {took:?}");
    }

    #[test]
    fn a_peer_that_dropped_out_of_the_list_is_an_error_and_no_panic() {
        let clock = SystemClock::default();
        let (listener, address) = open_port(2).unwrap();
        let error = meeting(2, &clock, &|| false).connect(&[address.to_string()], &listener).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Peer);
        assert!(error.to_string().contains("only 1 addresses"), "{error}");
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error_that_names_it() {
        let clock = SystemClock::default();
        let (gone, address) = open_port(0).unwrap();
        drop(gone);
        let (listener, own) = open_port(1).unwrap();
        let addresses = [address.to_string(), own.to_string()];
        let error = meeting(1, &clock, &|| false).connect(&addresses, &listener).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Peer);
        assert!(error.to_string().contains(&format!("worker process 0 at {address}")), "{error}");
    }

    #[test]
    fn a_process_that_waits_for_its_peers_gives_up_when_it_is_told_to_stop() {
        let clock = SystemClock::default();
        let (listener, address) = open_port(0).unwrap();
        let addresses = [address.to_string(), address.to_string()];
        let error = meeting(0, &clock, &|| true).connect(&addresses, &listener).unwrap_err();
        assert!(error.to_string().contains("told to stop"), "{error}");
    }
}
