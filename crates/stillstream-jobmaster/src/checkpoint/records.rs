//! The records that the coordinator writes into the register. Each is computed from the one that is durable.

use stillstream_types::{
    CheckpointId, CompletedRef, ExternalizedCheckpointRetention as Retention, Generation, JobEnd, JobFigures,
    JobId, JobOutcome, RegisterRecord,
};

use super::ids::CheckpointIds;
use crate::checkpoint::completed;

/// Which job it is.
#[derive(Clone, Debug)]
pub(super) struct JobIdentity {
    id: JobId,
    name: String,
}

impl JobIdentity {
    pub(super) fn new(id: JobId, name: String) -> Self {
        Self { id, name }
    }

    pub(super) fn id(&self) -> JobId {
        self.id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The record of a job that has none.
    fn record(&self, generation: Generation, outcome: JobOutcome, last: CheckpointId) -> RegisterRecord {
        RegisterRecord {
            job: self.id,
            job_name: self.name.clone(),
            generation,
            outcome,
            last_checkpoint_id: last,
            completed: Vec::new(),
            retained: Vec::new(),
            ended: None,
            began: None,
        }
    }

    /// The record of a claim: one generation higher, or under the process's own one if no attempt has used
    /// it, with fresh ids behind everything that was ever reserved.
    pub(super) fn claim(
        &self,
        durable: Option<&RegisterRecord>,
        unused: Option<Generation>,
        ids: &CheckpointIds,
    ) -> RegisterRecord {
        let Some(mut record) = durable.cloned() else {
            return self.record(Generation(1), JobOutcome::Running, ids.last_to_reserve());
        };
        if unused != Some(record.generation) {
            record.generation = Generation(record.generation.0 + 1);
        }
        record.last_checkpoint_id = record.last_checkpoint_id.max(ids.last_to_reserve());
        if matches!(record.outcome, JobOutcome::Finished | JobOutcome::Cancelled | JobOutcome::Stopped) {
            // a new run begins afresh; what the last one left belongs to a person
            record.retained.append(&mut record.completed);
        }
        (record.outcome, record.ended) = (JobOutcome::Running, None);
        record
    }

    /// The record of a job that ended, by the retention policy.
    pub(super) fn end(
        &self,
        durable: Option<&RegisterRecord>,
        outcome: JobOutcome,
        at_ms: i64,
        mut figures: JobFigures,
        retention: Retention,
    ) -> RegisterRecord {
        let mut record = match durable {
            Some(record) => record.clone(),
            None => self.record(Generation(0), outcome, CheckpointId(0)),
        };
        record.outcome = outcome;
        // it may be that of an earlier process
        let newest = completed::latest(&record.completed).map(|newest| newest.id);
        figures.last_checkpoint = figures.last_checkpoint.max(newest);
        record.ended = Some(Box::new(JobEnd { at_ms, figures }));
        match outcome {
            // a later start resumes from them
            JobOutcome::Failed | JobOutcome::Running | JobOutcome::Suspended => {}
            JobOutcome::Cancelled if retention == Retention::RetainOnCancellation => {
                record.retained.append(&mut record.completed);
            }
            // the savepoint of a stop has everything, and nobody is to take an older checkpoint for the
            // newest
            JobOutcome::Stopped | JobOutcome::Cancelled => {
                let completed = std::mem::take(&mut record.completed);
                record.retained.extend(completed.into_iter().filter(CompletedRef::is_savepoint));
            }
            JobOutcome::Finished => record.completed.clear(),
        }
        record
    }
}

/// The durable record with more ids reserved.
pub(super) fn reserve(durable: Option<&RegisterRecord>, ids: &CheckpointIds) -> Option<RegisterRecord> {
    let mut record = durable?.clone();
    record.last_checkpoint_id = record.last_checkpoint_id.max(ids.last_to_reserve());
    Some(record)
}

/// The durable record with one more checkpoint; `None` if a later one has completed, so that this one would
/// be dropped at once.
pub(super) fn complete(
    durable: Option<&RegisterRecord>,
    ids: &CheckpointIds,
    new: CompletedRef,
    num_retained: usize,
) -> Option<RegisterRecord> {
    let mut record = reserve(durable, ids)?;
    record.completed = completed::add(&record.completed, new, num_retained)?;
    Some(record)
}
