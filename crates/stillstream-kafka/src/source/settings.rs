//! What enumerator and readers of a source are told.

use std::time::Duration;

use super::options::{Named, OffsetReset, OnBadRecord, StartOffsets, StopOffsets, Topics};
use super::{SourceError, options};
use crate::KafkaError;
use crate::client::Properties;
use crate::client::partition_reader::{self, PartitionReader};

/// Keys that are the source's own, by Flink's and Kafka's names.
const OWN_KEYS: [&str; 4] =
    ["auto.offset.reset", "commit.offsets.on.checkpoint", "group.id", "partition.discovery.interval.ms"];

/// Flink's default.
const DISCOVERY: Duration = Duration::from_secs(300);

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub properties: Properties,
    pub topics: Topics,
    pub start: StartOffsets,
    pub stop: Option<StopOffsets>,
    pub on_bad_record: OnBadRecord,
    /// `None`: as `auto.offset.reset` says.
    pub on_out_of_range: Option<OffsetReset>,
    /// `None`: as `partition.discovery.interval.ms` says.
    pub discovery: Option<Duration>,
}

impl Settings {
    pub(super) fn new(topics: Topics) -> Self {
        Self {
            properties: Properties::default(),
            topics,
            start: StartOffsets::default(),
            stop: None,
            on_bad_record: OnBadRecord::default(),
            on_out_of_range: None,
            discovery: None,
        }
    }

    /// Checks all that can be checked without a broker.
    pub(super) fn check(&self) -> Result<(), SourceError> {
        let keys: Vec<&str> = OWN_KEYS.iter().chain(PartitionReader::KEYS).copied().collect();
        self.properties.check(&keys)?;
        partition_reader::check(&self.properties)?;
        self.topics.check()?;
        self.discovery()?;
        self.on_out_of_range()?;
        self.commits_offsets()?;
        if matches!(self.start, StartOffsets::Committed { .. }) {
            self.group()?;
        }
        Ok(())
    }

    pub(super) fn committed_only(&self) -> Result<bool, KafkaError> {
        partition_reader::reads_committed_only(&self.properties)
    }

    pub(super) fn group(&self) -> Result<&str, KafkaError> {
        let group = self.properties.get("group.id").filter(|group| !group.is_empty());
        group.ok_or(KafkaError::Missing {
            property: "group.id",
            why: "the source is to begin with what a group has committed; name it with `.group_id(\"..\")`",
        })
    }

    /// The group whose offsets are committed at checkpoints, for whoever watches.
    pub(super) fn commits_offsets(&self) -> Result<Option<&str>, KafkaError> {
        let group = self.properties.get("group.id").filter(|group| !group.is_empty());
        match self.properties.get("commit.offsets.on.checkpoint") {
            None | Some("true") => Ok(group),
            Some("false") => Ok(None),
            Some(_) => Err(self.properties.wrong("commit.offsets.on.checkpoint", "true or false")),
        }
    }

    /// How often partitions are looked for; `None`: once.
    pub(super) fn discovery(&self) -> Result<Option<Duration>, KafkaError> {
        let said = match self.discovery {
            Some(interval) => Some(interval),
            None => self.properties.millis("partition.discovery.interval.ms")?,
        };
        Ok(Some(said.unwrap_or(DISCOVERY)).filter(|interval| !interval.is_zero() && self.stop.is_none()))
    }

    pub(super) fn on_out_of_range(&self) -> Result<OffsetReset, KafkaError> {
        if let Some(said) = self.on_out_of_range {
            return Ok(said);
        }
        match self.properties.get("auto.offset.reset").map(str::to_ascii_lowercase).as_deref() {
            None | Some("none") => Ok(OffsetReset::Fail),
            Some("earliest") => Ok(OffsetReset::Earliest),
            Some("latest") => Ok(OffsetReset::Latest),
            Some(_) => Err(self.properties.wrong("auto.offset.reset", "none, earliest or latest")),
        }
    }

    /// Those of `all` that are to be read.
    pub(super) fn matching(&self, all: Vec<String>) -> Vec<String> {
        match &self.topics.0 {
            options::Named::Pattern(Ok(pattern)) => {
                all.into_iter().filter(|name| pattern.matches(name)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The topics by name; `None` if there is a pattern.
    pub(super) fn named(&self) -> Option<&[String]> {
        match &self.topics.0 {
            Named::List(names) => Some(names),
            Named::Pattern(_) => None,
        }
    }
}

/// A regular expression for whole names of topics.
#[derive(Clone, Debug)]
pub(super) struct Pattern(regex::bytes::Regex);

impl Pattern {
    pub(super) fn new(pattern: &str) -> Result<Self, (String, String)> {
        let whole = format!("^(?:{pattern})$");
        // names of topics are ASCII
        let made = regex::bytes::RegexBuilder::new(&whole).unicode(false).build();
        made.map(Self).map_err(|error| (pattern.to_string(), error.to_string()))
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name.as_bytes())
    }
}
