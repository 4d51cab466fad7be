//! A job engine driven by hand, with storage that answers at once, or not at all.

use std::time::Duration;

use stillstream_types::{
    CheckpointId, Error, ErrorKind, Generation, JobId, JobOutcome, RegisterRecord, Result, SubtaskId,
    SubtaskIndex, TaskSnapshot, VertexId,
};

use super::engine::{JobCommand, JobEngine, JobEvent, JobSetup, Level, RestoreFrom};
use super::restart::RestartStrategyConfig;
use super::status::JobStatus;
use crate::checkpoint::config::CheckpointConfig;
use crate::checkpoint::event::RequestId;
use crate::checkpoint::failure::FailureReason;
use crate::checkpoint::storage::{References, RegisterOutcome, StorageAnswer, StorageCall, WriteOutcome};
use crate::message::{AckMetrics, Control, Report};
use crate::moment::Moment;
use crate::plan::TaskInfo;

const SECOND: Duration = Duration::from_secs(1);
const SOURCE: SubtaskId = SubtaskId { vertex: VertexId(0), index: SubtaskIndex(0) };
const SINK: SubtaskId = SubtaskId { vertex: VertexId(1), index: SubtaskIndex(0) };

/// What storage does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Storage {
    Answers,
    /// Writes of the register fail, and surely so.
    RefusesTheRegister,
    Silent,
}

struct Bench {
    engine: JobEngine,
    now: Duration,
    storage: Storage,
    register: Option<RegisterRecord>,
    /// Commands that are not carried out here.
    seen: Vec<JobCommand>,
    ended: Option<Result<()>>,
}

impl Bench {
    fn new(interval: Option<Duration>, attempts: u32) -> Self {
        let task = |id: SubtaskId, name: &str| TaskInfo {
            id,
            name: name.into(),
            operators: Vec::new(),
            is_source: id == SOURCE,
        };
        let setup = JobSetup {
            job: JobId::from_name("job"),
            name: "job".into(),
            checkpoint: CheckpointConfig { interval, ..CheckpointConfig::default() },
            restart: RestartStrategyConfig::FixedDelay { attempts, delay: SECOND },
            tasks: vec![task(SOURCE, "flights"), task(SINK, "out")],
            workers: 1,
            from_snapshot: None,
            place: "memory".into(),
            durable: true,
            register: None,
            first_delay: 1.0,
            cancellation_timeout: SECOND * 30,
            end_timeout: SECOND * 60,
        };
        Self {
            engine: JobEngine::new(setup, Duration::ZERO).unwrap(),
            now: Duration::ZERO,
            storage: Storage::Answers,
            register: None,
            seen: Vec::new(),
            ended: None,
        }
    }

    /// A job with checkpoints and two restarts, whose first attempt runs.
    fn running() -> Self {
        let mut bench = Self::new(Some(SECOND * 10), 2);
        bench.on(JobEvent::Submitted);
        bench.open();
        bench
    }

