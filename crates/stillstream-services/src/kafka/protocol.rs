//! As much of Kafka's protocol as tests need to prepare a broker. It is written out here, so that what is
//! tested (a client) does not prepare its own test, and so that nothing must be compiled for it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::{About, Error, Result};

/// How long the broker may take to answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// No answer that is asked for here is nearly as long.
const LONGEST_ANSWER: usize = 16 << 20;

/// A connection to the broker, one request at a time.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    address: String,
}

impl Connection {
    pub(super) fn open(address: &str) -> Result<Self> {
        let to = || format!("connecting to {address}");
        let socket: SocketAddr = address.parse().map_err(|error| Error::new(format!("{}: {error}", to())))?;
        let stream = TcpStream::connect_timeout(&socket, Duration::from_secs(5)).about(to)?;
        stream.set_read_timeout(Some(ANSWERED_WITHIN)).about(to)?;
        stream.set_nodelay(true).about(to)?;
        Ok(Self { stream, address: address.to_string() })
    }

    /// Sends a request and returns the body of its answer. Only versions that are not "flexible".
    pub(super) fn ask(&mut self, api: i16, version: i16, body: &Body) -> Result<Answer> {
        let mut request = Body::default();
        request.int16(api).int16(version).int32(1).string("stillstream-services");
        request.0.extend(&body.0);
        let mut bytes = (request.0.len() as i32).to_be_bytes().to_vec();
        bytes.extend(request.0);
        let about = || format!("request {api} to Kafka at {}", self.address);
        (&self.stream).write_all(&bytes).about(about)?;
        let mut length = [0; 4];
        (&self.stream).read_exact(&mut length).about(about)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > LONGEST_ANSWER {
            return Err(Error::new(format!("{}: an answer of {length} bytes", about())));
        }
        let mut answer = vec![0; length];
        (&self.stream).read_exact(&mut answer).about(about)?;
        let mut answer = Answer { bytes: answer, at: 0 };
        let correlation = answer.int32()?;
        match correlation {
            1 => Ok(answer),
            other => Err(Error::new(format!("{}: the answer is to request {other}", about()))),
        }
    }
}

/// What a request says.
#[derive(Debug, Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        self.0.push(value.into());
        self
    }

    pub(super) fn int16(&mut self, value: i16) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn int32(&mut self, value: i32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn int64(&mut self, value: i64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn string(&mut self, value: &str) -> &mut Self {
        self.int16(value.len() as i16);
        self.0.extend(value.as_bytes());
        self
    }

    pub(super) fn array<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.int32(items.len() as i32);
        items.iter().for_each(|each| item(self, each));
        self
    }
}

/// What the broker answers.
#[derive(Debug)]
pub(super) struct Answer {
    bytes: Vec<u8>,
    at: usize,
}

impl Answer {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.bytes.get(self.at..self.at + N).and_then(|bytes| bytes.try_into().ok());
        self.at += N;
        bytes.ok_or_else(|| Error::new("an answer of Kafka ends too early"))
    }

    pub(super) fn bool(&mut self) -> Result<bool> {
        Ok(self.take::<1>()? != [0])
    }

    pub(super) fn int16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.take()?))
    }

    pub(super) fn int32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take()?))
    }

    pub(super) fn int64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take()?))
    }

    /// A text, empty if there is none.
    pub(super) fn string(&mut self) -> Result<String> {
        let length = usize::try_from(self.int16()?).unwrap_or(0);
        let bytes = self.bytes.get(self.at..self.at + length);
        let text = bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        self.at += length;
        text.ok_or_else(|| Error::new("an answer of Kafka ends too early"))
    }

    pub(super) fn array<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        (0..self.int32()?).map(|_| item(self)).collect()
    }
}
