//! Whether a start of a job runs it: a job whose end is recorded does not run again unasked (Flink's job
//! result store).

use std::collections::BTreeSet;

use stillstream_types::{CheckpointId, CompletedRef, JobEnd, JobOutcome, RegisterRecord};

/// What a start does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartDecision {
    /// Runs the job: a new one, or one that has not reached its end.
    Run,
    /// Nothing but report: the job has finished, and all its output is committed. The end is `None` in the
    /// register of a release that did not write it.
    AlreadyFinished(Option<JobEnd>),
    /// Refuses: a person cancelled the job, and says how it is to go on.
    AlreadyCancelled {
        /// When, and what the run had come to.
        ended: Option<JobEnd>,
        /// The newest checkpoint that was kept for that person.
        retained: Option<CompletedRef>,
    },
    /// Refuses: a person stopped the job with a savepoint, and says how it is to go on.
    AlreadyStopped {
        /// When, and what the run had come to.
        ended: Option<JobEnd>,
        /// That savepoint; its path is the whole location.
        savepoint: Option<CompletedRef>,
    },
}

/// Decides what a start does that finds this record in the register. A start that is told to begin afresh
/// does not ask.
///
/// `names_snapshot`: the start says from which checkpoint the job is to go on. That is an answer to a cancel,
/// but it does not make a finished job run again: the same command line may be started again by a supervisor.
///
/// ```
/// use stillstream_jobmaster::{StartDecision, decide_start};
/// assert_eq!(decide_start(None, false), StartDecision::Run);
/// ```
pub fn decide_start(record: Option<&RegisterRecord>, names_snapshot: bool) -> StartDecision {
    let Some(record) = record else { return StartDecision::Run };
    match record.outcome {
        JobOutcome::Running | JobOutcome::Failed | JobOutcome::Suspended => StartDecision::Run,
        JobOutcome::Cancelled | JobOutcome::Stopped if names_snapshot => StartDecision::Run,
        JobOutcome::Finished => StartDecision::AlreadyFinished(record.ended.as_deref().cloned()),
        JobOutcome::Stopped => StartDecision::AlreadyStopped {
            ended: record.ended.as_deref().cloned(),
            savepoint: record.retained.last().cloned(),
        },
        JobOutcome::Cancelled => StartDecision::AlreadyCancelled {
            ended: record.ended.as_deref().cloned(),
            retained: record.retained.last().filter(|kept| is_where_it_ended(record, kept)).cloned(),
        },
    }
}

/// What a person can do when the newest checkpoint of a job cannot be read: which older ones its register
/// still names.
pub fn way_back(record: &RegisterRecord, newest: CheckpointId) -> String {
    let named = record.completed.iter().chain(&record.retained);
    let older: BTreeSet<CheckpointId> =
        named.filter(|known| known.id < newest && !known.is_savepoint()).map(|known| known.id).collect();
    match older.last() {
        Some(last) => {
            let all: Vec<String> = older.iter().map(ToString::to_string).collect();
            format!(
                "checkpoint {newest} is the newest of job `{}`; `--from-checkpoint {last}` falls back to an older one (there are {}), and \
                 output that was committed since may appear twice",
                record.job_name,
                all.join(", ")
            )
        }
        None => format!(
            "checkpoint {newest} is the newest of job `{}`, and no older one is kept (execution.checkpointing.num-retained); `--from` a \
             savepoint goes on from that, `--start-fresh` runs the job from the beginning",
            record.job_name
        ),
    }
}

/// Whether the run had come no further than this: what is kept of an older run, or a savepoint with which an
/// older one was stopped, knows nothing of what has been committed since.
fn is_where_it_ended(record: &RegisterRecord, kept: &CompletedRef) -> bool {
    let figures = record.ended.as_ref().map(|ended| &ended.figures);
    let reached = figures.and_then(|figures| figures.last_checkpoint.max(figures.resumed_from));
    reached.is_none_or(|reached| kept.id >= reached)
}

#[cfg(test)]
mod tests {
    use stillstream_types::{Generation, JobFigures, JobId};

    use super::*;

    fn record(outcome: JobOutcome) -> RegisterRecord {
        let kept = |id| CompletedRef { id: CheckpointId(id), path: format!("chk-{id}") };
        RegisterRecord {
            job: JobId::from_name("job"),
            job_name: "job".into(),
            generation: Generation(3),
            outcome,
            last_checkpoint_id: CheckpointId(9),
            completed: Vec::new(),
            retained: vec![kept(4), kept(7)],
            ended: Some(Box::new(JobEnd { at_ms: 5, ..JobEnd::default() })),
            began: None,
        }
    }

    #[test]
    fn a_job_that_runs_or_died_or_failed_goes_on() {
        for outcome in [JobOutcome::Running, JobOutcome::Failed] {
            for names_snapshot in [false, true] {
                assert_eq!(decide_start(Some(&record(outcome)), names_snapshot), StartDecision::Run);
            }
        }
    }

    #[test]
    fn a_finished_job_never_runs_again_unasked() {
        let end = Some(JobEnd { at_ms: 5, ..JobEnd::default() });
        for names_snapshot in [false, true] {
            let found = decide_start(Some(&record(JobOutcome::Finished)), names_snapshot);
            assert_eq!(found, StartDecision::AlreadyFinished(end.clone()));
        }
    }

    #[test]
    fn a_cancelled_job_runs_only_from_where_a_person_says_and_names_its_newest_retained_checkpoint() {
        let cancelled = record(JobOutcome::Cancelled);
        assert_eq!(decide_start(Some(&cancelled), true), StartDecision::Run);
        let StartDecision::AlreadyCancelled { retained, .. } = decide_start(Some(&cancelled), false) else {
            panic!("it runs again");
        };
        assert_eq!(retained.unwrap().path, "chk-7");
    }

    #[test]
    fn a_cancelled_job_does_not_name_a_savepoint_of_an_older_run_behind_which_more_was_committed() {
        for (last_checkpoint, resumed_from, named) in
            [(None, Some(7), true), (Some(8), Some(7), false), (None, Some(9), false), (None, None, true)]
        {
            let mut cancelled = record(JobOutcome::Cancelled);
            let of = |id: Option<u64>| id.map(CheckpointId);
            let (last_checkpoint, resumed_from) = (of(last_checkpoint), of(resumed_from));
            let figures = JobFigures { last_checkpoint, resumed_from, ..JobFigures::default() };
            cancelled.ended = Some(Box::new(JobEnd { at_ms: 5, figures }));
            let StartDecision::AlreadyCancelled { retained, .. } = decide_start(Some(&cancelled), false)
            else {
                panic!("it runs again");
            };
            assert_eq!(retained.is_some(), named, "{cancelled:?}");
        }
    }

    #[test]
    fn a_suspended_job_goes_on_and_a_stopped_one_only_from_where_a_person_says() {
        assert_eq!(decide_start(Some(&record(JobOutcome::Suspended)), false), StartDecision::Run);
        let stopped = record(JobOutcome::Stopped);
        assert_eq!(decide_start(Some(&stopped), true), StartDecision::Run);
        let StartDecision::AlreadyStopped { savepoint, .. } = decide_start(Some(&stopped), false) else {
            panic!("it runs again");
        };
        assert_eq!(savepoint.map(|savepoint| savepoint.id), Some(CheckpointId(7)));
    }
}
