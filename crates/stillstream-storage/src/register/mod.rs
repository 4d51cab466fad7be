//! The register: one small record per job that says which checkpoints are complete and who may write.
//!
//! It is changed by compare-and-set alone. Two forms exist:
//!
//! - [`NumberedRegister`] where a store can only create if absent (a disk): each version is a file of its
//!   own.
//! - [`TaggedRegister`] where a store can replace on condition of an ETag (an object store): one object.

pub mod numbered;
pub mod tagged;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message;
use stillstream_types::{
    CheckpointId, CompletedRef, Generation, JobEnd, JobFigures, JobId, JobOutcome, JobStart, OperatorId,
    RegisterRecord, SnapshotIdentity, StartedFrom,
};

pub use numbered::NumberedRegister;
pub use tagged::TaggedRegister;

use crate::error::{CasError, StorageError};
use crate::frame::Frame;
use crate::metadata::Reader;
use crate::proto;
use crate::store::Tag;

const FRAME: Frame = Frame { magic: b"STILLREG", version: 1 };

/// The folder of the register within the job's directory.
pub const REGISTER_DIR: &str = "register";

/// Identifies one content of the register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// Counts the changes from 1.
    pub number: u64,
    pub(crate) tag: Option<Tag>,
    /// Who wrote it, where neither tag nor number tells it from the same version of another register.
    pub(crate) write: Option<WriteId>,
}

impl Version {
    pub(crate) fn tagged(number: u64, tag: Tag) -> Self {
        Self { number, tag: Some(tag), write: None }
    }

    pub(crate) fn numbered(number: u64, write: Option<WriteId>) -> Self {
        Self { number, tag: None, write }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// The register as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// The newest record that is whole.
    pub record: RegisterRecord,
    /// What a compare-and-set must expect.
    pub version: Version,
    /// Newer versions that were passed over because they are damaged; empty but for lost or altered bytes on
    /// the disk.
    pub damaged: Vec<String>,
    /// The tag of whoever wrote the record.
    pub writer: u64,
}

/// The register of one job.
///
/// Invariants: versions only grow; of two compare-and-sets that expect the same version at most one succeeds;
/// what succeeded is durable and is what every later `load` finds, or a successor of it.
pub trait Register: Send + Sync + fmt::Debug {
    /// Where it is, for people.
    fn display(&self) -> String;

    /// The newest whole record; `None` if there never was one.
    ///
    /// # Errors
    /// [`StorageError::RegisterUnreadable`] if there is a register and none of its versions is whole.
    fn load(&self) -> Result<Option<Loaded>, StorageError>;

    /// The newest version, whether its record is whole or not.
    fn head(&self) -> Result<Option<Version>, StorageError>;

    /// Makes durable what a load may find: a write whose outcome is not known may be visible and not durable
    /// yet.
    fn sync(&self) -> Result<(), StorageError>;

    /// Writes `new` if the register is still at `expected` (`None`: if there is no register).
    ///
    /// # Errors
    /// [`CasError::Conflict`]: somebody else was first, surely nothing was written.
    /// [`CasError::Indeterminate`]: it may have been written; load again. [`CasError::Storage`]: surely
    /// nothing was written.
    fn compare_and_set(&self, expected: Option<&Version>, new: &RegisterRecord) -> Result<Version, CasError>;
}

/// Tells one write from every other write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriteId {
    writer: u64,
    write: u64,
}

impl WriteId {
    fn next(writer: u64) -> Self {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        Self { writer, write: WRITES.fetch_add(1, Ordering::Relaxed) }
    }
}

fn encode(record: &RegisterRecord, version: u64, write: WriteId) -> Vec<u8> {
    let completed = |c: &CompletedRef| proto::Completed { id: c.id.0, path: c.path.clone() };
    let body = proto::Register {
        job: record.job.0.to_vec(),
        job_name: record.job_name.clone(),
        generation: record.generation.0,
        outcome: match record.outcome {
            JobOutcome::Running => 1,
            JobOutcome::Finished => 2,
            JobOutcome::Cancelled => 3,
            JobOutcome::Failed => 4,
            JobOutcome::Suspended => 5,
            JobOutcome::Stopped => 6,
        },
        last_checkpoint_id: record.last_checkpoint_id.0,
        completed: record.completed.iter().map(completed).collect(),
        retained: record.retained.iter().map(completed).collect(),
        version,
        writer: write.writer,
        write: write.write,
        ended: record.ended.as_deref().map(ended_out),
        began: record.began.as_deref().map(began_out),
    };
    FRAME.wrap(&body.encode_to_vec())
}

