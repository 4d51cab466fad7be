//! Finds the partitions of a source, and the numbers where they begin and end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::connect::{Assignments, SplitEnumerator};
use stillstream_state::Data;
use stillstream_types::Result;

use super::options::{OffsetReset, StartOffsets, StopOffsets};
use super::settings::Settings;
use super::{KafkaSplit, SourceError};
use crate::client::offsets::{Partition, Place, Topic};
use crate::client::{Cluster, wait_for};

/// When a look that failed is tried again while the job runs.
const AGAIN: Duration = Duration::from_secs(5);

/// A partition that was assigned.
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub(super) struct Known {
    topic: String,
    partition: u32,
}

/// Its state is which partitions it has assigned; where they are is the readers'. It forgets none: one that
/// the cluster does not list for a while is the same when it is back.
pub(super) struct KafkaEnumerator {
    settings: Settings,
    name: Arc<str>,
    cluster: Option<Cluster>,
    /// Whether the partitions of the start have been found.
    begun: bool,
    known: Vec<Known>,
}

impl KafkaEnumerator {
    pub(super) fn new(settings: Settings, name: &Arc<str>) -> Self {
        Self { settings, name: name.clone(), cluster: None, begun: false, known: Vec::new() }
    }

    fn connected(&mut self) -> Result<Cluster, SourceError> {
        if let Some(cluster) = &self.cluster {
            return Ok(cluster.clone());
        }
        let cluster = connect(&self.settings)?;
        self.cluster = Some(cluster.clone());
        Ok(cluster)
    }

    /// The splits that are new.
    pub(super) fn look(&mut self) -> Result<Vec<KafkaSplit>, SourceError> {
        let cluster = self.connected()?;
        let topics = topics(&cluster, &self.settings, !self.begun)?;
        let found = topics.iter().flat_map(|(name, topic)| {
            topic.partitions.iter().map(move |number| (Partition::new(name, *number), topic.id))
        });
        let new: Vec<(Partition, [u8; 16])> = found.filter(|(partition, _)| !self.knows(partition)).collect();
        let partitions: Vec<Partition> = new.iter().map(|(partition, _)| partition.clone()).collect();
        let begin = match self.begun {
            false => begin(&cluster, &self.settings, &partitions)?,
            // found later: all of it came after the start
            true => lookup(&cluster, &self.settings, &partitions, |_| Place::Earliest)?,
        };
        let end = end(&cluster, &self.settings, &partitions)?;
        let split = |(partition, topic_id): (Partition, [u8; 16])| KafkaSplit {
            next: begin.get(&partition).copied().unwrap_or(0),
            stop: end.as_ref().map(|end| end.get(&partition).copied().unwrap_or(0)),
            topic: partition.topic,
            topic_id,
            partition: partition.number,
        };
        Ok(new.into_iter().map(split).collect())
    }

    fn knows(&self, partition: &Partition) -> bool {
        self.known.iter().any(|known| known.topic == partition.topic && known.partition == partition.number)
    }
}

impl SplitEnumerator for KafkaEnumerator {
    type Split = KafkaSplit;
    type State = Vec<Known>;

    fn restore(&mut self, state: Option<Vec<Known>>, held: Vec<KafkaSplit>) -> Result<()> {
        let of_held =
            || held.into_iter().map(|split| Known { topic: split.topic, partition: split.partition });
        self.known = state.unwrap_or_else(|| of_held().collect());
        self.begun = true;
        Ok(())
    }

    fn discover(&mut self, assignments: &mut Assignments<KafkaSplit>) -> Result<Option<Duration>> {
        let again = self.settings.discovery().map_err(|error| SourceError::from(error).into_error())?;
        // what was restored is all that there is
        if !(self.begun && again.is_none()) {
            match self.look() {
                Ok(splits) => {
                    for split in splits {
                        tracing::info!("`{}` reads {} from offset {} on", self.name, split.key(), split.next);
                        self.known.push(Known { topic: split.topic.clone(), partition: split.partition });
                        if !split.is_done() {
                            assignments.assign(split);
                        }
                    }
                    self.begun = true;
                }
                Err(error) if self.begun && error.may_pass() => {
                    tracing::warn!("`{}` cannot look for new partitions now: {error}", self.name);
                    self.cluster = None;
                    return Ok(Some(AGAIN));
                }
                Err(error) => return Err(error.into_error()),
            }
        }
        if self.settings.stop.is_some() {
            assignments.no_more();
        }
        Ok(again)
    }

    fn state(&self) -> Vec<Known> {
        self.known.clone()
    }
}

fn connect(settings: &Settings) -> Result<Cluster, SourceError> {
    let properties = settings.properties.clone();
    Ok(wait_for(async move { Cluster::connect(&properties).await })?)
}

