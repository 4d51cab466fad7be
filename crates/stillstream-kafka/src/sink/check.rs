//! What is looked at before a job with a Kafka sink starts.

use std::time::Duration;

use stillstream_runtime::connect::JobOutline;

use super::connection::Connection;
use super::{Delivery, KafkaSink};
use crate::KafkaError;
use crate::client::{PRODUCER_KEYS, wait_for};

/// The longest prefix: Kafka's ids may be longer, but people read them.
const MAX_PREFIX: usize = 200;

impl<T> KafkaSink<T> {
    /// Checks the settings, that the cluster is there, and that it has the topic.
    pub(super) fn check(&self, job: Option<&JobOutline>) -> Result<(), KafkaError> {
        let properties = self.connection.properties();
        properties.check(PRODUCER_KEYS)?;
        if self.encoder.encode.is_none() {
            return Err(KafkaError::Setting {
                setting: "the serializer of a `KafkaSink`",
                found: "missing".into(),
                expected: "say with `json`, `value` or `record` what is written".into(),
            });
        }
        let exactly_once = self.delivery == Delivery::ExactlyOnce;
        if exactly_once {
            self.check_for_transactions()?;
        }
        let (connection, topic) = (self.connection.clone(), self.encoder.topic.clone());
        let job = job.filter(|_| exactly_once).cloned();
        wait_for(async move {
            connection.get().await?.check_topic(&topic).await?;
            match job {
                Some(job) => check_timeout(&connection, &job).await,
                None => Ok(()),
            }
        })
    }

    fn check_for_transactions(&self) -> Result<(), KafkaError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let prefix = &self.prefix;
        if prefix.is_empty() || prefix.len() > MAX_PREFIX || !prefix.chars().all(plain) {
            return Err(KafkaError::Setting {
                setting: "the transactional_id_prefix of a `KafkaSink`",
                found: format!("`{prefix}`"),
                expected: format!("1 to {MAX_PREFIX} letters, digits, `.`, `-` and `_` are expected"),
            });
        }
        let properties = self.connection.properties();
        for (key, expected) in [("acks", ["all", "-1"]), ("enable.idempotence", ["true", "true"])] {
            if properties.get(key).is_some_and(|value| !expected.contains(&value)) {
                return Err(properties.wrong(key, "`all` and an idempotent producer: transactions need both"));
            }
        }
        Ok(())
    }
}

/// That a transaction can be open for as long as its checkpoint may take.
async fn check_timeout(connection: &Connection, job: &JobOutline) -> Result<(), KafkaError> {
    let timeout = connection.transaction_timeout().await?;
    let allowed = connection.get().await?.max_transaction_timeout().await?;
    if allowed.is_none() {
        tracing::warn!(
            "the brokers do not tell their transaction.max.timeout.ms; a transaction.timeout.ms above it would be refused \
             when the first record is written"
        );
    }
    fits(timeout, allowed, job)
}

fn fits(timeout: Duration, allowed: Option<Duration>, job: &JobOutline) -> Result<(), KafkaError> {
    if let Some(allowed) = allowed.filter(|allowed| timeout > *allowed) {
        let (timeout_ms, max_ms) = (timeout.as_millis(), allowed.as_millis());
        return Err(KafkaError::TimeoutTooLong { timeout_ms, max_ms });
    }
    // without checkpoints the job is one transaction, and nobody knows how long it takes
    let Some(interval) = job.checkpoint_interval else { return Ok(()) };
    let needed = interval + job.checkpoint_timeout;
    if timeout >= needed {
        return Ok(());
    }
    let next = match allowed {
        Some(allowed) if allowed < needed => format!(
            "raise transaction.max.timeout.ms of the brokers ({} ms) and transaction.timeout.ms of the sink, or let \
             checkpoints have less time",
            allowed.as_millis()
        ),
        _ => "raise transaction.timeout.ms of the sink, or let checkpoints have less time".to_string(),
    };
    Err(KafkaError::TimeoutTooShort {
        timeout_ms: timeout.as_millis(),
        needed_ms: needed.as_millis(),
        interval_ms: interval.as_millis(),
        checkpoint_ms: job.checkpoint_timeout.as_millis(),
        next,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_that_cannot_work_is_refused_with_both_numbers() {
        let job = JobOutline {
            name: "copy".into(),
            checkpoint_interval: Some(Duration::from_secs(5)),
            checkpoint_timeout: Duration::from_secs(600),
        };
        let minutes = |n: u64| Duration::from_secs(60 * n);
        fits(minutes(15), Some(minutes(15)), &job).unwrap();
        let error = fits(minutes(60), Some(minutes(15)), &job).unwrap_err().to_string();
        assert!(error.contains("3600000 ms") && error.contains("900000 ms"), "{error}");
        let error = fits(minutes(5), Some(minutes(15)), &job).unwrap_err().to_string();
        assert!(error.contains("300000 ms") && error.contains("605000 ms"), "{error}");
        let error = fits(minutes(5), Some(minutes(5)), &job).unwrap_err().to_string();
        assert!(error.contains("of the brokers (300000 ms)"), "{error}");
        fits(minutes(1), None, &JobOutline { checkpoint_interval: None, ..job }).unwrap();
    }
}