fn ended_out(end: &JobEnd) -> proto::Ended {
    let figures = &end.figures;
    proto::Ended {
        at_ms: end.at_ms,
        records_in: figures.records_in,
        records_out: figures.records_out,
        duration_ms: figures.duration_ms,
        restarts: figures.restarts,
        resumed_from: figures.resumed_from.map(|id| id.0),
        checkpoints_completed: figures.checkpoints_completed,
        checkpoints_failed: figures.checkpoints_failed,
        last_checkpoint: figures.last_checkpoint.map(|id| id.0),
        last_checkpoint_bytes: figures.last_checkpoint_bytes,
        slowest_checkpoint_ms: figures.slowest_checkpoint_ms,
        counters: figures.counters.clone(),
    }
}

fn ended_in(end: proto::Ended) -> JobEnd {
    JobEnd {
        at_ms: end.at_ms,
        figures: JobFigures {
            records_in: end.records_in,
            records_out: end.records_out,
            duration_ms: end.duration_ms,
            restarts: end.restarts,
            resumed_from: end.resumed_from.map(CheckpointId),
            checkpoints_completed: end.checkpoints_completed,
            checkpoints_failed: end.checkpoints_failed,
            last_checkpoint: end.last_checkpoint.map(CheckpointId),
            last_checkpoint_bytes: end.last_checkpoint_bytes,
            slowest_checkpoint_ms: end.slowest_checkpoint_ms,
            counters: end.counters,
        },
    }
}

fn began_out(began: &JobStart) -> proto::Began {
    let from = |from: &StartedFrom| proto::StartedFrom {
        location: from.location.clone(),
        job: from.snapshot.job.0.to_vec(),
        checkpoint: from.snapshot.checkpoint.0,
        generation: from.snapshot.generation.0,
        triggered_at_ms: from.snapshot.triggered_at_ms,
        claimed: from.claimed,
    };
    proto::Began {
        from: began.from.as_ref().map(from),
        fell_back_to: began.fell_back_to.map(|id| id.0),
        left_behind: began.left_behind.iter().map(|id| id.0.to_vec()).collect(),
        dropped_fields: began.dropped_fields.clone(),
    }
}

fn began_in(began: proto::Began, reader: &Reader<'_>) -> Result<JobStart, StorageError> {
    let from = |from: proto::StartedFrom| -> Result<StartedFrom, StorageError> {
        let snapshot = SnapshotIdentity {
            job: JobId(reader.id16(&from.job)?),
            checkpoint: CheckpointId(from.checkpoint),
            generation: Generation(from.generation),
            triggered_at_ms: from.triggered_at_ms,
        };
        Ok(StartedFrom { location: from.location, snapshot, claimed: from.claimed })
    };
    let left_behind = began.left_behind.iter().map(|id| Ok(OperatorId(reader.id16(id)?)));
    Ok(JobStart {
        from: began.from.map(from).transpose()?,
        fell_back_to: began.fell_back_to.map(CheckpointId),
        left_behind: left_behind.collect::<Result<_, StorageError>>()?,
        dropped_fields: began.dropped_fields,
    })
}

fn decode(path: &str, bytes: &[u8]) -> Result<(RegisterRecord, u64, WriteId), StorageError> {
    let (_version, body) = FRAME.unwrap(path, bytes)?;
    let body = proto::Register::decode(body.as_slice())
        .map_err(|error| StorageError::corrupt(path, "content", "a register record", error))?;
    let reader = Reader { path };
    let refs = |list: Vec<proto::Completed>| {
        list.into_iter().map(|c| CompletedRef { id: CheckpointId(c.id), path: c.path }).collect()
    };
    let record = RegisterRecord {
        job: JobId(reader.id16(&body.job)?),
        job_name: body.job_name,
        generation: Generation(body.generation),
        outcome: match body.outcome {
            1 => JobOutcome::Running,
            2 => JobOutcome::Finished,
            3 => JobOutcome::Cancelled,
            4 => JobOutcome::Failed,
            5 => JobOutcome::Suspended,
            6 => JobOutcome::Stopped,
            other => return Err(reader.bad("outcome of the job", "1 to 4", other)),
        },
        last_checkpoint_id: CheckpointId(body.last_checkpoint_id),
        completed: refs(body.completed),
        retained: refs(body.retained),
        ended: body.ended.map(|end| Box::new(ended_in(end))),
        began: body.began.map(|began| began_in(began, &reader)).transpose()?.map(Box::new),
    };
    Ok((record, body.version, WriteId { writer: body.writer, write: body.write }))
}
