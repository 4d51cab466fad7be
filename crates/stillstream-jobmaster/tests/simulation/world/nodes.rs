//! Processes with a JobManager: they start, crash, are paused, and are told to cancel.

use super::stops::Wanted;
use super::*;

/// How a job ended for one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// As the register says.
    Recorded(JobOutcome),
    /// It could not be recorded.
    Unrecorded,
    /// Another process took it over.
    SteppedDown,
}

/// A process with a JobManager and its workers.
pub struct Node {
    pub engine: JobEngine,
    pub zero: Duration,
    pub plan: Vec<u32>,
    /// Whether a worker that does not stop can be replaced: a process can, a thread cannot.
    pub replaceable: bool,
    /// When a person cancelled the job.
    pub cancelled: Option<Duration>,
    /// The highest checkpoint id that it has used.
    pub used: CheckpointId,
    /// What is not answered yet.
    pub wanted: BTreeMap<RequestId, Wanted>,
    /// A stop was answered with success.
    pub stopped: Option<bool>,
}

impl World {
    /// A process starts: it looks at the register, claims the job, looks again, and runs it if it is to be
    /// run.
    pub(super) fn start_node(&mut self) {
        let mut fresh = false;
        match decide_start(self.register.as_ref(), false) {
            StartDecision::Run => {}
            // somebody wants another run
            StartDecision::AlreadyFinished(_) => fresh = true,
            StartDecision::AlreadyStopped { savepoint, .. } => {
                let Some(savepoint) = savepoint else { panic!("a stopped job has no savepoint") };
                assert!(savepoint.is_savepoint() && savepoint.id > self.fresh_from, "{savepoint}");
                self.from_snapshot = Some(savepoint.path);
            }
            StartDecision::AlreadyCancelled { retained, .. } => match retained {
                // one of a run before the last fresh one knows nothing of what that has committed
                Some(retained) if retained.id > self.fresh_from => self.from_snapshot = Some(retained.path),
                _ => fresh = true,
            },
        }
        if fresh {
            // what the last run did is no matter of the next one's
            for at in 0..self.nodes.len() {
                self.vanish(at, false);
            }
            self.from_snapshot = None;
            self.fresh_from =
                self.register.as_ref().map_or(CheckpointId(0), |record| record.last_checkpoint_id);
            self.output = Output::default();
            (self.input, self.furthest) = (None, 0);
        }
        let mut record = self.register.clone().unwrap_or_else(|| RegisterRecord {
            job: job(),
            job_name: "sim".into(),
            generation: Generation(0),
            outcome: JobOutcome::Running,
            last_checkpoint_id: CheckpointId(0),
            completed: Vec::new(),
            retained: Vec::new(),
            ended: None,
            began: None,
        });
        record.generation.0 += 1;
        (self.register, self.owner) = (Some(record.clone()), self.nodes.len());
        let plan = self.plan.clone();
        let setup = JobSetup {
            job: job(),
            name: "sim".into(),
            checkpoint: self.config.clone(),
            restart: self.restart,
            tasks: tasks(&plan),
            workers: plan.iter().copied().max().unwrap_or(1) as usize,
            from_snapshot: self.from_snapshot.clone(),
            place: "the world".into(),
            durable: true,
            register: Some(record),
            first_delay: 1.0,
            cancellation_timeout: STOP_TIMEOUT,
            end_timeout: END_TIMEOUT,
        };
        let engine = JobEngine::new(setup, Duration::ZERO).unwrap();
        let (zero, replaceable, used) = (self.now, self.below(2) == 0, CheckpointId(0));
        let (wanted, stopped) = (BTreeMap::new(), None);
        self.nodes.push(Some(Node {
            engine,
            zero,
            plan,
            replaceable,
            cancelled: None,
            used,
            wanted,
            stopped,
        }));
        self.feed(self.nodes.len() - 1, JobEvent::Submitted);
    }