    fn on(&mut self, event: JobEvent) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let at = Moment { now: self.now, wall_ms: self.now.as_millis() as i64, random: 0.5 };
            let commands = self.engine.handle(event, at);
            // answers come in the order of the calls
            let mut answers = Vec::new();
            for command in commands {
                answers.extend(self.carry_out(command));
            }
            events.extend(answers.into_iter().rev());
        }
    }

    fn carry_out(&mut self, command: JobCommand) -> Option<JobEvent> {
        match command {
            JobCommand::Storage(call) => return self.answer(call).map(JobEvent::Storage),
            JobCommand::ReadSnapshot { generation, from: RestoreFrom::Nothing }
                if self.storage == Storage::Answers =>
            {
                return Some(JobEvent::Restored { generation, result: Ok(None) });
            }
            JobCommand::End(result) => {
                assert!(self.ended.is_none(), "a second end: {result:?}");
                self.ended = Some(result);
            }
            other => self.seen.push(other),
        }
        None
    }

    fn answer(&mut self, call: StorageCall) -> Option<StorageAnswer> {
        if self.storage == Storage::Silent {
            return None;
        }
        Some(match call {
            StorageCall::UpdateRegister { .. } if self.storage == Storage::RefusesTheRegister => {
                let outcome = RegisterOutcome::Failed("no space".into());
                StorageAnswer::RegisterUpdated { outcome }
            }
            StorageCall::UpdateRegister { expected, record } => {
                assert_eq!(self.register, expected);
                self.register = Some(record);
                StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written }
            }
            StorageCall::ReadRegister => StorageAnswer::RegisterRead { result: Ok(self.register.clone()) },
            StorageCall::ListDirectories => StorageAnswer::DirectoriesListed { names: Vec::new() },
            StorageCall::ReadReferences { completed, .. } => {
                let found = completed.into_iter().map(|checkpoint| (checkpoint.id, Vec::new())).collect();
                StorageAnswer::ReferencesRead { references: References { found, ..References::default() } }
            }
            StorageCall::ListShared => StorageAnswer::SharedListed { result: Ok(Vec::new()) },
            StorageCall::WriteMetadata { metadata, .. } => {
                StorageAnswer::MetadataWritten { checkpoint: metadata.id, outcome: WriteOutcome::Written }
            }
            StorageCall::Discard { discard, .. } => StorageAnswer::DiscardDone { discard, failure: None },
        })
    }

    fn report(&mut self, report: Report) {
        let generation = self.engine.generation();
        self.on(JobEvent::Report(generation, report));
    }

    /// All tasks open.
    fn open(&mut self) {
        assert!(self.saw(|command| matches!(command, JobCommand::Deploy(_))));
        self.report(Report::Running(SOURCE));
        self.report(Report::Running(SINK));
        assert_eq!(self.engine.status(), JobStatus::Running);
    }

    fn fails(&mut self, kind: ErrorKind) {
        self.report(Report::Failed { subtask: Some(SINK), error: Error::new(kind, "it broke") });
    }

    fn stops(&mut self, drained: bool) {
        self.report(Report::Stopped { worker: 0, drained });
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.on(JobEvent::Tick);
    }

    /// The input ends, and the final checkpoint 1 completes.
    fn up_to_commit(&mut self) {
        self.report(Report::Ended(SOURCE));
        self.report(Report::Ended(SINK));
        for subtask in [SOURCE, SINK] {
            let (checkpoint, snapshot, metrics) =
                (CheckpointId(1), TaskSnapshot::default(), AckMetrics::default());
            self.report(Report::Acknowledged { checkpoint, subtask, snapshot, metrics });
        }
        assert!(self.told(Control::Complete { id: CheckpointId(1) }));
    }

    fn commit(&mut self) {
        for subtask in [SOURCE, SINK] {
            self.report(Report::Committed { checkpoint: CheckpointId(1), subtask });
        }
    }

    /// Whether there was such a command since this was last asked.
    fn saw(&mut self, what: impl Fn(&JobCommand) -> bool) -> bool {
        std::mem::take(&mut self.seen).iter().any(what)
    }

    fn told(&mut self, wanted: Control) -> bool {
        self.saw(|command| matches!(command, JobCommand::Tell { control, .. } if *control == wanted))
    }

    fn outcome(&self) -> Option<JobOutcome> {
        self.register.as_ref().map(|record| record.outcome)
    }

    fn error(&self) -> String {
        match &self.ended {
            Some(Err(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_job_runs_to_its_end_and_finishes_when_its_commits_are_recorded_and_its_dataflow_has_drained() {
    let mut bench = Bench::running();
    bench.up_to_commit();
    bench.commit();
    assert_eq!(bench.outcome(), Some(JobOutcome::Finished));
    assert!(bench.told(Control::Finish));
    assert!(bench.ended.is_none());
    bench.stops(true);
    assert!(matches!(bench.ended, Some(Ok(()))));
    assert_eq!(bench.engine.status(), JobStatus::Finished);
}

#[test]
fn without_checkpoints_a_job_drains_when_its_input_is_through_and_may_take_its_time() {
    let mut bench = Bench::new(None, 0);
    bench.on(JobEvent::Submitted);
    bench.open();
    bench.report(Report::Ended(SOURCE));
    assert!(!bench.told(Control::Finish), "a window may still emit");
    bench.report(Report::Ended(SINK));
    assert!(bench.told(Control::Finish));
    bench.wait(SECOND * 100_000);
    assert!(bench.ended.is_none());
    bench.stops(true);
    assert!(matches!(bench.ended, Some(Ok(()))));
}

#[test]
fn a_failed_attempt_stops_and_another_one_begins_after_the_pause_until_the_restarts_are_used_up() {
    let mut bench = Bench::running();
    for restart in 1..=2 {
        bench.fails(ErrorKind::User);
        assert!(bench.told(Control::Stop));
        bench.stops(false);
        assert_eq!((bench.engine.status(), bench.engine.restarts()), (JobStatus::Restarting, restart));
        bench.wait(SECOND / 2);
        assert!(!bench.saw(|command| matches!(command, JobCommand::Deploy(_))));
        bench.wait(SECOND / 2);
        assert_eq!(bench.engine.generation(), Generation(1 + restart));
        bench.open();
    }
    bench.fails(ErrorKind::User);
    bench.stops(false);
    let error = bench.error();
    assert!(error.contains("`out` subtask 0: it broke") && error.contains("is not restarted"), "{error}");
    assert_eq!(bench.outcome(), Some(JobOutcome::Failed));
}

#[test]
fn an_error_that_a_restart_cannot_mend_ends_the_job() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::CorruptSnapshot);
    bench.stops(false);
    assert!(bench.error().contains("it broke"));
    assert_eq!((bench.outcome(), bench.engine.restarts()), (Some(JobOutcome::Failed), 0));
}

#[test]
fn a_worse_error_that_comes_while_the_attempt_stops_counts_and_one_that_is_no_worse_does_not() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::User);
    bench.fails(ErrorKind::CorruptSnapshot);
    bench.fails(ErrorKind::User);
    bench.stops(false);
    assert!(matches!(&bench.ended, Some(Err(error)) if error.kind() == ErrorKind::CorruptSnapshot));
}

