//! Whether the topics of a reader are still there, and whether the cluster answers at all.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{KafkaSplit, SourceError};
use crate::KafkaError;
use crate::client::offsets::Topic;
use crate::client::{Cluster, block_on, spawn};

/// How often to look.
const INTERVAL: Duration = Duration::from_secs(10);

/// An answer that takes longer is missed, and said so.
const SLOW: Duration = Duration::from_secs(5);

type Found = BTreeMap<String, Topic>;

/// Looks at the topics now and then, beside the fetches: the client keeps trying by itself, whatever is
/// wrong, and tells nobody.
#[derive(Debug)]
pub(super) struct Watch {
    asked: Duration,
    answer: Option<JoinHandle<Result<Found, KafkaError>>>,
    /// Since when no answer has come.
    silent: Option<Duration>,
    said: bool,
    /// A partition was missing the last time.
    missed: bool,
}

impl Watch {
    pub(super) fn new(now: Duration) -> Self {
        Self { asked: now, answer: None, silent: None, said: false, missed: false }
    }

    /// Looks if it is time. `true`: the cluster answers again after it did not.
    pub(super) fn look<'a>(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        names: impl Fn() -> Vec<String>,
        splits: impl Iterator<Item = &'a KafkaSplit>,
        source: &str,
    ) -> Result<bool, SourceError> {
        let waits = now.saturating_sub(self.asked);
        let Some(answer) = self.answer.take_if(|answer| answer.is_finished()) else {
            if self.answer.is_none() && (waits >= INTERVAL || self.silent.is_some() && waits >= SLOW / 5) {
                self.asked = now;
                let (cluster, names) = (cluster.clone(), names());
                self.answer = Some(spawn(async move { cluster.topics(&names).await })?);
            } else if self.answer.is_some() && waits >= SLOW {
                self.is_silent(self.asked, source, cluster, "it does not answer");
            }
            return Ok(false);
        };
        let found = match block_on(answer)? {
            Ok(Ok(found)) => found,
            Ok(Err(error)) if error.may_pass() => {
                self.is_silent(self.asked, source, cluster, &error.to_string());
                return Ok(false);
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(KafkaError::Panicked.into()),
        };
        let back = self.silent.take();
        if let Some(since) = back.filter(|_| self.said) {
            let away = now.saturating_sub(since).as_secs();
            tracing::info!("`{source}`: Kafka at {} answers again after {away} s", cluster.brokers());
        }
        self.said = false;
        let mistake = splits.filter_map(|split| Self::mistake(split, &found, cluster.brokers())).next();
        match mistake {
            // what a broker has just begun to know may be missing once
            Some(SourceError::Gone { .. }) if !self.missed => {
                self.missed = true;
                self.asked = now.saturating_sub(INTERVAL - Duration::from_secs(1));
            }
            Some(mistake) => return Err(mistake),
            None => self.missed = false,
        }
        Ok(back.is_some())
    }

    fn is_silent(&mut self, since: Duration, source: &str, cluster: &Cluster, reason: &str) {
        self.silent.get_or_insert(since);
        if !self.said {
            self.said = true;
            tracing::warn!("`{source}` waits for Kafka at {}: {reason}", cluster.brokers());
        }
    }

    /// What is wrong with a split, going by what the cluster says of its topic.
    pub(super) fn mistake(split: &KafkaSplit, found: &Found, brokers: &str) -> Option<SourceError> {
        let (partition, brokers, next) = (split.key().to_string(), brokers.to_string(), split.next);
        let topic = found.get(&split.topic).filter(|topic| topic.partitions.contains(&split.partition));
        let Some(topic) = topic else { return Some(SourceError::Gone { partition, brokers, next }) };
        // a broker that knows no ids says zero
        let known = [topic.id, split.topic_id].iter().all(|id| *id != [0; 16]);
        (known && topic.id != split.topic_id).then(|| SourceError::Replaced {
            topic: split.topic.clone(),
            partition,
            brokers,
            next,
        })
    }
}