    /// All processes and everything under way vanish; a new process starts.
    pub fn restart_all(&mut self) {
        self.nodes.iter_mut().for_each(|node| *node = None);
        self.attempts.clear();
        self.bag.clear();
        self.start_node();
    }

    pub(super) fn crash(&mut self, at: usize) {
        self.tally.crashes += 1;
        self.vanish(at, true);
        if self.below(3) == 0 {
            self.rescale();
        }
        self.start_node();
    }

    /// The process is gone: its calls may still arrive, or do if it was not killed, but nobody hears the
    /// answers.
    pub(super) fn vanish(&mut self, at: usize, killed: bool) {
        if self.nodes[at].take().is_none() {
            return;
        }
        self.attempts.retain(|(node, _), _| *node != at);
        let mut bag = std::mem::take(&mut self.bag);
        bag.retain_mut(|action| {
            let lost = killed && self.below(2) == 0;
            match action {
                Action::Call { node, call } if *node == Some(at) => {
                    *node = None;
                    storage::is_write(call) && !lost
                }
                Action::Call { .. } => true,
                // a message to a process that is gone may be taken for one to the next
                Action::Deliver { node, event: JobEvent::Report(_, Report::Acknowledged { .. }) } => {
                    *node != at || !lost
                }
                Action::Deliver { node, .. }
                | Action::ReadSnapshot { node, .. }
                | Action::Open { node, .. }
                | Action::Snapshot { node, .. }
                | Action::Commit { node, .. }
                | Action::Drain { node, .. }
                | Action::Stop { node, .. } => *node != at,
            }
        });
        bag.append(&mut self.bag);
        self.bag = bag;
    }

    pub(super) fn alive(&mut self) -> Option<usize> {
        let alive: Vec<usize> = (0..self.nodes.len()).filter(|at| self.nodes[*at].is_some()).collect();
        let chosen = self.below(alive.len() as u64) as usize;
        alive.get(chosen).copied()
    }

    pub(super) fn mischief(&mut self) {
        let Some(at) = self.alive() else {
            if self.below(3) == 0 {
                self.rescale();
            }
            return self.start_node();
        };
        match self.below(240) {
            // a second leader, while the first one does not know
            0 => self.start_node(),
            1 | 2 => {
                let generation = self.nodes[at].as_ref().map(|node| node.engine.generation());
                if let Some(generation) = generation {
                    self.some_task_fails(at, generation);
                }
            }
            3..7 => {
                let kind = if self.below(2) == 0 { CheckpointType::Full } else { CheckpointType::Configured };
                self.feed(at, JobEvent::TriggerCheckpoint(RequestId(0), kind));
            }
            7 if self.input.is_none() && self.below(4) == 0 => {
                self.input = Some(self.furthest + self.below(40));
            }
            // a pause of everything: the machine was asleep
            8 | 9 => {
                self.now += Duration::from_millis(1600);
                for node in self.nodes.iter_mut().flatten() {
                    node.cancelled = node.cancelled.map(|at| at + Duration::from_millis(1600));
                }
            }
            10 if self.below(3) == 0 => self.cancel(at),
            11 => self.savepoint(at),
            12 if self.below(2) == 0 => self.stop_job(at, true, false),
            13 if self.below(3) == 0 => self.stop_job(at, false, false),
            14 if self.below(4) == 0 => self.stop_job(at, true, true),
            15 if self.below(12) == 0 => self.stop_job(at, false, true),
            _ => {}
        }
    }

    /// A person cancels the job; from here on the time runs in which it must end.
    pub fn cancel(&mut self, at: usize) {
        let now = self.now;
        if let Some(node) = self.nodes[at].as_mut() {
            node.cancelled.get_or_insert(now);
            self.feed(at, JobEvent::Cancel);
        }
    }

    /// Whether the register says that the job has ended.
    pub fn end_is_recorded(&self) -> bool {
        self.recorded
    }

