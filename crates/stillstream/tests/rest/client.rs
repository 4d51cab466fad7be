//! An HTTP client that says exactly what a test wants said.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use stillstream::prelude::*;

/// Far more than anything here needs, however busy the machine is.
pub const LONG: Duration = Duration::from_secs(60);

pub struct Answer {
    pub status: u16,
    pub json: Value,
}

/// Sends this and reads to the end.
pub fn send(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    // a server that has read enough closes, and what it said is still to be read
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

/// A request with these headers beside the usual ones.
pub fn ask_with(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    let length = body.len();
    let text = send(
        address,
        format!("{method} {path} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\n\r\n{body}")
            .as_bytes(),
    );
    let (head, body) =
        text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {method} {path}: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let json = serde_json::from_str(body).unwrap_or_else(|error| panic!("{method} {path}: {error}: {text}"));
    Answer { status, json }
}

pub fn get(address: SocketAddr, path: &str) -> Value {
    let answer = ask_with(address, "GET", path, "", "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.json);
    answer.json
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Answer {
    ask_with(address, "POST", path, "Content-Type: application/json\r\n", &body.to_string())
}

/// The id under which a request was accepted.
pub fn accepted(answer: &Answer) -> String {
    assert_eq!(answer.status, 202, "{}", answer.json);
    answer.json["request-id"].as_str().unwrap().to_owned()
}

/// What has become of an operation, once that is known.
pub fn outcome(address: SocketAddr, path: &str) -> Value {
    loop {
        let status = get(address, path);
        match status["status"]["id"].as_str().unwrap() {
            "COMPLETED" => return status["operation"].clone(),
            state => assert_eq!((state, &status["operation"]), ("IN_PROGRESS", &Value::Null)),
        }
    }
}

/// The text of the first error.
pub fn refusal(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{}", answer.json);
    answer.json["errors"][0].as_str().unwrap().to_owned()
}
