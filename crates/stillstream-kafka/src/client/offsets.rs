//! What a cluster has: topics, partitions and offsets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use krafka::admin::{
    AlterConsumerGroupOffsetsOptions, DescribeTopicsOptions, ListConsumerGroupOffsetsOptions,
    ListOffsetsOptions, ListTopicsOptions, OffsetSpec,
};
use krafka::consumer::TopicPartition;
use krafka::error::{ErrorCode, KrafkaError};

use super::Cluster;
use crate::KafkaError;

/// How long a question to the cluster may take, tries included.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// How long it may take at first to describe topics. The client asks for a topic that does not exist until
/// the time is over.
const DESCRIBED_WITHIN: Duration = Duration::from_secs(3);

/// A partition of a topic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Partition {
    pub topic: String,
    pub number: u32,
}

impl Partition {
    pub(crate) fn new(topic: &str, number: u32) -> Self {
        Self { topic: topic.to_string(), number }
    }

    fn key(&self) -> TopicPartition {
        TopicPartition::new(self.topic.clone(), self.number as i32)
    }

    fn of(key: &TopicPartition) -> Self {
        Self::new(key.topic(), key.partition() as u32)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.number)
    }
}

/// A place in a partition that is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The first record that is there.
    Earliest,
    /// Behind the last record; for whoever reads committed records only, behind the last that is decided.
    Latest,
    /// The first record of this time (in milliseconds) or later.
    At(i64),
}

/// A topic as the cluster describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Topic {
    /// A topic that was deleted and made again has another one.
    pub id: [u8; 16],
    /// The numbers of its partitions.
    pub partitions: BTreeSet<u32>,
}

impl Cluster {
    /// The names of all topics but Kafka's own.
    pub(crate) async fn topic_names(&self) -> Result<Vec<String>, KafkaError> {
        let options = ListTopicsOptions::default().timeout(ANSWERED_WITHIN);
        self.kafka().admin().list_topics(options).await.map_err(|error| self.asking("for its topics", error))
    }

    /// Describes topics; one that does not exist is left out.
    pub(crate) async fn topics(&self, names: &[String]) -> Result<BTreeMap<String, Topic>, KafkaError> {
        match self.topics_within(names, DESCRIBED_WITHIN).await {
            Err(error) if error.may_pass() => self.topics_within(names, ANSWERED_WITHIN).await,
            answered => answered,
        }
    }

    async fn topics_within(
        &self,
        names: &[String],
        time: Duration,
    ) -> Result<BTreeMap<String, Topic>, KafkaError> {
        let options = DescribeTopicsOptions::default().timeout(time);
        let described = self.kafka().admin().describe_topics(names, options).await;
        let described = described.map_err(|error| self.asking("for the partitions of topics", error))?;
        let mut topics = BTreeMap::new();
        for (name, description) in described {
            match description {
                Ok(description) => {
                    let partitions = description.partitions.iter().map(|p| p.partition as u32).collect();
                    topics.insert(name, Topic { id: description.topic_id, partitions });
                }
                Err(KrafkaError::Broker { code: ErrorCode::UnknownTopicOrPartition, .. }) => {}
                Err(error) => return Err(self.asking(&format!("for the partitions of `{name}`"), error)),
            }
        }
        Ok(topics)
    }

    /// Looks up a place in each of these partitions. [`Place::At`] a time after the last record is the end.
    pub(crate) async fn offsets(
        &self,
        places: Vec<(Partition, Place)>,
        committed_only: bool,
    ) -> Result<BTreeMap<Partition, u64>, KafkaError> {
        let mut offsets = BTreeMap::new();
        let mut wanted = places;
        while !wanted.is_empty() {
            let places = wanted.iter().map(|(partition, place)| {
                let place = match place {
                    Place::Earliest => OffsetSpec::Earliest,
                    Place::Latest => OffsetSpec::Latest,
                    Place::At(time) => OffsetSpec::Timestamp(*time),
                };
                (partition.key(), place)
            });
            let options =
                ListOffsetsOptions::default().timeout(ANSWERED_WITHIN).read_committed(committed_only);
            let listed = self.kafka().admin().list_offsets(places, options).await;
            let listed = listed.map_err(|error| self.asking("for offsets", error))?;
            let mut again = Vec::new();
            for (partition, place) in wanted {
                match (listed.get(&partition.key()), place) {
                    (Some(Ok(found)), _) => {
                        offsets.insert(partition, found.offset.max(0) as u64);
                    }
                    // no record is that late
                    (
                        Some(Err(KrafkaError::Broker { code: ErrorCode::OffsetNotAvailable, .. })),
                        Place::At(_),
                    ) => {
                        again.push((partition, Place::Latest));
                    }
                    (Some(Err(error)), _) => {
                        return Err(self.asking(&format!("for an offset of {partition}"), error.clone()));
                    }
                    (None, _) => {
                        return Err(KafkaError::Asking {
                            brokers: self.brokers().to_string(),
                            what: format!("for an offset of {partition}"),
                            reason: "the answer leaves the partition out".to_string(),
                            may_pass: true,
                        });
                    }
                }
            }
            wanted = again;
        }
        Ok(offsets)
    }

    /// What a consumer group has committed; partitions without a commit are left out.
    pub(crate) async fn group_offsets(&self, group: &str) -> Result<BTreeMap<Partition, u64>, KafkaError> {
        let options = ListConsumerGroupOffsetsOptions::default().timeout(ANSWERED_WITHIN);
        let doing = || format!("for the offsets of group `{group}`");
        let found = self.kafka().admin().list_consumer_group_offsets(group, options).await;
        let mut offsets = BTreeMap::new();
        for (partition, offset) in found.map_err(|error| self.asking(&doing(), error))? {
            let offset = offset.map_err(|error| self.asking(&doing(), error))?;
            if let Some(offset) = offset.offset {
                offsets.insert(Partition::of(&partition), offset.max(0) as u64);
            }
        }
        Ok(offsets)
    }

    /// Commits offsets for a group that has no members.
    pub(crate) async fn commit_group_offsets(
        &self,
        group: &str,
        offsets: Vec<(Partition, u64)>,
    ) -> Result<(), KafkaError> {
        let offsets = offsets.iter().map(|(partition, offset)| (partition.key(), *offset as i64));
        let options = AlterConsumerGroupOffsetsOptions::default().timeout(ANSWERED_WITHIN);
        let doing = || format!("to commit the offsets of group `{group}`");
        let done = self.kafka().admin().alter_consumer_group_offsets(group, offsets, options).await;
        let done = done.map_err(|error| self.asking(&doing(), error))?;
        let failed = done.into_values().find_map(Result::err);
        failed.map_or(Ok(()), |error| Err(self.asking(&doing(), error)))
    }

    /// That the cluster could not be asked for something.
    fn asking(&self, what: &str, error: KrafkaError) -> KafkaError {
        KafkaError::asking(self.brokers(), what, &error)
    }
}
