//! The listener, its thread, and the time that a client has.
//!
//! A connection serves one request and is closed: a client that is slow, or silent, costs one of a fixed
//! number of places for a fixed time, and nothing else.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use stillstream_types::{Error, ErrorKind, Result};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::routes::{App, KeptUntilSent, router};
use crate::settings::Ports;

/// Connections at once.
const CONNECTIONS: u32 = 128;
/// So long a client may take to say what it wants.
const TO_ASK: Duration = Duration::from_secs(5);
/// So long a client may take in all.
const TO_TALK: Duration = Duration::from_secs(30);
/// The longest head of a request.
const LONGEST_HEAD: usize = 16 << 10;
/// How often the server looks whether it is still needed.
const LOOK: Duration = Duration::from_millis(200);
/// So long those who are being answered may take when it is not.
const TO_END: Duration = Duration::from_secs(2);

/// Takes the first port that is free.
///
/// # Errors
/// If none is, or the address is not this machine's.
pub(crate) fn bind(address: IpAddr, ports: Ports) -> Result<TcpListener> {
    let mut last = None;
    for port in ports.first..=ports.last {
        match TcpListener::bind(SocketAddr::new(address, port)) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return Ok(listener);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = Some(error),
            Err(error) => {
                last = Some(error);
                break;
            }
        }
    }
    let error = last.map_or_else(|| "there is no port to try".to_string(), |error| error.to_string());
    Err(Error::new(
        ErrorKind::Configuration,
        format!(
            "the REST interface cannot listen at {address}, {ports}: {error}; `-D rest.bind-port=0` takes any free port, a range such \
             as `8081-8099` the first free one, and `-D stillstream.rest.enabled=false` does without"
        ),
    ))
}

/// Serves until `needed` says that nobody needs it any more. Blocks.
pub(crate) fn serve(listener: TcpListener, app: Arc<App>, needed: impl Fn() -> bool) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS as usize));
        let router = router(app);
        loop {
            // closed, this semaphore is not
            let place = places.clone().acquire_owned();
            let accepted = tokio::select! {
                accepted = async { (place.await, listener.accept().await) } => accepted,
                () = sleep(LOOK) => {
                    if needed() { continue } else { break }
                }
            };
            let (Ok(place), accepted) = accepted else { break };
            match accepted {
                Ok((stream, _)) => {
                    let router = router.clone();
                    tokio::spawn(async move {
                        talk(stream, router).await;
                        drop(place);
                    });
                }
                // as when the process has no more file descriptors: there may be some later
                Err(error) => {
                    tracing::debug!("a REST connection was not accepted: {error}");
                    sleep(LOOK).await;
                }
            }
        }
        drop(listener);
        let _ = timeout(TO_END, places.acquire_many(CONNECTIONS)).await;
        io::Result::Ok(())
    })
}

/// One request and its answer.
async fn talk(stream: TcpStream, router: Router) {
    let kept = KeptUntilSent::default();
    let held = kept.clone();
    let inner = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(kept.clone());
        let answer = inner.call(request);
        async move { Ok::<_, Infallible>(answer.await.unwrap_or_else(|never: Infallible| match never {})) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TO_ASK)
        .keep_alive(false)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // a client that went away needs no answer
    let _ = timeout_at(Instant::now() + TO_TALK, connection).await;
    drop(held);
}
