//! From the configuration to the REST interface: whether a job has one, and where.

use std::net::SocketAddr;

use stillstream_config::{Configuration, options as o};
use stillstream_runtime::job::JobClient;
use stillstream_types::Result;

/// Whether the settings want a REST interface. One that was asked for by no word is there for whoever started
/// the program.
fn wanted(config: &Configuration, from_args: bool) -> bool {
    let asked = config.is_set(o::REST_PORT)
        || config.is_set(o::REST_BIND_PORT)
        || config.is_set(o::REST_BIND_ADDRESS)
        || config.is_set(o::REST_TOKEN)
        || config.is_set(o::REST_TOKEN_FILE);
    config.get(o::REST_ENABLED).unwrap_or(asked || from_args)
}

/// The way of a job that is about to start into the REST interface, if it has one.
#[derive(Debug)]
pub(crate) struct Door(#[cfg(feature = "rest")] Option<stillstream_rest::Door>);

#[cfg(not(feature = "rest"))]
impl Door {
    pub fn open(config: &Configuration, _: bool) -> Result<Self> {
        // one that nobody asked for is not missed
        if wanted(config, false) {
            return Err(stillstream_types::Error::new(
                stillstream_types::ErrorKind::Configuration,
                "a REST interface is asked for, and this program was built without the cargo feature `rest` of `stillstream`: add \
                 it in its Cargo.toml, or leave the keys `rest.` and `stillstream.rest.` out",
            ));
        }
        Ok(Self())
    }

    pub fn closed() -> Self {
        Self()
    }

    pub fn address(&self) -> Option<SocketAddr> {
        None
    }

    pub fn admit(self, _: &JobClient) {}
}

#[cfg(feature = "rest")]
mod served {
    use std::fs;

    use stillstream_rest::{Ports, RestSettings, open};
    use stillstream_types::{Error, ErrorKind};

    use super::*;

    /// Holds the token, where neither key is set.
    const TOKEN: &str = "STILLSTREAM_REST_TOKEN";

    impl Door {
        /// # Errors
        /// Settings that cannot be, or that would let others on the network drive jobs; a port that was asked
        /// for and is taken.
        pub fn open(config: &Configuration, from_args: bool) -> Result<Self> {
            if !wanted(config, from_args) {
                return Ok(Self::closed());
            }
            let settings = settings(config)?;
            let unasked = !wanted(config, false);
            match open(&settings) {
                Ok(door) => Ok(Self(Some(door))),
                // a job is not to fail for want of something that nobody asked for
                Err(error) if unasked => {
                    tracing::warn!("the job has no REST interface: {error}");
                    Ok(Self::closed())
                }
                Err(error) => Err(error),
            }
        }

        pub fn closed() -> Self {
            Self(None)
        }

        pub fn address(&self) -> Option<SocketAddr> {
            self.0.as_ref().map(stillstream_rest::Door::address)
        }

        pub fn admit(self, job: &JobClient) {
            if let Some(door) = self.0 {
                door.admit(job);
            }
        }
    }

    fn settings(config: &Configuration) -> Result<RestSettings> {
        let ports = match config.get(o::REST_BIND_PORT) {
            Some(text) => Ports::parse(&text)?,
            // the key's range is that of ports
            None if config.is_set(o::REST_PORT) => Ports::one(config.get(o::REST_PORT) as u16),
            None => Ports::default(),
        };
        Ok(RestSettings {
            address: RestSettings::parse_address(&config.get(o::REST_BIND_ADDRESS))?,
            ports,
            token: token(config)?,
            host: config.get(o::REST_ADDRESS),
            keep_outcomes: config.get(o::REST_ASYNC_STORE_DURATION),
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the start-up shell: a secret is better in a variable than in a file"
    )]
    fn token(config: &Configuration) -> Result<Option<String>> {
        if let Some(token) = config.get(o::REST_TOKEN) {
            return Ok(Some(token));
        }
        let Some(file) = config.get(o::REST_TOKEN_FILE) else {
            return Ok(std::env::var(TOKEN).ok().filter(|token| !token.is_empty()));
        };
        let wrong = |what: String| {
            Error::new(ErrorKind::Configuration, format!("`stillstream.rest.token-file`, `{file}`: {what}"))
        };
        let text = fs::read_to_string(&file).map_err(|error| wrong(error.to_string()))?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.is_empty() {
            return Err(wrong("its first line is empty, and should be the token".into()));
        }
        Ok(Some(token.into()))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn read(text: &str) -> Configuration {
            Configuration::parse_yaml("c", text).unwrap()
        }

        #[test]
        fn a_job_has_a_rest_interface_if_its_starter_can_know_or_asks() {
            for (text, from_args, expected) in [
                ("{}", false, false),
                ("{}", true, true),
                ("rest.bind-port: 0", false, true),
                ("rest.port: 8082", false, true),
                ("stillstream.rest.enabled: true", false, true),
                ("{stillstream.rest.enabled: false, rest.port: 8082}", true, false),
            ] {
                assert_eq!(wanted(&read(text), from_args), expected, "{text}");
            }
        }

        #[test]
        fn the_keys_reach_the_settings() {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("token");
            fs::write(&file, "0123456789abcdef\nanother line\n").unwrap();
            let file = file.display();
            let config = read(&format!(
                "{{rest.bind-port: 50100-50200, rest.bind-address: 0.0.0.0, rest.address: box.example, \
                 rest.async.store-duration: 1 min, stillstream.rest.token-file: {file}}}"
            ));
            let settings = settings(&config).unwrap();
            assert_eq!(
                (settings.ports.first, settings.ports.last, settings.ports.chosen),
                (50100, 50200, true)
            );
            assert_eq!(settings.address.to_string(), "0.0.0.0");
            assert_eq!(settings.token.as_deref(), Some("0123456789abcdef"));
            assert_eq!(settings.host.as_deref(), Some("box.example"));
            assert_eq!(settings.keep_outcomes.as_secs(), 60);
            assert_eq!(super::settings(&read("rest.port: 9")).unwrap().ports, Ports::one(9));
            let missing =
                super::settings(&read("stillstream.rest.token-file: /no/such")).unwrap_err().to_string();
            assert!(missing.contains("token-file") && missing.contains("/no/such"), "{missing}");
        }
    }
}
