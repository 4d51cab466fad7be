//! TLS and SASL, made of Kafka's own properties.

use krafka::auth::{AuthConfig, TlsConfig};

use super::Properties;
use crate::KafkaError;

/// What connections need beside the address; `None` for plain text without a login.
pub(super) fn of(properties: &Properties) -> Result<Option<AuthConfig>, KafkaError> {
    let protocol = properties.get("security.protocol").unwrap_or("PLAINTEXT").to_ascii_uppercase();
    match protocol.as_str() {
        "PLAINTEXT" => Ok(None),
        "SSL" => Ok(Some(AuthConfig::ssl(tls(properties)?))),
        "SASL_PLAINTEXT" => sasl(properties).map(Some),
        "SASL_SSL" => Ok(Some(sasl(properties)?.with_tls(tls(properties)?))),
        _ => Err(properties.wrong("security.protocol", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")),
    }
}

fn tls(properties: &Properties) -> Result<TlsConfig, KafkaError> {
    let mut tls = TlsConfig::new();
    if let Some(path) = properties.get("ssl.truststore.location").or(properties.get("ssl.ca.location")) {
        tls = tls.with_ca_cert(path);
    }
    if let Some(pem) = properties.get("ssl.truststore.certificates") {
        tls = tls.with_ca_cert_pem(pem);
    }
    match (properties.get("ssl.certificate.location"), properties.get("ssl.key.location")) {
        (Some(certificate), Some(key)) => tls = tls.with_client_cert(certificate, key),
        (None, None) => {}
        _ => {
            return Err(KafkaError::Missing {
                property: "ssl.certificate.location and ssl.key.location",
                why: "a client certificate needs its key, and a key its certificate",
            });
        }
    }
    if let (Some(chain), Some(key)) =
        (properties.get("ssl.keystore.certificate.chain"), properties.get("ssl.keystore.key"))
    {
        tls = tls.with_client_cert_pem(chain, key.as_bytes().to_vec());
    }
    Ok(tls)
}

fn sasl(properties: &Properties) -> Result<AuthConfig, KafkaError> {
    let mechanism = properties.get("sasl.mechanism").unwrap_or_default().to_ascii_uppercase();
    let login = || {
        let jaas = properties.get("sasl.jaas.config");
        let of = |own: &str, in_jaas: &str| {
            let own = properties.get(own).map(str::to_string);
            own.or_else(|| jaas.and_then(|jaas| jaas_option(jaas, in_jaas)))
        };
        match (of("sasl.username", "username"), of("sasl.password", "password")) {
            (Some(user), Some(password)) => Ok((user, password)),
            _ => Err(KafkaError::Missing {
                property: "sasl.username and sasl.password",
                why: "the mechanism of sasl.mechanism logs in with them (sasl.jaas.config with a username and a \
                      password will do too)",
            }),
        }
    };
    match mechanism.as_str() {
        "PLAIN" => login().map(|(user, password)| AuthConfig::sasl_plain(user, password)),
        "SCRAM-SHA-256" => login().map(|(user, password)| AuthConfig::sasl_scram_sha256(user, password)),
        "SCRAM-SHA-512" => login().map(|(user, password)| AuthConfig::sasl_scram_sha512(user, password)),
        _ => Err(properties.wrong("sasl.mechanism", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")),
    }
}

/// An option of a line as Java's clients write it: `...PlainLoginModule required username="u" password="p";`.
fn jaas_option(jaas: &str, name: &str) -> Option<String> {
    let mut rest = jaas;
    while let Some(at) = rest.find(name) {
        let before = rest.get(..at)?.chars().next_back();
        rest = rest.get(at + name.len()..)?;
        let Some(value) = rest.trim_start().strip_prefix('=') else { continue };
        if before.is_some_and(|c| !c.is_whitespace()) {
            continue;
        }
        let value = value.trim_start();
        let Some(quoted) = value.strip_prefix('"') else {
            return value.split([';', ' ']).next().map(str::to_string);
        };
        let mut text = String::new();
        let mut chars = quoted.chars();
        while let Some(c) = chars.next() {
            match c {
                '"' => return Some(text),
                '\\' => text.extend(chars.next()),
                c => text.push(c),
            }
        }
        return None;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_of_a_java_client_is_read() {
        let jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required\n  username=\"me\" \
                    password=\"a\\\"b;c\";";
        assert_eq!(jaas_option(jaas, "username").as_deref(), Some("me"));
        assert_eq!(jaas_option(jaas, "password").as_deref(), Some("a\"b;c"));
        assert_eq!(jaas_option("Module required user_username=x;", "username"), None);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let mut properties = Properties::new("localhost:9092");
        properties.set("security.protocol", "SASL_PLAINTEXT");
        let error = of(&properties).unwrap_err().to_string();
        assert!(error.contains("sasl.mechanism"), "{error}");
        properties.set("sasl.mechanism", "PLAIN");
        let error = of(&properties).unwrap_err().to_string();
        assert!(error.contains("sasl.username"), "{error}");
        properties.set("sasl.username", "me");
        properties.set("sasl.password", "secret");
        assert!(of(&properties).unwrap().is_some_and(|security| security.requires_sasl()));
        assert!(!format!("{properties:?}").contains("secret"));
    }
}