#[test]
fn a_cancel_ends_the_job_in_each_phase() {
    type Step = fn(&mut Bench);
    let phases: [(&str, Step); 4] = [
        ("deploying", |bench| bench.on(JobEvent::Submitted)),
        ("running", |bench| {
            bench.on(JobEvent::Submitted);
            bench.open();
        }),
        ("stopping after a failure", |bench| {
            bench.on(JobEvent::Submitted);
            bench.open();
            bench.fails(ErrorKind::User);
        }),
        ("waiting to restart", |bench| {
            bench.on(JobEvent::Submitted);
            bench.open();
            bench.fails(ErrorKind::User);
            bench.stops(false);
        }),
    ];
    for (name, up_to) in phases {
        let mut bench = Bench::new(Some(SECOND * 10), 2);
        up_to(&mut bench);
        bench.on(JobEvent::Cancel);
        bench.stops(false);
        assert!(bench.error().contains("was cancelled"), "{name}: {:?}", bench.ended);
        assert_eq!(
            (bench.outcome(), bench.engine.status()),
            (Some(JobOutcome::Cancelled), JobStatus::Canceled),
            "{name}"
        );
    }
}

#[test]
fn a_cancel_while_the_register_is_being_claimed_is_recorded_behind_the_claim() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.storage = Storage::Silent;
    bench.on(JobEvent::Submitted);
    bench.on(JobEvent::Cancel);
    let written = || JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written });
    bench.on(written());
    assert!(
        bench.ended.is_none() && !bench.saw(|command| matches!(command, JobCommand::ReadSnapshot { .. }))
    );
    bench.on(written());
    assert!(bench.error().contains("was cancelled"));
}

#[test]
fn a_cancel_or_a_failure_that_comes_after_everything_is_committed_leaves_the_job_finished() {
    for late in [JobEvent::Cancel, failed(ErrorKind::User)] {
        let mut bench = Bench::running();
        bench.up_to_commit();
        bench.commit();
        bench.on(late);
        bench.stops(false);
        assert!(matches!(bench.ended, Some(Ok(()))), "{:?}", bench.ended);
        assert_eq!(bench.outcome(), Some(JobOutcome::Finished));
    }
}

#[test]
fn a_cancel_while_the_end_is_being_recorded_leaves_the_job_finished() {
    let mut bench = Bench::running();
    bench.up_to_commit();
    bench.storage = Storage::Silent;
    bench.commit();
    bench.on(JobEvent::Cancel);
    assert!(bench.told(Control::Stop));
    bench.on(JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written }));
    assert!(bench.ended.is_none(), "its workers have not stopped");
    bench.stops(false);
    assert!(matches!(bench.ended, Some(Ok(()))), "{:?}", bench.ended);
}

#[test]
fn an_attempt_that_dies_while_the_end_is_being_recorded_is_not_followed_by_another() {
    let mut bench = Bench::running();
    bench.up_to_commit();
    bench.storage = Storage::Silent;
    bench.commit();
    bench.fails(ErrorKind::Peer);
    bench.stops(false);
    assert!(bench.ended.is_none());
    bench.wait(SECOND * 10);
    assert!(!bench.saw(|command| matches!(command, JobCommand::Deploy(_) | JobCommand::Restarting { .. })));
    bench.on(JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written }));
    assert!(matches!(bench.ended, Some(Ok(()))), "{:?}", bench.ended);
}

