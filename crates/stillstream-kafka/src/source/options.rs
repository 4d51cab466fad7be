//! Where a source begins and ends, and what it does about what does not fit.

use stillstream_types::Timestamp;

use super::SourceError;
use super::settings::Pattern;

/// Where each partition begins at a fresh start. It is resolved to a number when the job starts, and the
/// number is kept in checkpoints, of partitions without records too: a restored job goes on exactly there.
/// After Flink's `OffsetsInitializer`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StartOffsets {
    /// With the first record that is there.
    #[default]
    Earliest,
    /// With what comes after the start.
    Latest,
    /// With the first record whose timestamp is this or later; where none is, with what comes after the
    /// start.
    Timestamp(Timestamp),
    /// With these offsets: topic, partition, offset. A partition that is not named begins with its first
    /// record.
    Offsets(Vec<(String, u32, u64)>),
    /// With what the group of `group.id` has committed.
    Committed {
        /// Where a partition begins for which nothing is committed.
        otherwise: OffsetReset,
    },
}

/// Where each partition ends. It is resolved to a number when the job starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StopOffsets {
    /// At what is its end when the job starts.
    Latest,
    /// Before the first record whose timestamp is this or later; where none is, at the end as of the start.
    Timestamp(Timestamp),
    /// Before these offsets: topic, partition, offset. A partition that is not named ends at what is its end
    /// when the job starts.
    Offsets(Vec<(String, u32, u64)>),
}

/// What is done where an offset is missing: where to begin, or where to go on when the records from which to
/// go on are not there any more. Kafka's `auto.offset.reset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OffsetReset {
    /// The job fails, with an error that names the partition and the offsets (`none`).
    #[default]
    Fail,
    /// Goes on with the first record that is there (`earliest`).
    Earliest,
    /// Goes on with what comes next (`latest`).
    Latest,
}

/// What happens to records that the deserializer refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnBadRecord {
    /// The job fails, with an error that names topic, partition and offset.
    #[default]
    Fail,
    /// They are left out, and counted as `<source>.malformed` in the job's figures.
    SkipAndCount,
    /// They are the source's side output, as [`DeadLetter`](super::DeadLetter)s, and counted.
    DeadLetter,
}

/// Which topics a source reads: `"in"`, `["a", "b"]`, a `Vec` of names, or a [pattern](Self::pattern).
#[derive(Clone, Debug)]
pub struct Topics(pub(super) Named);

#[derive(Clone, Debug)]
pub(super) enum Named {
    List(Vec<String>),
    Pattern(Result<Pattern, (String, String)>),
}

impl Topics {
    /// All topics whose whole name matches this regular expression, also those that come later. Kafka's own
    /// topics do not count.
    pub fn pattern(pattern: &str) -> Self {
        Self(Named::Pattern(Pattern::new(pattern)))
    }

    pub(super) fn check(&self) -> Result<(), SourceError> {
        match &self.0 {
            Named::List(names) if names.is_empty() => Err(SourceError::NoTopics),
            Named::Pattern(Err((pattern, reason))) => {
                Err(SourceError::Pattern { pattern: pattern.clone(), reason: reason.clone() })
            }
            _ => Ok(()),
        }
    }
}

impl From<&str> for Topics {
    fn from(name: &str) -> Self {
        Self(Named::List(vec![name.to_string()]))
    }
}

impl From<String> for Topics {
    fn from(name: String) -> Self {
        Self(Named::List(vec![name]))
    }
}

impl From<Vec<String>> for Topics {
    fn from(names: Vec<String>) -> Self {
        Self(Named::List(names))
    }
}

impl<const N: usize> From<[&str; N]> for Topics {
    fn from(names: [&str; N]) -> Self {
        Self(Named::List(names.map(str::to_string).to_vec()))
    }
}
