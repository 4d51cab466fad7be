//! Enrichment over HTTP: each record asks a server, and a thousand requests are under way at once.
//!
//! No thread waits: the worker goes on while the answers are on their way. The server of this example answers
//! when it has a thousand requests, so the job would stand still with one fewer.
//!
//! ```text
//! (0, "user 0")
//! (250, "user 250")
//! (500, "user 500")
//! (750, "user 750")
//! 1000 requests were under way at once
//! ```

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use hyper_util::rt::TokioIo;
use stillstream::prelude::*;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

const USERS: usize = 1_000;

/// Asks the server for a user's name. A client that keeps its connections would be captured by the closure.
async fn name_of(user: u64, server: SocketAddr) -> Result<String> {
    let stream = TokioIo::new(TcpStream::connect(server).await?);
    let (mut requests, connection) = client::conn::http1::handshake(stream).await?;
    tokio::spawn(connection);
    let request = Request::get(format!("/{user}")).header("host", "names").body(String::new())?;
    let mut body = requests.send_request(request).await?.into_body();
    let mut name = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        frame?.into_data().iter().for_each(|bytes| name.extend_from_slice(bytes));
    }
    Ok(String::from_utf8(name)?)
}

/// Answers each request, but none before all users are asked for.
async fn serve(listener: std::net::TcpListener) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let all = Arc::new(Barrier::new(USERS));
    loop {
        let (stream, _) = listener.accept().await?;
        let all = all.clone();
        let answer = service_fn(move |request: Request<Incoming>| {
            let all = all.clone();
            async move {
                all.wait().await;
                let user = request.uri().path().trim_start_matches('/');
                Ok::<_, Infallible>(Response::new(format!("user {user}")))
            }
        });
        let connection = server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(connection);
    }
}

fn start_server() -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serve = move || runtime.block_on(serve(listener));
    std::thread::Builder::new().name("server".into()).spawn(serve)?;
    Ok(address)
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    let server = start_server()?;

    env.from_collection(0..USERS as u64)
        .async_map(move |user| async move { Ok((user, name_of(user, server).await?)) })
        .capacity(USERS)
        .timeout(seconds(60))
        .retry(AsyncRetry::fixed_delay(3, millis(100)))
        .ordered()
        .uid("names")
        .filter(|user| user.0 % 250 == 0)
        .print();

    env.execute("http enrichment")?;
    println!("{USERS} requests were under way at once");
    Ok(())
}