#[test]
fn an_end_that_cannot_be_recorded_comes_in_its_time_all_the_same_and_says_so() {
    for storage in [Storage::Silent, Storage::RefusesTheRegister] {
        let mut bench = Bench::running();
        bench.storage = storage;
        bench.on(JobEvent::Cancel);
        bench.stops(false);
        for _ in 0..59 {
            bench.wait(SECOND);
        }
        assert!(bench.ended.is_none());
        bench.wait(SECOND);
        let error = bench.error();
        assert!(error.contains("could not be recorded within 60s") && error.contains("in memory"), "{error}");
        assert_eq!(bench.engine.status(), JobStatus::Canceled);
    }
}

#[test]
fn a_finish_that_cannot_be_recorded_stops_the_workers_and_says_that_all_output_is_committed() {
    let mut bench = Bench::running();
    bench.up_to_commit();
    bench.storage = Storage::RefusesTheRegister;
    bench.commit();
    for _ in 0..60 {
        bench.wait(SECOND);
    }
    assert!(bench.told(Control::Stop) && bench.ended.is_none());
    bench.stops(false);
    let error = bench.error();
    assert!(error.contains("all output is committed, but"), "{error}");
}

#[test]
fn workers_that_do_not_stop_are_named_after_half_the_time_and_replaced_after_all_of_it() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::User);
    bench.wait(SECOND * 15);
    let named = |command: &JobCommand| matches!(command, JobCommand::StillStopping { workers, after: Some(_) } if *workers == [0]);
    assert!(bench.saw(named));
    bench.wait(SECOND * 14);
    assert!(bench.seen.is_empty(), "{:?}", bench.seen);
    bench.wait(SECOND);
    assert!(bench.saw(|command| matches!(command, JobCommand::Replace { workers } if *workers == [0])));
    bench.on(JobEvent::Replaced { workers: vec![0] });
    assert_eq!(bench.engine.status(), JobStatus::Restarting);
}

#[test]
fn a_worker_that_cannot_be_replaced_ends_the_job_as_it_was_to_end() {
    for (cancel, outcome) in [(true, JobOutcome::Cancelled), (false, JobOutcome::Failed)] {
        let mut bench = Bench::running();
        match cancel {
            true => bench.on(JobEvent::Cancel),
            false => bench.fails(ErrorKind::User),
        }
        bench.wait(SECOND * 30);
        bench.on(JobEvent::NotReplaced { error: Error::new(ErrorKind::Peer, "a thread cannot be ended") });
        assert!(
            matches!(&bench.ended, Some(Err(error)) if error.kind() == ErrorKind::Timeout),
            "{:?}",
            bench.ended
        );
        assert_eq!(bench.outcome(), Some(outcome));
    }
}

#[test]
fn a_dataflow_that_does_not_drain_is_left_and_the_job_has_finished() {
    let mut bench = Bench::running();
    bench.up_to_commit();
    bench.commit();
    bench.wait(SECOND * 30);
    assert!(bench.saw(|command| matches!(command, JobCommand::Replace { .. })));
    bench.on(JobEvent::NotReplaced { error: Error::new(ErrorKind::Peer, "a thread cannot be ended") });
    assert!(matches!(bench.ended, Some(Ok(()))));
}

#[test]
fn a_worker_that_stops_unasked_fails_the_attempt() {
    let mut bench = Bench::running();
    bench.stops(false);
    assert_eq!(bench.engine.status(), JobStatus::Restarting);
    let why = |command: &JobCommand| matches!(command, JobCommand::Restarting { error, .. } if error.to_string().contains("worker 0 stopped by itself"));
    assert!(bench.saw(why));
}

#[test]
fn an_attempt_that_cannot_be_started_has_failed_like_any_other() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.on(JobEvent::Submitted);
    let (generation, error) = (Generation(1), Error::new(ErrorKind::Peer, "no process can be started"));
    bench.on(JobEvent::NotDeployed { generation, error });
    assert_eq!(bench.engine.status(), JobStatus::Restarting);
    bench.wait(SECOND);
    bench.open();
}

#[test]
fn a_snapshot_that_is_not_read_in_its_time_fails_the_attempt_and_comes_too_late() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.storage = Storage::Silent;
    bench.on(JobEvent::Submitted);
    bench.on(JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written }));
    bench.wait(SECOND * 600);
    assert_eq!(bench.engine.status(), JobStatus::Restarting);
    bench.on(JobEvent::Restored { generation: Generation(1), result: Ok(None) });
    assert!(!bench.saw(|command| matches!(command, JobCommand::Deploy(_))));
}

