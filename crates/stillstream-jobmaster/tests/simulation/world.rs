//! The world around the coordinators: who is there, what is under way, and what happens next.
//!
//! | file | what is inside |
//! |---|---|
//! | `commands` | the shell that carries commands out |
//! | `storage` | disk and register |
//! | `tasks` | snapshots, and what a task may build on |
//! | `invariants` | what must hold |
//! | `ends` | a job that is cancelled or fails for good |

mod commands;
mod ends;
mod invariants;
mod storage;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use stillstream_jobmaster::*;
use stillstream_types::*;

/// What may go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// One of so many steps of storage, register and tasks goes wrong; 0: none.
    pub one_in: u64,
    /// Crash the coordinator before its n-th command.
    pub crash_at: Option<u64>,
    /// Storage and register are away: calls fail, or are never answered.
    pub away: bool,
    /// No coordinator crashes, and nobody does anything.
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

/// How long the record of the end may take.
pub const END_TIMEOUT: Duration = Duration::from_secs(3);

/// How a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Recorded(JobOutcome),
    Unrecorded(JobOutcome),
    SteppedDown,
}

/// What will happen at some time. `node` is who is answered, if that one is still there.
#[derive(Clone, Debug)]
enum Action {
    Deliver {
        node: usize,
        event: Event,
    },
    CompareAndSet {
        node: Option<usize>,
        expected: Option<RegisterRecord>,
        record: RegisterRecord,
    },
    ReadRegister {
        node: usize,
    },
    WriteMetadata {
        node: Option<usize>,
        path: String,
        metadata: Box<CheckpointMetadata>,
    },
    List {
        node: usize,
    },
    ReadReferences {
        node: usize,
        completed: Vec<CompletedRef>,
        retained: Vec<CompletedRef>,
    },
    ListShared {
        node: usize,
    },
    Delete {
        node: Option<usize>,
        discard: DiscardId,
        target: DiscardTarget,
    },
    Snapshot {
        node: usize,
        generation: Generation,
        checkpoint: CheckpointId,
        path: String,
        subtask: SubtaskId,
    },
    Commit {
        node: usize,
        generation: Generation,
        checkpoint: CheckpointId,
        subtask: SubtaskId,
    },
    Restart {
        node: usize,
    },
}

struct Node {
    coordinator: CheckpointCoordinator,
    zero: Duration,
    wake: Option<Duration>,
    running: Option<Generation>,
    last: Generation,
    /// How the job ended for it.
    end: Option<End>,
    used: CheckpointId,
    finished: bool,
}