    /// The newest process.
    pub fn newest(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Only the newest process is left.
    pub fn only_the_newest(&mut self) {
        for at in 0..self.newest() {
            self.vanish(at, true);
        }
    }

    pub fn is_alive(&self, at: usize) -> bool {
        self.nodes[at].is_some()
    }

    pub(super) fn ended(&mut self, at: usize, result: Result<()>) {
        let Some(node) = self.nodes[at].as_ref() else { return };
        // the register may have gone on to a higher generation
        let own = node.engine.register().map(|record| record.generation);
        let recorded = own.and_then(|own| self.ends.get(&own).copied());
        let end = match &result {
            Ok(()) => {
                let good = node.engine.good_end();
                assert!(
                    good.is_some() && recorded == good,
                    "it ended with {good:?}, the register says {recorded:?}"
                );
                let status = node.engine.status();
                match (good, self.drained_at(at)) {
                    (Some(JobOutcome::Finished), Some(position)) => self.output.assert_exactly(position),
                    (Some(JobOutcome::Finished), None) => self.output.assert_whole(self.input),
                    (Some(JobOutcome::Stopped), _) => {
                        assert_eq!((node.stopped, status), (Some(true), JobStatus::Finished));
                    }
                    _ => assert_eq!(status, JobStatus::Suspended),
                }
                End::Recorded(good.unwrap_or(JobOutcome::Finished))
            }
            Err(error) if error.kind() == ErrorKind::Fenced => End::SteppedDown,
            Err(error) => match recorded {
                Some(outcome @ (JobOutcome::Cancelled | JobOutcome::Failed)) => {
                    let cancelled = error.kind() == ErrorKind::Cancelled;
                    assert!(
                        !cancelled || outcome == JobOutcome::Cancelled,
                        "{error}, the register says {outcome:?}"
                    );
                    End::Recorded(outcome)
                }
                _ => End::Unrecorded,
            },
        };
        if let Some(cancelled) = node.cancelled {
            let took = self.now.saturating_sub(cancelled);
            assert!(took <= CANCEL_TIMEOUT, "the job ended {took:?} after it was cancelled: {result:?}");
        }
        let open: Vec<_> =
            node.wanted.values().filter(|wanted| matches!(wanted, Wanted::Stop { .. })).collect();
        assert!(open.is_empty(), "the job has ended with {result:?}, and nobody has answered {open:?}");
        match end {
            End::Recorded(JobOutcome::Finished) => self.tally.finished += 1,
            End::Recorded(JobOutcome::Cancelled) => self.tally.cancelled += 1,
            End::Recorded(JobOutcome::Stopped | JobOutcome::Suspended) => {}
            End::Recorded(_) => self.tally.failed += 1,
            End::Unrecorded => self.tally.unrecorded += 1,
            End::SteppedDown => self.tally.fenced += 1,
        }
        self.last_end = Some(end);
        // the metadata of a checkpoint that the end cut short may be on its way: it has to go again
        self.metadata_of(at);
        self.vanish(at, false);
    }
}

pub(super) fn job() -> JobId {
    JobId::from_name("sim")
}

pub(super) fn operator(vertex: u32) -> OperatorId {
    OperatorId::from_uid(&format!("operator-{vertex}"))
}

pub(super) fn operators(plan: &[u32]) -> Vec<OperatorInfo> {
    let info = |(vertex, parallelism): (usize, &u32)| OperatorInfo {
        id: operator(vertex as u32),
        uid: None,
        name: format!("operator-{vertex}"),
        parallelism: *parallelism,
        max_parallelism: 128,
    };
    plan.iter().enumerate().map(info).collect()
}

pub(super) fn tasks(plan: &[u32]) -> Vec<TaskInfo> {
    let operators = operators(plan);
    let of_vertex = |(vertex, info): (usize, &OperatorInfo)| -> Vec<TaskInfo> {
        let task = |index| TaskInfo {
            id: SubtaskId::new(vertex as u32, index),
            name: format!("task-{vertex}"),
            operators: vec![info.clone()],
            is_source: vertex == 0,
        };
        (0..info.parallelism).map(task).collect()
    };
    operators.iter().enumerate().flat_map(of_vertex).collect()
}
