//! [`Properties`]: Kafka's own keys, as they are written in a `client.properties`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::KafkaError;

/// Keys that every client takes.
const COMMON: &[&str] = &[
    "bootstrap.servers",
    "client.id",
    "metadata.max.age.ms",
    "request.timeout.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
];

/// Keys of a client, by the names that Kafka's documentation has for them.
///
/// TLS and SASL: `security.protocol` (`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT`, `SASL_SSL`), `sasl.mechanism`
/// (`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`) with `sasl.username` and `sasl.password` or a
/// `sasl.jaas.config`; `ssl.truststore.location`, `ssl.certificate.location` and `ssl.key.location` name PEM
/// files. Without a truststore the roots of the web are trusted.
///
/// ```
/// use stillstream_kafka::client::Properties;
/// let mut properties = Properties::new("broker-1:9092,broker-2:9092");
/// properties.set("security.protocol", "SASL_PLAINTEXT");
/// properties.set("sasl.password", "hunter2");
/// assert!(!format!("{properties:?}").contains("hunter2"), "secrets are not shown");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().map(|(key, value)| (key, if is_secret(key) { "***" } else { value }));
        f.debug_map().entries(shown).finish()
    }
}

fn is_secret(key: &str) -> bool {
    key.contains("password") || key.contains("jaas") || key == "ssl.keystore.key"
}

impl Properties {
    /// The addresses to begin with, separated by commas: `bootstrap.servers`.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self(BTreeMap::from([("bootstrap.servers".to_string(), brokers.into())]))
    }

    /// Sets a key; a later call for the same key wins.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|value| value.trim())
    }

    /// Refuses keys that are neither common nor in `own`, with the one that was probably meant.
    pub(crate) fn check(&self, own: &[&str]) -> Result<(), KafkaError> {
        let known = || COMMON.iter().chain(own).copied();
        match self.0.keys().find(|key| !known().any(|known| known == key.as_str())) {
            None => self.brokers().map(drop),
            Some(key) => {
                let mut known: Vec<&str> = known().collect();
                known.sort_unstable();
                Err(KafkaError::UnknownProperty { key: key.clone(), known: known.join(", ") })
            }
        }
    }

    pub(crate) fn brokers(&self) -> Result<&str, KafkaError> {
        self.get("bootstrap.servers").filter(|brokers| !brokers.is_empty()).ok_or(KafkaError::Missing {
            property: "bootstrap.servers",
            why: "name at least one broker, as `.brokers(\"host:9092\")`",
        })
    }

    /// A key whose value is a number of milliseconds.
    pub(crate) fn millis(&self, key: &'static str) -> Result<Option<Duration>, KafkaError> {
        Ok(self.number(key)?.map(Duration::from_millis))
    }

    /// A key whose value is a whole number.
    pub(crate) fn number(&self, key: &'static str) -> Result<Option<u64>, KafkaError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| self.wrong(key, "a whole number"))
    }

    /// That the value of `key` is none that it can have.
    pub(crate) fn wrong(&self, key: &'static str, expected: &'static str) -> KafkaError {
        let found = match self.get(key) {
            Some(_) if is_secret(key) => "***".to_string(),
            Some(found) => format!("`{found}`"),
            None => "not set".to_string(),
        };
        KafkaError::Property { key, found, expected }
    }

    pub(crate) fn request_timeout(&self) -> Result<Duration, KafkaError> {
        Ok(self.millis("request.timeout.ms")?.unwrap_or(Duration::from_secs(30)))
    }

    /// Never longer than a request may take: its time covers the connection.
    pub(crate) fn connect_timeout(&self) -> Result<Duration, KafkaError> {
        let own = self.millis("socket.connection.setup.timeout.ms")?.unwrap_or(Duration::from_secs(10));
        Ok(own.min(self.request_timeout()?))
    }

    pub(crate) fn metadata_max_age(&self) -> Result<Duration, KafkaError> {
        Ok(self.millis("metadata.max.age.ms")?.unwrap_or(Duration::from_secs(300)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_nobody_knows_is_refused_with_those_that_are_known() {
        let mut properties = Properties::new("localhost:9092");
        properties.check(&[]).unwrap();
        properties.set("linger.ms", "5");
        properties.check(&["linger.ms"]).unwrap();
        let error = properties.check(&[]).unwrap_err().to_string();
        assert!(error.contains("`linger.ms`") && error.contains("request.timeout.ms"), "{error}");
        properties.set("request.timeout.ms", "soon");
        let error = properties.request_timeout().unwrap_err().to_string();
        assert!(error.contains("`soon`") && error.contains("request.timeout.ms"), "{error}");
    }
}
