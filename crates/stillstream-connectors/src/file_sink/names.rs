//! Names of part files, in progress, pre-committed and committed, and of the folders that they wait in.
//!
//! Decisions after a crash are made by names alone, as no process knows what the others have written.

use stillstream_types::murmur::murmur3_128;
use stillstream_types::{JobId, OperatorId};

/// `<generation>-<subtask>-<number>`: who wrote a part, and which of its parts it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub generation: u64,
    pub subtask: u32,
    pub number: u64,
}

/// What the name of a file in the staging folder says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Staged {
    /// Being written: nobody else knows of it.
    InProgress(Part),
    /// Pre-committed for a checkpoint, or a later one.
    PreCommitted(Part, u64),
}

/// What the names of folders begin with in which parts wait for their commit.
pub(crate) const STAGING: &str = ".staging-";
/// What the names of folders begin with in which it is noted what was committed.
pub(crate) const COMMITTED: &str = ".committed-";

/// Tells the files of one sink of one job from those of all others that write to the same folder: 16
/// hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SinkTag(String);

impl SinkTag {
    /// `home`: where the job keeps its checkpoints. Two runs of one job that keep them in different places
    /// know nothing of each other, and take nothing of each other's for a left-over.
    pub fn new(job: JobId, operator: OperatorId, home: &str) -> Self {
        let hash = match home {
            "" => murmur3_128(format!("{job}/{operator}").as_bytes()),
            home => murmur3_128(format!("{job}/{operator}/{home}").as_bytes()),
        };
        Self(hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Where parts are written and wait for their commit.
    pub fn staging_folder(&self) -> String {
        format!("{STAGING}{}", self.0)
    }

    /// Where it is noted what was committed.
    pub fn committed_folder(&self) -> String {
        format!("{COMMITTED}{}", self.0)
    }

    /// What the names of this sink's parts begin with.
    fn part_prefix(&self) -> String {
        format!("part-{}-", &self.0[..8])
    }
}

impl Part {
    pub fn in_progress(self) -> String {
        format!("{}-{}-{}.inprogress", self.generation, self.subtask, self.number)
    }

    pub fn pre_committed(self, checkpoint: u64) -> String {
        format!("{}-{}-{}.chk-{checkpoint}", self.generation, self.subtask, self.number)
    }

    pub fn committed(self, tag: &SinkTag, extension: &str) -> String {
        let prefix = tag.part_prefix();
        format!("{prefix}{}-{}-{}.{extension}", self.subtask, self.generation, self.number)
    }

    /// The part that a committed file is, if it is one of this sink.
    pub fn of_committed(tag: &SinkTag, name: &str) -> Option<Part> {
        let numbers = name.strip_prefix(&tag.part_prefix())?.split('.').next()?;
        let [subtask, generation, number] = numbers.splitn(3, '-').collect::<Vec<_>>().try_into().ok()?;
        Some(Part {
            generation: generation.parse().ok()?,
            subtask: subtask.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

impl Staged {
    pub fn parse(name: &str) -> Option<Staged> {
        let (numbers, state) = name.split_once('.')?;
        let [generation, subtask, number] = numbers.splitn(3, '-').collect::<Vec<_>>().try_into().ok()?;
        let part = Part {
            generation: generation.parse().ok()?,
            subtask: subtask.parse().ok()?,
            number: number.parse().ok()?,
        };
        match state.strip_prefix("chk-") {
            Some(checkpoint) => Some(Staged::PreCommitted(part, checkpoint.parse().ok()?)),
            None => (state == "inprogress").then_some(Staged::InProgress(part)),
        }
    }

    pub fn part(self) -> Part {
        match self {
            Staged::InProgress(part) | Staged::PreCommitted(part, _) => part,
        }
    }

    /// Whether the file was left behind by an attempt that can't need it any more, seen by a writer that has
    /// just recovered from checkpoint `restored` (0: from none) and has not written yet.
    ///
    /// What was pre-committed for `restored` or before may still be committed by another subtask. What was
    /// pre-committed for a later checkpoint never will be: ids do not go back, and the job went back to
    /// before it.
    pub fn is_left_over(self, generation: u64, subtask: u32, restored: u64) -> bool {
        let part = self.part();
        let earlier = part.generation < generation;
        // a job without a register may be started again in the same generation
        let my_own = part.generation == generation && part.subtask == subtask;
        let needed = matches!(self, Staged::PreCommitted(_, checkpoint) if checkpoint <= restored);
        (earlier || my_own) && !needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Part = Part { generation: 3, subtask: 1, number: 7 };

    #[test]
    fn names_say_what_a_file_is() {
        assert_eq!(Staged::parse(&PART.in_progress()), Some(Staged::InProgress(PART)));
        assert_eq!(Staged::parse(&PART.pre_committed(12)), Some(Staged::PreCommitted(PART, 12)));
        let (job, operator) = (JobId::from_name("job"), OperatorId::from_uid("out"));
        let tag = SinkTag::new(job, operator, "/ck");
        assert_eq!(Part::of_committed(&tag, &PART.committed(&tag, "csv")), Some(PART));
        for other in [
            SinkTag::new(job, OperatorId::from_uid("other"), "/ck"),
            SinkTag::new(JobId::from_name("other"), operator, "/ck"),
            SinkTag::new(job, operator, "/other"),
            SinkTag::new(job, operator, ""),
        ] {
            assert_eq!(Part::of_committed(&other, &PART.committed(&tag, "csv")), None);
            assert_ne!(other.staging_folder(), tag.staging_folder());
        }
        for name in ["", "x", "1-2.inprogress", "1-2-3.txt", "1-2-3.chk-x", "notes.txt"] {
            assert_eq!(Staged::parse(name), None, "{name}");
        }
    }

    #[test]
    fn only_what_no_attempt_can_need_is_left_over() {
        let in_progress = Staged::InProgress(PART);
        assert!(in_progress.is_left_over(4, 0, 10), "of an earlier attempt");
        assert!(in_progress.is_left_over(3, 1, 10), "of my own, as I have not begun");
        assert!(!in_progress.is_left_over(3, 0, 10), "another subtask of my attempt may be writing it");
        assert!(!in_progress.is_left_over(2, 1, 10), "of a later attempt: I am the one who is outdated");
        assert!(!Staged::PreCommitted(PART, 10).is_left_over(4, 0, 10), "may not be committed yet");
        assert!(Staged::PreCommitted(PART, 11).is_left_over(4, 0, 10), "will never be committed");
        assert!(Staged::PreCommitted(PART, 1).is_left_over(4, 0, 0), "a fresh start needs nothing");
    }
}
