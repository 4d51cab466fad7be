//! Encrypted listeners, and listeners with a login.

use stillstream_kafka::source::{KafkaSource, StopOffsets};
use stillstream_runtime::connect::SplitSource;
use stillstream_services::Kafka;

use super::open;
use crate::records::write;

fn login(source: KafkaSource<String>, mechanism: &str, password: &str) -> KafkaSource<String> {
    source
        .property("sasl.mechanism", mechanism)
        .property("sasl.username", Kafka::USER)
        .property("sasl.password", password)
}

fn source(address: &str, protocol: &str) -> KafkaSource<String> {
    let source = KafkaSource::from_topic("access").brokers(address).property("security.protocol", protocol);
    source.text().stop(StopOffsets::Latest)
}

#[test]
fn a_source_reads_by_tls_and_sasl_and_says_when_it_is_not_let_in() {
    let kafka = Kafka::shared();
    kafka.create_topic("access", 1).unwrap();
    write(kafka.bootstrap(), "access", 0, ["a"]);
    let trusted = |source: KafkaSource<String>| {
        source.property("ssl.truststore.location", kafka.certificate().to_str().unwrap())
    };
    let password = Kafka::PASSWORD;
    for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
        let by_sasl = login(source(kafka.sasl(), "SASL_PLAINTEXT"), mechanism, password);
        assert_eq!(open(by_sasl).rest().unwrap(), ["a"], "{mechanism}");
        let wrong = login(source(kafka.sasl(), "SASL_PLAINTEXT"), mechanism, "guessed");
        let error = wrong.validate().unwrap_err().to_string();
        assert!(error.contains(kafka.sasl()) && error.to_lowercase().contains("auth"), "{error}");
        assert!(!error.contains("guessed"), "{error}");
    }
    assert_eq!(open(trusted(source(kafka.tls(), "SSL"))).rest().unwrap(), ["a"]);
    let both = login(trusted(source(kafka.sasl_tls(), "SASL_SSL")), "PLAIN", password);
    assert_eq!(open(both).rest().unwrap(), ["a"]);
    // a certificate that nobody vouches for
    let error = source(kafka.tls(), "SSL").validate().unwrap_err().to_string();
    assert!(error.contains(kafka.tls()) && error.to_lowercase().contains("certificate"), "{error}");
}
