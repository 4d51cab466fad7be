//! The world around the coordinators: storage, register, tasks, and the shells that carry commands out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use stillstream_checkpoint::*;
use stillstream_types::*;

/// What may go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// One of so many steps of storage, register and tasks goes wrong; 0: none.
    pub one_in: u64,
    /// Crash the coordinator before its n-th command.
    pub crash_at: Option<u64>,
}

impl Faults {
    pub fn all() -> Self {
        Self { one_in: 8, crash_at: None }
    }
    pub fn none() -> Self {
        Self { one_in: 0, crash_at: None }
    }
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
    Prepare {
        node: Option<usize>,
        checkpoint: CheckpointId,
        kind: CheckpointKind,
    },
    WriteMetadata {
        node: Option<usize>,
        path: String,
        metadata: Box<CheckpointMetadata>,
    },
    List {
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
        })
        .unwrap();
        let (zero, used, last) = (self.now, CheckpointId(0), Generation(0));
        let node = Node { coordinator, zero, wake: None, running: None, last, used, finished: false };
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
                | Action::Prepare { node, .. }
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
            if self.faults.one_in > 0 && self.below(150) == 0 {
                self.crash(at);
                return;
            }
            self.carry_out(at, command);
        }
    }

    fn carry_out(&mut self, node: usize, command: Command) {
        let seed = self.seed;
        let text = format!("{command:?}");
        self.trace = text.bytes().fold(self.trace, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let some = Some(node);
        match command {
            Command::UpdateRegister { expected, record } => {
                self.bag.push(Action::CompareAndSet { node: some, expected, record });
            }
            Command::ReadRegister => self.bag.push(Action::ReadRegister { node }),
            Command::BeginAttempt { generation, restore_from } => {
                if let Some(register) = self.register.clone().filter(|r| r.generation == generation) {
                    assert_eq!(
                        restore_from.as_ref(),
                        register.completed.last(),
                        "seed {seed}: wrong restore"
                    );
                }
                if let Some(me) = self.nodes[node].as_mut() {
                    me.running = Some(generation);
                    me.last = generation;
                }
                let task = |id: SubtaskId| TaskInfo {
                    id,
                    name: "task".into(),
                    operators: vec![OperatorInfo {
                        id: Self::operator(id),
                        uid: None,
                        name: "operator".into(),
                        parallelism: 1,
                        max_parallelism: 128,
                    }],
                    is_source: id.vertex.0 == 0,
                };
                let tasks = self.subtasks().into_iter().map(task).collect();
                self.bag.push(Action::Deliver { node, event: Event::AttemptStarted { generation, tasks } });
            }
            Command::ListDirectories => self.bag.push(Action::List { node }),
            Command::PrepareLocation { checkpoint, kind } => {
                // a leader that does not know yet that it is none may use up what it reserved, but never an id of another
                assert!(self.used.insert(checkpoint), "seed {seed}: id {checkpoint} is used twice");
                let me = self.nodes[node].as_mut().unwrap();
                assert!(checkpoint > me.used, "seed {seed}: id {checkpoint} after {}", me.used);
                me.used = checkpoint;
                self.bag.push(Action::Prepare { node: some, checkpoint, kind });
            }
            Command::TriggerSources { generation, checkpoint, kind, path, .. } => {
                if kind == CheckpointKind::Final {
                    self.finals.insert(generation, checkpoint);
                }
                for subtask in self.subtasks() {
                    let path = path.clone();
                    self.bag.push(Action::Snapshot { node, generation, checkpoint, path, subtask });
                }
            }
            Command::WriteMetadata { path, metadata } => {
                self.bag.push(Action::WriteMetadata { node: some, path, metadata });
            }
            Command::NotifyComplete { generation, checkpoint, subtasks, .. } => {
                if let Some(register) = self.register.as_ref().filter(|r| r.generation == generation) {
                    let named = register.completed.iter().any(|c| c.id == checkpoint);
                    assert!(named, "seed {seed}: {checkpoint} is announced, the register has {register:?}");
                }
                self.completed += 1;
                for subtask in subtasks.iter().copied() {
                    self.bag.push(Action::Commit { node, generation, checkpoint, subtask });
                }
            }
            Command::NotifyAborted { .. } => self.aborted += 1,
            Command::Discard { discard, target } => {
                self.bag.push(Action::Delete { node: some, discard, target });
            }
            Command::Reply { result, .. } => {
                if let Ok(report) = result
                    && report.kind == CheckpointKind::Savepoint
                {
                    self.savepoints.insert(report.path);
                }
            }
            Command::FailJob { kind, message } => {
                assert!(kind != ErrorKind::CorruptSnapshot, "seed {seed}: {message}");
                self.bag.push(Action::Restart { node });
            }
            Command::FinishJob { outcome } => {
                assert_eq!(outcome, JobOutcome::Finished);
                if let Some(me) = self.nodes[node].as_mut() {
                    let generation = me.last;
                    me.finished = true;
                    let last = self.finals.get(&generation).copied();
                    for subtask in self.subtasks() {
                        let committed = self.committed.get(&(generation, subtask)).copied();
                        assert!(
                            last.is_some() && committed >= last,
                            "seed {seed}: {subtask} has not committed"
                        );
                    }
                }
            }
            Command::StepDown { .. } => {
                self.fenced += 1;
                self.nodes[node] = None;
            }
            Command::WakeAt(at) => {
                if let Some(me) = self.nodes[node].as_mut() {
                    me.wake = Some(me.zero + at);
                }
            }
            Command::Warn(_) | Command::Info(_) => {}
        }
    }

    // ---- steps

    pub fn step(&mut self) {
        let passed = self.below(12);
        self.now += Duration::from_millis(passed);
        if self.faults.one_in > 0 {
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
            Action::CompareAndSet { node, expected, record } => self.compare_and_set(node, expected, record),
            Action::ReadRegister { node } => {
                let result = if self.fault() { Err("unreachable".into()) } else { Ok(self.register.clone()) };
                self.answer(Some(node), Event::RegisterRead { result });
            }
            Action::Prepare { node, checkpoint, kind } => {
                let path = match kind {
                    CheckpointKind::Savepoint => format!("savepoint-{checkpoint}"),
                    _ => cleaner::directory(checkpoint),
                };
                self.files.entry(path.clone()).or_default();
                let result = if self.fault() { Err("no space".into()) } else { Ok(path) };
                self.answer(node, Event::LocationPrepared { checkpoint, result });
            }
            Action::WriteMetadata { node, path, metadata } => self.write_metadata(node, path, metadata),
            Action::List { node } => {
                let names = self.files.keys().cloned().collect();
                self.answer(Some(node), Event::DirectoriesListed { names });
            }
            Action::Delete { node, discard, target } => self.delete(node, discard, target),
            Action::Snapshot { node, generation, checkpoint, path, subtask } => {
                self.snapshot(node, generation, checkpoint, &path, subtask);
            }
            Action::Commit { node, generation, checkpoint, subtask } => {
                let running = self.nodes[node].as_ref().and_then(|node| node.running);
                if self.fault() || running != Some(generation) {
                    return;
                }
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

    fn compare_and_set(
        &mut self,
        node: Option<usize>,
        expected: Option<RegisterRecord>,
        record: RegisterRecord,
    ) {
        let (fault, kind) = (self.fault(), self.below(4));
        if fault && kind == 0 {
            let outcome = RegisterOutcome::Failed("refused".into());
            return self.answer(node, Event::RegisterUpdated { outcome });
        }
        if fault {
            self.unknown_writes += 1;
            if kind == 1 {
                // it arrives later, perhaps after it was read
                let (expected, record) = (expected.clone(), record.clone());
                self.bag.push(Action::CompareAndSet { node: None, expected, record });
            }
        }
        let happens = self.register == expected && !(fault && kind <= 2);
        let outcome = match &self.register {
            _ if fault => RegisterOutcome::Unknown("timed out".into()),
            _ if happens => RegisterOutcome::Written,
            Some(found) if found.generation > record.generation => RegisterOutcome::Fenced(found.generation),
            _ => RegisterOutcome::Unknown("the record has changed".into()),
        };
        if happens {
            if let Some(old) = &self.register {
                assert!(
                    record.generation >= old.generation
                        && record.last_checkpoint_id >= old.last_checkpoint_id
                );
                if record.outcome == JobOutcome::Running && old.outcome == JobOutcome::Running {
                    let newest = |r: &RegisterRecord| r.completed.last().map(|c| c.id);
                    assert!(
                        newest(&record) >= newest(old),
                        "seed {}: the newest checkpoint went back",
                        self.seed
                    );
                }
            }
            self.register = Some(record);
        }
        self.answer(node, Event::RegisterUpdated { outcome });
    }

    fn write_metadata(&mut self, node: Option<usize>, path: String, metadata: Box<CheckpointMetadata>) {
        let checkpoint = metadata.id;
        let (fault, kind) = (self.fault(), self.below(4));
        let outcome = match (fault, kind) {
            (true, 0) => WriteOutcome::Failed("no space".into()),
            (true, _) => WriteOutcome::Unknown("timed out".into()),
            _ => WriteOutcome::Written,
        };
        match (fault, kind) {
            (true, 0 | 1) => {}
            (true, 2) => {
                let (node, path) = (None, path.clone());
                self.bag.push(Action::WriteMetadata { node, path, metadata });
            }
            _ => {
                self.files.entry(path.clone()).or_default().insert(format!("{path}/_metadata"));
                self.metadata.insert(path, *metadata);
            }
        }
        self.answer(node, Event::MetadataWritten { checkpoint, outcome });
    }

    fn delete(&mut self, node: Option<usize>, discard: DiscardId, target: DiscardTarget) {
        let mut failure = None;
        if self.fault() {
            failure = Some("hung".to_owned());
        } else {
            match target {
                DiscardTarget::Directory(path) => {
                    self.files.remove(&path);
                    self.metadata.remove(&path);
                }
                DiscardTarget::Files(files) => {
                    for file in files {
                        let directory = file.split('/').next().unwrap_or_default();
                        if let Some(all) = self.files.get_mut(directory) {
                            all.remove(&file);
                        }
                    }
                    self.files.retain(|_, files| !files.is_empty());
                }
            }
        }
        self.answer(node, Event::DiscardDone { discard, failure });
    }

    fn snapshot(
        &mut self,
        node: usize,
        generation: Generation,
        checkpoint: CheckpointId,
        path: &str,
        subtask: SubtaskId,
    ) {
        if self.fault() {
            let (reason, message) = (FailureReason::CheckpointDeclined, "test".to_owned());
            let event = Event::Decline { generation, checkpoint, subtask, reason, message };
            return self.answer(Some(node), event);
        }
        self.written += 1;
        let file = format!("{path}/{generation}-{subtask}-{}", self.written);
        self.files.entry(path.to_owned()).or_default().insert(file.clone());
        let stream = StreamHandle::File { path: file, len: 1, crc32c: 0 };
        let operator = vec![OperatorStateHandle { states: BTreeMap::new(), stream }];
        let state = OperatorSubtaskState { operator, ..OperatorSubtaskState::default() };
        let snapshot = TaskSnapshot { operators: vec![(Self::operator(subtask), state)] };
        let metrics = AckMetrics::default();
        let node = if self.nodes[node].is_some() { node } else { self.alive().unwrap_or(node) };
        let event = Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics };
        self.answer(Some(node), event);
    }

    // ---- what must hold

    fn assert_whole(&self, path: &str, what: &str) {
        let seed = self.seed;
        let Some(metadata) = self.metadata.get(path) else {
            panic!("seed {seed}: {what} {path} has no metadata");
        };
        let files = &self.files[path];
        assert!(files.contains(&format!("{path}/_metadata")), "seed {seed}: {what} {path}");
        assert_eq!(metadata.operators.len(), self.tasks as usize, "seed {seed}: {what} {path} misses a task");
        for stream in metadata.streams() {
            let file = stream.path().unwrap();
            assert!(files.contains(file), "seed {seed}: {what} {path} names {file}, which is gone");
        }
    }

    fn check(&self) {
        for checkpoint in self.register.iter().flat_map(|r| r.completed.iter().chain(&r.retained)) {
            self.assert_whole(&checkpoint.path, "checkpoint");
        }
        for path in &self.savepoints {
            self.assert_whole(path, "savepoint");
        }
    }

    /// From here on nothing goes wrong: the job must finish, and a start after it must find nothing but what is named.
    pub fn end_well(&mut self) {
        self.faults = Faults::none();
        let mut newest = self.nodes.len() - 1;
        if self.nodes[newest].is_none() {
            self.start_node();
            newest = self.nodes.len() - 1;
        }
        for at in 0..newest {
            self.nodes[at] = None;
        }
        for _ in 0..5000 {
            let Some(me) = self.nodes[newest].as_ref() else {
                // a former leader's claim arrived late: who is elected starts anew
                self.start_node();
                newest = self.nodes.len() - 1;
                continue;
            };
            if me.finished {
                break;
            }
            if let Some(generation) = me.running {
                self.feed(newest, Event::SourceEnded { generation, subtask: SubtaskId::new(0, 0) });
            }
            self.step();
        }
        let seed = self.seed;
        assert!(
            self.nodes[newest].as_ref().is_some_and(|n| n.finished),
            "seed {seed}: the job does not finish"
        );
        self.drain();
        self.nodes[newest] = None;
        self.start_node();
        self.faults = Faults::none();
        for _ in 0..200 {
            if self.nodes.last().is_some_and(|node| node.as_ref().is_some_and(|n| n.running.is_some())) {
                break;
            }
            self.step();
        }
        // the listing and its deletions
        let last = self.nodes.len() - 1;
        if let Some(generation) = self.nodes[last].as_ref().and_then(|n| n.running) {
            self.feed(last, Event::AttemptStopped { generation, reason: "over".into() });
        }
        self.drain();
        let named: BTreeSet<&str> =
            self.register.iter().flat_map(|r| &r.completed).map(|c| &*c.path).collect();
        for path in self.files.keys().filter(|path| !path.starts_with("savepoint-")) {
            assert!(named.contains(path.as_str()), "seed {seed}: {path} is left behind");
        }
    }

    fn drain(&mut self) {
        for _ in 0..2000 {
            match self.bag.pop() {
                Some(Action::Deliver { event: Event::AttemptStarted { .. }, .. }) => {}
                Some(action) => self.act(action),
                None => return,
            }
            self.check();
        }
        panic!("seed {}: never quiet", self.seed);
    }
}