/// Whether the topics are there: before a job starts.
pub(super) fn look_at_topics(settings: &Settings) -> Result<(), SourceError> {
    let cluster = connect(settings)?;
    topics(&cluster, settings, true).map(drop)
}

/// The topics to read. With `all` one that is missing is an error; later its reader will say so.
fn topics(cluster: &Cluster, settings: &Settings, all: bool) -> Result<BTreeMap<String, Topic>, SourceError> {
    let names = match settings.named() {
        Some(names) => names.to_vec(),
        None => {
            let cluster = cluster.clone();
            settings.matching(wait_for(async move { cluster.topic_names().await })?)
        }
    };
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (asked, of) = (names.clone(), cluster.clone());
    let found = wait_for(async move { of.topics(&asked).await })?;
    match names.into_iter().find(|name| !found.contains_key(name)) {
        Some(topic) if all && settings.named().is_some() => {
            Err(SourceError::NoTopic { topic, brokers: cluster.brokers().to_string() })
        }
        _ => Ok(found),
    }
}

type Offsets = BTreeMap<Partition, u64>;

fn lookup(
    cluster: &Cluster,
    settings: &Settings,
    partitions: &[Partition],
    place: impl Fn(&Partition) -> Place,
) -> Result<Offsets, SourceError> {
    if partitions.is_empty() {
        return Ok(Offsets::new());
    }
    let places = partitions.iter().map(|partition| (partition.clone(), place(partition))).collect();
    let (cluster, committed_only) = (cluster.clone(), settings.committed_only()?);
    Ok(wait_for(async move { cluster.offsets(places, committed_only).await })?)
}

/// Where each partition begins at a fresh start.
fn begin(cluster: &Cluster, settings: &Settings, partitions: &[Partition]) -> Result<Offsets, SourceError> {
    let (given, otherwise) = match &settings.start {
        StartOffsets::Earliest => (Offsets::new(), Place::Earliest),
        StartOffsets::Latest => (Offsets::new(), Place::Latest),
        StartOffsets::Timestamp(time) => (Offsets::new(), Place::At(time.as_millis())),
        StartOffsets::Offsets(offsets) => (given(cluster, offsets, partitions)?, Place::Earliest),
        StartOffsets::Committed { otherwise } => {
            let (asked, group) = (cluster.clone(), settings.group()?.to_string());
            let committed = wait_for({
                let group = group.clone();
                async move { asked.group_offsets(&group).await }
            })?;
            let missing = partitions.iter().find(|partition| !committed.contains_key(*partition));
            let place = match (otherwise, missing) {
                (OffsetReset::Fail, Some(partition)) => {
                    return Err(SourceError::NotCommitted { group, partition: partition.to_string() });
                }
                (OffsetReset::Latest, _) => Place::Latest,
                (OffsetReset::Fail | OffsetReset::Earliest, _) => Place::Earliest,
            };
            (committed, place)
        }
    };
    complete(cluster, settings, partitions, given, otherwise)
}

/// Where each partition ends, if the source does.
fn end(
    cluster: &Cluster,
    settings: &Settings,
    partitions: &[Partition],
) -> Result<Option<Offsets>, SourceError> {
    let (given, otherwise) = match &settings.stop {
        None => return Ok(None),
        Some(StopOffsets::Latest) => (Offsets::new(), Place::Latest),
        Some(StopOffsets::Timestamp(time)) => (Offsets::new(), Place::At(time.as_millis())),
        Some(StopOffsets::Offsets(offsets)) => (given(cluster, offsets, partitions)?, Place::Latest),
    };
    complete(cluster, settings, partitions, given, otherwise).map(Some)
}

/// Looks up what was not given.
fn complete(
    cluster: &Cluster,
    settings: &Settings,
    partitions: &[Partition],
    given: Offsets,
    otherwise: Place,
) -> Result<Offsets, SourceError> {
    let rest: Vec<Partition> =
        partitions.iter().filter(|partition| !given.contains_key(*partition)).cloned().collect();
    let mut all = lookup(cluster, settings, &rest, |_| otherwise)?;
    all.extend(given);
    Ok(all)
}

/// Offsets that the program gives; each must be of a partition that is there.
fn given(
    cluster: &Cluster,
    offsets: &[(String, u32, u64)],
    partitions: &[Partition],
) -> Result<Offsets, SourceError> {
    let given = offsets.iter().map(|(topic, number, offset)| (Partition::new(topic, *number), *offset));
    let given: Offsets = given.collect();
    match given.keys().find(|partition| !partitions.contains(partition)) {
        None => Ok(given),
        Some(partition) => Err(SourceError::NoPartition {
            partition: partition.to_string(),
            brokers: cluster.brokers().to_string(),
        }),
    }
}