pub struct World {
    pub config: CheckpointConfig,
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
    /// How the job ended for whoever was the last to end.
    last_end: Option<End>,
    pub trace: u64,
    seed: u64,
    faults: Faults,
    random: u64,
    now: Duration,
    nodes: Vec<Option<Node>>,
    bag: Vec<Action>,
    register: Option<RegisterRecord>,
    files: BTreeMap<String, BTreeSet<String>>,
    metadata: BTreeMap<String, CheckpointMetadata>,
    savepoints: BTreeSet<String>,
    used: BTreeSet<CheckpointId>,
    tasks: u32,
    built_on: BTreeMap<(Generation, SubtaskId), tasks::Known>,
    local: u64,
    written: u64,
    committed: BTreeMap<(Generation, SubtaskId), CheckpointId>,
    finals: BTreeMap<Generation, CheckpointId>,
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut world = Self {
            config: CheckpointConfig::default(),
            completed: 0,
            aborted: 0,
            crashes: 0,
            unknown_writes: 0,
            fenced: 0,
            commands: 0,
            refused: 0,
            shared_written: 0,
            shared_deleted: 0,
            last_end: None,
            trace: 0,
            seed,
            faults,
            random: seed,
            now: Duration::ZERO,
            nodes: Vec::new(),
            bag: Vec::new(),
            register: None,
            files: BTreeMap::new(),
            metadata: BTreeMap::new(),
            savepoints: BTreeSet::new(),
            used: BTreeSet::new(),
            tasks: 0,
            built_on: BTreeMap::new(),
            local: 0,
            written: 0,
            committed: BTreeMap::new(),
            finals: BTreeMap::new(),
        };
        world.tasks = 1 + world.below(4) as u32;
        world.config = CheckpointConfig {
            interval: Some(Duration::from_millis(100)),
            timeout: Duration::from_millis(1500),
            min_pause: Duration::from_millis(world.below(2) * 30),
            max_concurrent: 1 + world.below(3) as usize,
            tolerable_failed_checkpoints: [0, 3, 1000][world.below(3) as usize],
            num_retained: 1 + world.below(3) as usize,
            ..CheckpointConfig::default()
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

    fn subtasks(&self) -> Vec<SubtaskId> {
        (0..self.tasks).map(|n| SubtaskId::new(n, 0)).collect()
    }

    fn operator(subtask: SubtaskId) -> OperatorId {
        OperatorId::from_uid(&subtask.to_string())
    }

    // ---- coordinators

    fn start_node(&mut self) {
        let coordinator = CheckpointCoordinator::new(CoordinatorSetup {
            job: JobId::from_name("sim"),
            job_name: "sim".into(),
            config: self.config.clone(),
            zero_ms: 0,
            register: self.register.clone(),
            first_delay: 1.0,
            end_timeout: END_TIMEOUT,
        })
        .unwrap();
        let (zero, used, last) = (self.now, CheckpointId(0), Generation(0));
        let end = None;
        let node = Node { coordinator, zero, wake: None, running: None, last, end, used, finished: false };
        self.nodes.push(Some(node));
        let at = self.nodes.len() - 1;
        self.feed(at, Event::AttemptRequested);
    }

    /// All coordinators and everything under way vanish; a new coordinator starts.
    pub fn restart_all(&mut self) {
        self.nodes.iter_mut().for_each(|node| *node = None);
        self.bag.clear();
        self.start_node();
    }

    /// The process is gone: its calls may still arrive, but nobody hears the answers.
    fn crash(&mut self, at: usize) {
        self.crashes += 1;
        self.nodes[at] = None;
        let mut bag = std::mem::take(&mut self.bag);
        bag.retain_mut(|action| {
            let lost = self.below(2) == 0;
            match action {
                Action::CompareAndSet { node, .. }
                | Action::WriteMetadata { node, .. }
                | Action::Delete { node, .. } => {
                    if *node == Some(at) {
                        *node = None;
                        return !lost;
                    }
                    true
                }
                Action::Deliver { node, event: Event::Acknowledge { .. } }
                | Action::Snapshot { node, .. } => *node != at || !lost,
                Action::Deliver { node, .. }
                | Action::ReadRegister { node }
                | Action::List { node }
                | Action::ReadReferences { node, .. }
                | Action::ListShared { node }
                | Action::Commit { node, .. }
                | Action::Restart { node } => *node != at,
            }
        });
        bag.append(&mut self.bag);
        self.bag = bag;
        self.start_node();
    }

    fn feed(&mut self, at: usize, event: Event) {
        let now = self.now;
        let Some(node) = self.nodes[at].as_mut() else { return };
        for command in node.coordinator.handle(event, now - node.zero) {
            if self.faults.crash_at == Some(self.commands) {
                self.faults.crash_at = None;
                self.crash(at);
                return;
            }
            self.commands += 1;
            if self.faults.one_in > 0 && !self.faults.calm && self.below(150) == 0 {
                self.crash(at);
                return;
            }
            self.carry_out(at, command);
        }
    }

    pub fn step(&mut self) {
        let passed = self.below(12);
        self.now += Duration::from_millis(passed);
        if self.faults.one_in > 0 && !self.faults.calm {
            self.mischief();
        }
        if self.bag.is_empty() {
            self.sleep();
        } else {
            let at = self.below(self.bag.len() as u64) as usize;
            let action = self.bag.swap_remove(at);
            self.act(action);
        }
        for at in 0..self.nodes.len() {
            if self.nodes[at].as_ref().is_some_and(|node| node.wake.is_some_and(|wake| wake <= self.now)) {
                if let Some(node) = self.nodes[at].as_mut() {
                    node.wake = None;
                }
                self.feed(at, Event::Tick);
            }
        }
        self.check();
    }

    fn sleep(&mut self) {
        if let Some(wake) = self.nodes.iter().flatten().filter_map(|node| node.wake).min() {
            self.now = self.now.max(wake);
        }
    }

    fn alive(&mut self) -> Option<usize> {
        let alive: Vec<usize> = (0..self.nodes.len()).filter(|at| self.nodes[*at].is_some()).collect();
        let chosen = self.below(alive.len() as u64) as usize;
        alive.get(chosen).copied()
    }

    fn mischief(&mut self) {
        let Some(at) = self.alive() else { return self.start_node() };
        let running = self.nodes[at].as_ref().and_then(|node| node.running);
        let request = RequestId(0);
        match self.below(120) {
            // a second leader, while the first one does not know
            0 => self.start_node(),
            1 => self.bag.push(Action::Restart { node: at }),
            2 => self
                .feed(at, Event::TriggerRequested { request, kind: CheckpointKind::Savepoint, forced: true }),
            3 => {
                let forced = self.below(2) == 0;
                self.feed(at, Event::TriggerRequested { request, kind: CheckpointKind::Checkpoint, forced });
            }
            4 => {
                if let Some(generation) = running
                    && self.below(4) == 0
                {
                    self.feed(at, Event::SourceEnded { generation, subtask: SubtaskId::new(0, 0) });
                }
            }
            5 => self.now += Duration::from_millis(1600),
            _ => {}
        }
    }

    fn answer(&mut self, node: Option<usize>, event: Event) {
        if let Some(node) = node {
            self.bag.push(Action::Deliver { node, event });
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Deliver { node, event } => {
                if matches!(event, Event::Acknowledge { .. }) && self.fault() {
                    match self.below(3) {
                        0 => return,
                        1 => self.bag.push(Action::Deliver { node, event: event.clone() }),
                        _ => {
                            // to whoever is there now
                            let node = self.alive().unwrap_or(node);
                            return self.feed(node, event);
                        }
                    }
                }
                self.feed(node, event);
            }
            // the call is made, and that is the last that one hears of it; or it fails
            Action::CompareAndSet { .. } | Action::WriteMetadata { .. } | Action::ReadRegister { .. }
                if self.faults.away =>
            {
                self.while_away(action);
            }
            Action::CompareAndSet { node, expected, record } => self.compare_and_set(node, expected, record),
            Action::ReadRegister { node } => {
                let result = if self.fault() { Err("unreachable".into()) } else { Ok(self.register.clone()) };
                self.answer(Some(node), Event::RegisterRead { result });
            }
            Action::WriteMetadata { node, path, metadata } => self.write_metadata(node, path, metadata),
            Action::List { node } => {
                let names = self.files.keys().cloned().collect();
                self.answer(Some(node), Event::DirectoriesListed { names });
            }
            Action::ReadReferences { node, completed, retained } => {
                self.read_references(node, &completed, &retained);
            }
            Action::ListShared { node } => self.list_shared(node),
            Action::Delete { node, discard, target } => self.delete(node, discard, target),
            Action::Snapshot { node, generation, checkpoint, path, subtask } => {
                self.snapshot(node, generation, checkpoint, &path, subtask);
            }
            Action::Commit { node, generation, checkpoint, subtask } => {
                let running = self.nodes[node].as_ref().and_then(|node| node.running);
                if self.fault() || running != Some(generation) {
                    return;
                }
                self.confirm(generation, subtask, checkpoint);
                let up_to = self.committed.entry((generation, subtask)).or_default();
                *up_to = (*up_to).max(checkpoint);
                self.answer(Some(node), Event::CommitConfirmed { generation, checkpoint, subtask });
            }
            Action::Restart { node } => {
                if let Some(me) = self.nodes[node].as_mut().filter(|me| !me.finished) {
                    let running = me.running.take();
                    if let Some(generation) = running {
                        self.feed(node, Event::AttemptStopped { generation, reason: "test".into() });
                    }
                    self.feed(node, Event::AttemptRequested);
                }
            }
        }
    }
}