/// Seed 46 of the simulation found this: the late answer deployed an attempt under the old generation while a new one was being
/// claimed, and its job ran for ever without a checkpoint and without an end.
#[test]
fn a_snapshot_that_comes_while_the_next_attempt_is_being_claimed_starts_nothing() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.storage = Storage::Silent;
    let written = || JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written });
    let restored = |generation| JobEvent::Restored { generation: Generation(generation), result: Ok(None) };
    bench.on(JobEvent::Submitted);
    bench.on(written());
    bench.wait(SECOND * 600);
    bench.wait(SECOND);
    bench.on(restored(1));
    assert!(!bench.saw(|command| matches!(command, JobCommand::Deploy(_))));
    bench.on(written());
    bench.on(restored(2));
    bench.open();
    assert_eq!(bench.engine.generation(), Generation(2));
}

#[test]
fn what_an_attempt_that_has_gone_says_changes_nothing() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::User);
    bench.stops(false);
    bench.wait(SECOND);
    bench.open();
    let old = |report| JobEvent::Report(Generation(1), report);
    bench.on(old(Report::Stopped { worker: 0, drained: false }));
    bench.on(old(Report::Failed { subtask: None, error: Error::msg("late") }));
    bench.on(old(Report::Ended(SOURCE)));
    assert_eq!((bench.engine.status(), bench.engine.restarts()), (JobStatus::Running, 1));
}

#[test]
fn a_failure_between_two_attempts_is_only_said() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::User);
    bench.stops(false);
    bench.saw(|_| true);
    bench.fails(ErrorKind::Peer);
    assert!(
        bench.saw(
            |command| matches!(command, JobCommand::Log(Level::Warn, text) if text.contains("no attempt"))
        )
    );
    assert_eq!(bench.engine.status(), JobStatus::Restarting);
}

#[test]
fn a_job_that_another_process_took_over_stops_its_workers_and_writes_nothing() {
    let mut bench = Bench::running();
    bench.storage = Storage::Silent;
    bench.on(JobEvent::TriggerCheckpoint(RequestId(1)));
    bench.up_to_metadata();
    let outcome = RegisterOutcome::Fenced(Generation(9));
    bench.on(JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome }));
    assert!(bench.told(Control::Stop));
    bench.stops(false);
    let error = bench.error();
    assert!(error.contains("another process runs job `job` now (generation 9, this one is 1)"), "{error}");
    assert_eq!(bench.outcome(), Some(JobOutcome::Running));
}

#[test]
fn a_request_for_a_checkpoint_is_refused_where_none_are_taken() {
    let mut bench = Bench::new(None, 0);
    bench.on(JobEvent::Submitted);
    bench.on(JobEvent::TriggerCheckpoint(RequestId(3)));
    let refused = |command: &JobCommand| {
        matches!(command, JobCommand::Reply { request: RequestId(3), result: Err(failure) }
            if failure.reason == FailureReason::PeriodicSchedulerShutdown)
    };
    assert!(bench.saw(refused));
}

#[test]
fn a_panic_of_a_thread_that_owes_an_answer_ends_the_job_as_it_stands() {
    let mut bench = Bench::running();
    bench.on(JobEvent::Panicked(Error::new(ErrorKind::Panic, "the thread `checkpoint-io-0` panicked")));
    bench.stops(false);
    assert!(bench.error().contains("checkpoint-io-0"));
    assert_eq!(bench.outcome(), Some(JobOutcome::Running), "nothing is recorded");
}

fn failed(kind: ErrorKind) -> JobEvent {
    let report = Report::Failed { subtask: None, error: Error::new(kind, "it broke") };
    JobEvent::Report(Generation(1), report)
}

impl Bench {
    /// Checkpoint 1 is acknowledged by all, its metadata is written, and the register is being written.
    fn up_to_metadata(&mut self) {
        for subtask in [SOURCE, SINK] {
            let (checkpoint, snapshot, metrics) =
                (CheckpointId(1), TaskSnapshot::default(), AckMetrics::default());
            self.report(Report::Acknowledged { checkpoint, subtask, snapshot, metrics });
        }
        let (checkpoint, outcome) = (CheckpointId(1), WriteOutcome::Written);
        self.on(JobEvent::Storage(StorageAnswer::MetadataWritten { checkpoint, outcome }));
    }
}
