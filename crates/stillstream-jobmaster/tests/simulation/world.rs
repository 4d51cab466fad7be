//! The world around the job engines: who is there, what is under way, and what happens next.
//!
//! | file | what is inside |
//! |---|---|
//! | `nodes` | processes with a JobManager: started, crashed, cancelled |
//! | `stops` | savepoints, stops and suspends that a person wants |
//! | `shell` | carries the engine's commands out |
//! | `storage` | disk and register |
//! | `attempts` | the workers of an attempt and their tasks |
//! | `enumerators` | splits that are found and assigned while checkpoints are taken |
//! | `output` | what the sinks have committed |
//! | `invariants` | what must hold |

mod attempts;
mod enumerators;
mod invariants;
mod nodes;
mod output;
mod shell;
mod stops;
mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use stillstream_jobmaster::*;
use stillstream_types::*;
use stillstream_types::{ExternalizedCheckpointRetention, RestartStrategy};

use attempts::Attempt;
pub use nodes::End;
use nodes::Node;
use output::{Content, Output};

/// What may go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// One of so many steps of storage, register and tasks goes wrong; 0: none.
    pub one_in: u64,
    /// Crash the process before the n-th command.
    pub crash_at: Option<u64>,
    /// Storage and register are away: calls fail, or are never answered.
    pub away: bool,
    /// No process crashes, and nobody does anything.
    pub calm: bool,
}

impl Faults {
    pub fn all() -> Self {
        Self { one_in: 8, crash_at: None, away: false, calm: false }
    }
    pub fn none() -> Self {
        Self { one_in: 0, crash_at: None, away: false, calm: false }
    }
    /// Only storage, register and tasks go wrong.
    pub fn of_things(one_in: u64) -> Self {
        Self { one_in, crash_at: None, away: false, calm: true }
    }
    /// Nothing is written or read any more.
    pub fn away() -> Self {
        Self { one_in: 0, crash_at: None, away: true, calm: true }
    }
}

/// How long the workers of an attempt may take to stop.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the record of the end may take.
pub const END_TIMEOUT: Duration = Duration::from_secs(3);
/// A person who wants the job to end waits so long at most; a step may come late.
pub const CANCEL_TIMEOUT: Duration = Duration::from_millis(2000 + 3000 + 500);

/// What will happen at some time, in any order.
#[derive(Debug)]
enum Action {
    /// A message reaches a JobManager.
    Deliver { node: usize, event: JobEvent },
    /// A call reaches storage. `node` is who is answered, if that one is still there.
    Call { node: Option<usize>, call: StorageCall },
    /// What an attempt starts from is read.
    ReadSnapshot { node: usize, generation: Generation, from: RestoreFrom },
    /// A subtask opens.
    Open { node: usize, generation: Generation, subtask: SubtaskId },
    /// The barrier of a checkpoint passes a subtask, which writes its part.
    Snapshot { node: usize, generation: Generation, checkpoint: CheckpointId, subtask: SubtaskId },
    /// A subtask hears that a checkpoint is completed, and commits.
    Commit { node: usize, generation: Generation, checkpoint: CheckpointId, subtask: SubtaskId },
    /// The sources hear that they are to end.
    Drain { node: usize, generation: Generation },
    /// A worker is told to stop, or to let its dataflow drain.
    Stop { node: usize, generation: Generation, worker: usize, drain: bool },
}

/// What has happened, over the whole life of the world.
#[derive(Default, Debug)]
pub struct Tally {
    pub completed: u64,
    pub aborted: u64,
    pub crashes: u64,
    pub unknown_writes: u64,
    pub fenced: u64,
    pub commands: u64,
    /// Acknowledgements that named a file which may be gone.
    pub refused: u64,
    pub shared_written: u64,
    pub shared_deleted: u64,
    pub restarts: u64,
    pub replaced: u64,
    pub rescaled: u64,
    pub finished: u64,
    pub cancelled: u64,
    pub failed: u64,
    pub unrecorded: u64,
    pub committed: u64,
    pub savepoints: u64,
    pub savepoints_failed: u64,
    pub stopped: u64,
    pub suspended: u64,
    pub drained: u64,
    /// Stops after which the job went on.
    pub stops_failed: u64,
    pub stops_refused: u64,
    pub assigned: u64,
    /// Of these, while a checkpoint was under way.
    pub assigned_in_flight: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.completed += other.completed;
        self.aborted += other.aborted;
        self.crashes += other.crashes;
        self.unknown_writes += other.unknown_writes;
        self.fenced += other.fenced;
        self.commands += other.commands;
        self.refused += other.refused;
        self.shared_written += other.shared_written;
        self.shared_deleted += other.shared_deleted;
        self.restarts += other.restarts;
        self.replaced += other.replaced;
        self.rescaled += other.rescaled;
        self.finished += other.finished;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.unrecorded += other.unrecorded;
        self.committed += other.committed;
        self.savepoints += other.savepoints;
        self.savepoints_failed += other.savepoints_failed;
        self.stopped += other.stopped;
        self.suspended += other.suspended;
        self.drained += other.drained;
        self.stops_failed += other.stops_failed;
        self.stops_refused += other.stops_refused;
        self.assigned += other.assigned;
        self.assigned_in_flight += other.assigned_in_flight;
    }
}

