//! Where the server listens, and who may ask.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use stillstream_types::{Error, ErrorKind, Result};

/// Flink's default port.
pub const DEFAULT_PORT: u16 = 8081;
/// If nobody chose a port, so many after the default one are tried.
const MORE_PORTS: u16 = 100;

/// The ports of which the first free one is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
    /// Somebody chose them: that none is free is an error then.
    pub chosen: bool,
}

impl Default for Ports {
    fn default() -> Self {
        Self { first: DEFAULT_PORT, last: DEFAULT_PORT + MORE_PORTS, chosen: false }
    }
}

impl Ports {
    /// This one and no other; 0: any that is free.
    pub fn one(port: u16) -> Self {
        Self { first: port, last: port, chosen: true }
    }

    /// Reads `8081` or `50100-50200`, as `rest.bind-port` has it.
    ///
    /// ```
    /// use stillstream_rest::Ports;
    /// assert_eq!(Ports::parse("8081").unwrap(), Ports::one(8081));
    /// assert_eq!(Ports::parse("50100 - 50200").unwrap().last, 50200);
    /// assert!(Ports::parse("8082-8081").is_err() && Ports::parse("http").is_err());
    /// ```
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse(text: &str) -> Result<Self> {
        let number = |part: &str| part.trim().parse::<u16>().ok();
        let found = match text.split_once('-') {
            None => number(text).map(|port| (port, port)),
            Some((first, last)) => number(first).zip(number(last)),
        };
        match found {
            Some((first, last)) if first <= last => Ok(Self { first, last, chosen: true }),
            _ => Err(Error::new(
                ErrorKind::Configuration,
                format!(
                    "`rest.bind-port: {text}` is not valid: a port from 0 to 65535 or a range such as `50100-50200` is expected"
                ),
            )),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "port {}", self.first),
            false => write!(f, "none of the ports {} to {}", self.first, self.last),
        }
    }
}

/// How the server of a process is to be.
#[derive(Clone, PartialEq, Eq)]
pub struct RestSettings {
    /// Where it listens.
    pub address: IpAddr,
    /// On which port.
    pub ports: Ports,
    /// What every request has to show; `None`: nothing.
    pub token: Option<String>,
    /// A name of this machine that requests without a token may have as their host, beside `localhost`.
    pub host: Option<String>,
    /// How long the outcome of an operation can be asked for.
    pub keep_outcomes: Duration,
}

impl Default for RestSettings {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            ports: Ports::default(),
            token: None,
            host: None,
            keep_outcomes: Duration::from_secs(300),
        }
    }
}

impl fmt::Debug for RestSettings {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestSettings")
            .field("address", &self.address)
            .field("ports", &self.ports)
            .field("has_token", &self.token.is_some())
            .field("host", &self.host)
            .field("keep_outcomes", &self.keep_outcomes)
            .finish()
    }
}

impl RestSettings {
    /// Reads `rest.bind-address`.
    ///
    /// # Errors
    /// If it is neither `localhost` nor an IP address.
    pub fn parse_address(text: &str) -> Result<IpAddr> {
        if text.eq_ignore_ascii_case("localhost") {
            return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        plain.parse().map_err(|_| {
            Error::new(
                ErrorKind::Configuration,
                format!(
                    "`rest.bind-address: {text}` is not valid: `localhost` or an IP address of this machine is expected, such as \
                     `0.0.0.0` for all of them"
                ),
            )
        })
    }

    /// Refuses what would let others on the network drive jobs, before anything listens.
    ///
    /// # Errors
    /// If the address is no loopback address and there is no token; if the token cannot be sent in a header.
    pub fn validate(&self) -> Result<()> {
        let refused = |message: String| Err(Error::new(ErrorKind::Configuration, message));
        match &self.token {
            None if !self.address.is_loopback() => refused(format!(
                "`rest.bind-address: {}` is open to the network, and whoever reaches it could stop jobs and delete savepoints: \
                 set `stillstream.rest.token-file` (or the variable STILLSTREAM_REST_TOKEN) to a secret that every request then \
                 has to show, or leave the address at `localhost`",
                self.address
            )),
            Some(token) if token.len() < 16 || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                refused(
                    "the token of the REST interface (`stillstream.rest.token`) must have 16 characters or more, all of them \
                     printable ASCII without blanks; `openssl rand -hex 32` makes a good one"
                        .into(),
                )
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_reach_needs_a_token() {
        let open = RestSettings { address: "0.0.0.0".parse().unwrap(), ..RestSettings::default() };
        let text = open.validate().unwrap_err().to_string();
        assert!(text.contains("rest.bind-address: 0.0.0.0") && text.contains("token-file"), "{text}");
        let with = RestSettings { token: Some("0123456789abcdef".into()), ..open.clone() };
        assert!(with.validate().is_ok() && RestSettings::default().validate().is_ok());
        for token in ["short", "with a blank in it ..", "with\nanother line in it"] {
            let text = RestSettings { token: Some(token.into()), ..open.clone() }
                .validate()
                .unwrap_err()
                .to_string();
            assert!(text.contains("16 characters") && !text.contains(token), "{text}");
        }
    }

    #[test]
    fn an_address_is_localhost_or_a_number() {
        for (text, address) in
            [("localhost", "127.0.0.1"), ("[::1]", "::1"), ("::1", "::1"), ("0.0.0.0", "0.0.0.0")]
        {
            assert_eq!(RestSettings::parse_address(text).unwrap().to_string(), address);
        }
        assert!(
            RestSettings::parse_address("jobs.example").unwrap_err().to_string().contains("jobs.example")
        );
    }

    #[test]
    fn a_token_is_in_no_log() {
        let settings = RestSettings { token: Some("s3cret-s3cret-s3cret".into()), ..RestSettings::default() };
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}