pub struct World {
    pub config: CheckpointConfig,
    pub tally: Tally,
    /// How the job ended for whoever was the last to end.
    pub last_end: Option<End>,
    /// A digest of everything that was decided, where that is wanted.
    pub trace: Option<u64>,
    pub faults: Faults,
    random: u64,
    /// The enumerators' own, so that the rest of a schedule is as it would be without them.
    random_splits: u64,
    now: Duration,
    nodes: Vec<Option<Node>>,
    bag: Vec<Action>,
    // storage
    register: Option<RegisterRecord>,
    /// The process that claimed the job last: it alone writes the register, as each write names the record
    /// that it replaces.
    owner: usize,
    /// Whether the register says that the job has ended.
    recorded: bool,
    /// The end that each generation has written.
    ends: BTreeMap<Generation, JobOutcome>,
    files: BTreeMap<String, BTreeSet<String>>,
    contents: BTreeMap<String, Content>,
    metadata: BTreeMap<String, CheckpointMetadata>,
    /// Savepoints that somebody was told of.
    savepoints: BTreeSet<String>,
    /// Where stops were to leave theirs: no other savepoint may get into the register.
    stop_places: BTreeSet<String>,
    requests: u64,
    places: u64,
    used: BTreeSet<CheckpointId>,
    // the job
    restart: RestartStrategy,
    /// The parallelism of each vertex of the job, as its program is now.
    plan: Vec<u32>,
    /// What a person said that it is to start from.
    from_snapshot: Option<String>,
    /// The highest id that any run before the last fresh one may have used.
    fresh_from: CheckpointId,
    /// Records in the input, if it has an end.
    input: Option<u64>,
    /// The first record that nobody has read yet.
    furthest: u64,
    output: Output,
    attempts: BTreeMap<(usize, Generation), Attempt>,
    written: u64,
    local: u64,
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut world = Self {
            config: CheckpointConfig::default(),
            tally: Tally::default(),
            last_end: None,
            trace: None,
            faults,
            random: seed,
            random_splits: seed ^ 0x5eed,
            now: Duration::ZERO,
            nodes: Vec::new(),
            bag: Vec::new(),
            register: None,
            owner: 0,
            recorded: false,
            ends: BTreeMap::new(),
            files: BTreeMap::new(),
            contents: BTreeMap::new(),
            metadata: BTreeMap::new(),
            savepoints: BTreeSet::new(),
            stop_places: BTreeSet::new(),
            requests: 0,
            places: 0,
            used: BTreeSet::new(),
            restart: RestartStrategy::None,
            plan: Vec::new(),
            from_snapshot: None,
            fresh_from: CheckpointId(0),
            input: None,
            furthest: 0,
            output: Output::default(),
            attempts: BTreeMap::new(),
            written: 0,
            local: 0,
        };
        world.rescale();
        world.config = CheckpointConfig {
            interval: Some(Duration::from_millis(100)),
            timeout: Duration::from_millis(1500),
            min_pause: Duration::from_millis(world.below(2) * 30),
            max_concurrent: 1 + world.below(3) as usize,
            tolerable_failed_checkpoints: [0, 3, 1000][world.below(3) as usize],
            num_retained: 1 + world.below(3) as usize,
            retention: [
                ExternalizedCheckpointRetention::DeleteOnCancellation,
                ExternalizedCheckpointRetention::RetainOnCancellation,
            ][world.below(2) as usize],
            ..CheckpointConfig::default()
        };
        let delay = Duration::from_millis(world.below(60));
        world.restart = match world.below(4) {
            0 => RestartStrategy::FixedDelay { attempts: 2, delay },
            1 => RestartStrategy::ExponentialDelay {
                initial_backoff: delay,
                max_backoff: Duration::from_millis(400),
                backoff_multiplier: 1.5,
                reset_backoff_threshold: Duration::from_secs(1),
                jitter_factor: 0.5,
                attempts_before_reset_backoff: u32::MAX,
            },
            _ => RestartStrategy::FixedDelay { attempts: u32::MAX, delay },
        };
        world.start_node();
        world
    }

    fn below(&mut self, n: u64) -> u64 {
        // SplitMix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }

    fn fault(&mut self) -> bool {
        self.faults.one_in > 0 && self.below(self.faults.one_in) == 0
    }

    /// A fault that would end everything too soon if it came as often as the others.
    fn rare_fault(&mut self) -> bool {
        self.fault() && self.below(12) == 0
    }

    /// A new version of the program, perhaps with another parallelism.
    fn rescale(&mut self) {
        let vertices = if self.plan.is_empty() { 1 + self.below(3) as usize } else { self.plan.len() };
        let plan: Vec<u32> = (0..vertices).map(|_| 1 + self.below(3) as u32).collect();
        self.tally.rescaled += u64::from(!self.plan.is_empty() && plan != self.plan);
        self.plan = plan;
    }

    pub fn step(&mut self) {
        let passed = self.below(12);
        self.now += Duration::from_millis(passed);
        self.read_input();
        self.enumerate();
        if self.faults.one_in > 0 && !self.faults.calm {
            self.mischief();
        }
        if self.bag.is_empty() {
            self.sleep();
        }
        // what is under way goes on side by side: the more there is, the more happens
        for _ in 0..self.bag.len().div_ceil(8) {
            let at = self.below(self.bag.len() as u64) as usize;
            if at < self.bag.len() {
                let action = self.bag.swap_remove(at);
                self.act(action);
            }
        }
        for at in 0..self.nodes.len() {
            let wake = self.nodes[at].as_ref().and_then(|node| Some(node.zero + node.engine.wake_at()?));
            if wake.is_some_and(|wake| wake <= self.now) {
                self.feed(at, JobEvent::Tick);
            }
        }
        self.check();
    }

    fn sleep(&mut self) {
        let wakes = self.nodes.iter().flatten().filter_map(|node| Some(node.zero + node.engine.wake_at()?));
        if let Some(wake) = wakes.min() {
            self.now = self.now.max(wake);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Deliver { node, event } => {
                if let JobEvent::Report(
                    generation,
                    Report::Acknowledged { checkpoint, subtask, snapshot, metrics },
                ) = &event
                    && self.fault()
                {
                    let (checkpoint, subtask, metrics) = (*checkpoint, *subtask, *metrics);
                    let report =
                        Report::Acknowledged { checkpoint, subtask, snapshot: snapshot.clone(), metrics };
                    let again = JobEvent::Report(*generation, report);
                    match self.below(3) {
                        // lost
                        0 => return,
                        // doubled
                        1 => self.bag.push(Action::Deliver { node, event: again }),
                        // to whoever is there now
                        _ => {
                            let node = self.alive().unwrap_or(node);
                            return self.feed(node, event);
                        }
                    }
                }
                self.feed(node, event);
            }
            Action::Call { node, call } => self.call(node, call),
            Action::ReadSnapshot { node, generation, from } => self.read_snapshot(node, generation, from),
            Action::Open { node, generation, subtask } => self.open(node, generation, subtask),
            Action::Snapshot { node, generation, checkpoint, subtask } => {
                self.snapshot(node, generation, checkpoint, subtask);
            }
            Action::Commit { node, generation, checkpoint, subtask } => {
                // a notice can be lost
                if !self.fault() {
                    self.commit(node, generation, checkpoint, subtask);
                }
            }
            Action::Drain { node, generation } => self.drain_sources(node, generation),
            Action::Stop { node, generation, worker, drain } => self.stop(node, generation, worker, drain),
        }
    }

    fn deliver(&mut self, node: usize, event: JobEvent) {
        self.bag.push(Action::Deliver { node, event });
    }

    fn report(&mut self, node: usize, generation: Generation, report: Report) {
        self.deliver(node, JobEvent::Report(generation, report));
    }
}
