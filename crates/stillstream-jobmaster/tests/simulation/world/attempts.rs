//! The workers of an attempt: tasks open, read their input, write snapshots, commit, fail, and stop or do
//! not.
//!
//! Each snapshot has a file of its own, and names its local files as an incremental backend does: those that
//! a confirmed checkpoint has by the path that they have there, all others newly written.

use super::enumerators::Splits;
use super::output::Transaction;
use super::*;

/// Local files by their names, which are numbers here, and where each lies on storage.
type Sent = BTreeMap<u64, String>;

/// What one subtask of one attempt knows of its files.
#[derive(Default, Debug)]
pub struct Known {
    /// The local files. One that is gone never comes back under its name.
    local: BTreeSet<u64>,
    /// The newest checkpoint that it knows to be completed, and what it named for that.
    confirmed: CheckpointId,
    files: Sent,
    /// What it named for checkpoints of which it has not heard yet.
    sent: BTreeMap<CheckpointId, Sent>,
    /// Full ones of which it has not heard yet: once one is completed, nothing keeps what was confirmed
    /// before.
    full: BTreeSet<CheckpointId>,
}

/// What the word for a barrier says of its checkpoint.
pub struct Barrier {
    pub place: Option<Arc<str>>,
    pub full: bool,
    pub stop: bool,
}

/// One try to run the job.
#[derive(Default, Debug)]
pub struct Attempt {
    plan: Vec<u32>,
    restored: RestoredState,
    known: BTreeMap<SubtaskId, Known>,
    open: BTreeSet<SubtaskId>,
    stopped: BTreeSet<usize>,
    /// Workers that will never stop by themselves.
    hung: BTreeSet<usize>,
    ended: bool,
    /// Where the input was when it began.
    began: u64,
    /// The first record that it has not read.
    position: u64,
    /// The sources were told to end.
    drained: bool,
    /// And a checkpoint has begun since.
    cut_since: bool,
    /// The barrier of a stop has left the sources: nothing follows.
    held: bool,
    /// How far the input was at the barrier of each checkpoint.
    cuts: BTreeMap<CheckpointId, u64>,
    /// Which of these are savepoints.
    places: BTreeMap<CheckpointId, Arc<str>>,
    /// Which of these name no file of an earlier one.
    full: BTreeSet<CheckpointId>,
    /// What each sink has prepared and not committed.
    prepared: BTreeMap<SubtaskId, Vec<Transaction>>,
    /// The newest barrier that each sink has seen.
    prepared_to: BTreeMap<SubtaskId, CheckpointId>,
    pub(super) splits: Splits,
}

impl Attempt {
    fn sinks(&self) -> u32 {
        self.plan.last().copied().unwrap_or(1)
    }

    /// How many subtasks the source has.
    pub(super) fn readers(&self) -> u32 {
        self.plan.first().copied().unwrap_or(1)
    }

    fn is_sink(&self, subtask: SubtaskId) -> bool {
        subtask.vertex.0 as usize + 1 == self.plan.len()
    }

    fn runs(&self, subtask: SubtaskId) -> bool {
        self.open.contains(&subtask) && !self.stopped.contains(&(subtask.index.0 as usize))
    }
}

impl World {
    pub(super) fn deploy(&mut self, node: usize, spec: AttemptSpec) -> Option<JobEvent> {
        let generation = spec.generation;
        for ((at, _), attempt) in &self.attempts {
            let workers = attempt.plan.iter().copied().max().unwrap_or(1) as usize;
            assert!(
                *at != node || attempt.stopped.len() == workers,
                "an attempt begins while another one runs"
            );
        }
        self.attempts.retain(|(at, _), _| *at != node);
        if self.rare_fault() {
            let error = Error::new(ErrorKind::Peer, "no worker can be started");
            return Some(JobEvent::NotDeployed { generation, error });
        }
        let plan = self.nodes[node].as_ref()?.plan.clone();
        let restored = spec.restored.map(|state| (*state).clone()).unwrap_or_default();
        let (position, pending) = self.content_of(&restored);
        self.output.assert_nothing_lost(position, &pending);
        let next = enumerators::next_of(restored.enumerators.get(&nodes::operator(0)));
        let readers = restored.operators.get(&nodes::operator(0)).into_iter().flat_map(|all| all.values());
        let files = readers.flat_map(|state| &state.incremental).filter_map(|handle| handle.meta.path());
        let held = self.splits_of(files, next, "an attempt begins");
        let splits = Splits::restored(next, held, plan.first().copied().unwrap_or(1));
        let mut attempt =
            Attempt { plan: plan.clone(), restored, began: position, position, splits, ..Attempt::default() };
        let subtasks: Vec<SubtaskId> = nodes::tasks(&plan).into_iter().map(|task| task.id).collect();
        // what was prepared before is committed by whoever is there now
        let first = SubtaskId::new(plan.len() as u32 - 1, 0);
        attempt.prepared.insert(first, pending);
        self.attempts.insert((node, generation), attempt);
        for subtask in subtasks {
            self.bag.push(Action::Open { node, generation, subtask });
        }
        None
    }

    fn attempt(&mut self, node: usize, generation: Generation) -> Option<&mut Attempt> {
        self.attempts.get_mut(&(node, generation))
    }

    pub(super) fn open(&mut self, node: usize, generation: Generation, subtask: SubtaskId) {
        let Some(attempt) = self.attempts.get(&(node, generation)) else { return };
        if attempt.stopped.contains(&(subtask.index.0 as usize)) {
            return;
        }
        let id = nodes::operator(subtask.vertex.0);
        let state = attempt.restored.operators.get(&id).and_then(|subtasks| subtasks.get(&subtask.index));
        let handles: Vec<IncrementalHandle> =
            state.map(|state| state.incremental.clone()).unwrap_or_default();
        if self.leads(generation) {
            for path in handles.iter().filter_map(|handle| handle.meta.path()) {
                assert!(self.is_there(path), "{subtask} restores {path}, which is gone");
            }
        }
        if self.rare_fault() {
            let error = Error::new(ErrorKind::State, "it cannot be opened");
            return self.report(node, generation, Report::Failed { subtask: Some(subtask), error });
        }
        let Some(attempt) = self.attempt(node, generation) else { return };
        let named = |file: &NamedStream| Some((file.name.parse().ok()?, file.stream.path()?.to_owned()));
        let files: Sent = handles.iter().flat_map(|handle| &handle.files).filter_map(named).collect();
        let (local, confirmed) = (files.keys().copied().collect(), attempt.restored.checkpoint);
        attempt.known.insert(subtask, Known { local, confirmed, files, ..Known::default() });
        attempt.open.insert(subtask);
        if attempt.is_sink(subtask) {
            let restored = attempt.prepared.remove(&subtask).unwrap_or_default();
            self.tally.committed += restored.len() as u64;
            self.output.commit(&restored);
        }
        self.report(node, generation, Report::Running(subtask));
    }

    /// Sources read, as long as there is input.
    pub(super) fn read_input(&mut self) {
        let keys: Vec<(usize, Generation)> = self.attempts.keys().copied().collect();
        for (node, generation) in keys {
            let (more, input) = (self.below(3), self.input);
            let Some(attempt) = self.attempt(node, generation) else { continue };
            let all = nodes::tasks(&attempt.plan).len();
            if attempt.open.len() < all || !attempt.stopped.is_empty() || attempt.ended {
                continue;
            }
            attempt.position += if attempt.held { 0 } else { more };
            if let Some(input) = input.filter(|input| attempt.position >= *input) {
                (attempt.position, attempt.ended) = (input, true);
                for task in nodes::tasks(&self.attempts[&(node, generation)].plan.clone()) {
                    self.report(node, generation, Report::Ended(task.id));
                }
            }
            let position = self.attempts[&(node, generation)].position;
            self.furthest = self.furthest.max(position);
        }
    }

    /// The barrier of a checkpoint leaves the sources.
    pub(super) fn cut(
        &mut self,
        node: usize,
        generation: Generation,
        checkpoint: CheckpointId,
        Barrier { place, full, stop }: Barrier,
    ) {
        if let Some(attempt) = self.attempt(node, generation) {
            assert!(!attempt.held, "checkpoint {checkpoint} begins behind the last one of a stop");
            // from any other than the last one a job that goes on would start with event time at its end
            assert!(!attempt.drained || !attempt.cut_since, "checkpoint {checkpoint} begins behind a drain");
            attempt.cut_since = attempt.drained;
            attempt.cuts.insert(checkpoint, attempt.position);
            attempt.places.extend(place.map(|place| (checkpoint, place)));
            attempt.full.extend(full.then_some(checkpoint));
            attempt.held |= stop;
        }
        self.cut_splits(node, generation, checkpoint);
    }

    /// The sources end where they are, and everything that follows from it has been emitted.
    pub(super) fn drain_sources(&mut self, node: usize, generation: Generation) {
        if self.rare_fault() {
            return;
        }
        let Some(attempt) = self.attempt(node, generation).filter(|attempt| attempt.stopped.is_empty())
        else {
            return;
        };
        attempt.drained = true;
        if !std::mem::replace(&mut attempt.ended, true) {
            for task in nodes::tasks(&attempt.plan.clone()) {
                self.report(node, generation, Report::Ended(task.id));
            }
        }
    }

    /// How far the job has come that was told to end where it is.
    pub(super) fn drained_at(&self, node: usize) -> Option<u64> {
        let mut own = self.attempts.iter().filter(|((at, _), attempt)| *at == node && attempt.drained);
        own.next().map(|(_, attempt)| attempt.position)
    }

    pub(super) fn snapshot(
        &mut self,
        node: usize,
        generation: Generation,
        checkpoint: CheckpointId,
        subtask: SubtaskId,
    ) {
        let Some(attempt) = self.attempt(node, generation).filter(|attempt| attempt.runs(subtask)) else {
            return;
        };
        let place = attempt.places.get(&checkpoint).cloned();
        let path = match &place {
            Some(location) => location.to_string(),
            None => checkpoint_paths::checkpoint(checkpoint),
        };
        let full = attempt.full.contains(&checkpoint);
        let Some(content) = self.prepare(node, generation, checkpoint, subtask) else { return };
        let Some(mut known) =
            self.attempt(node, generation).and_then(|attempt| attempt.known.remove(&subtask))
        else {
            return;
        };
        known.local.retain(|_| self.below(4) > 0);
        for _ in 0..self.below(3) {
            self.local += 1;
            known.local.insert(self.local);
        }
        known.full.extend(full.then_some(checkpoint));
        let mut sent = Sent::new();
        // a savepoint owns all its files
        for name in known.local.iter().filter(|_| place.is_none()) {
            let file = known.files.get(name).filter(|_| known.full.is_empty()).cloned();
            sent.insert(*name, file.unwrap_or_else(|| self.upload(checkpoint, generation, subtask)));
        }
        known.sent.insert(checkpoint, sent.clone());
        let range = self.attempt(node, generation).map(|attempt| {
            attempt.known.insert(subtask, known);
            let parallelism = attempt.plan[subtask.vertex.0 as usize];
            KeyGroups::new(128).range(subtask.index.0, parallelism)
        });
        if self.fault() {
            // what it has written by then is in no report
            let report = Report::Declined { checkpoint, subtask, reason: "test".into() };
            return self.report(node, generation, report);
        }
        self.written += 1;
        let file = format!("{path}/{generation}-{subtask}-{}", self.written);
        self.files.entry(path).or_default().insert(file.clone());
        self.contents.insert(file.clone(), content);
        let stream = |path: String| StreamHandle::File { path, len: 1, crc32c: 0 };
        let named =
            |(name, path): (u64, String)| NamedStream { name: name.to_string(), stream: stream(path) };
        let incremental = IncrementalHandle {
            range: range.unwrap_or(KeyGroupRange::new(0, 128)),
            format: IncrementalFormat::RocksDb,
            backend: generation.0,
            meta: stream(file),
            files: sent.into_iter().map(named).collect(),
        };
        let state =
            OperatorSubtaskState { incremental: vec![incremental], ..OperatorSubtaskState::default() };
        let snapshot = TaskSnapshot { operators: vec![(nodes::operator(subtask.vertex.0), state)] };
        let metrics = AckMetrics::default();
        self.report(node, generation, Report::Acknowledged { checkpoint, subtask, snapshot, metrics });
    }

    /// What a subtask's part of the checkpoint says of input and output.
    fn prepare(
        &mut self,
        node: usize,
        generation: Generation,
        checkpoint: CheckpointId,
        subtask: SubtaskId,
    ) -> Option<Content> {
        let attempt = self.attempt(node, generation)?;
        let position = *attempt.cuts.get(&checkpoint)?;
        let mut pending = Vec::new();
        if attempt.is_sink(subtask) {
            let (index, of) = (subtask.index.0, attempt.sinks());
            let done = attempt.prepared_to.get(&subtask).copied().unwrap_or_default();
            let mut from = attempt.cuts.range(..=done).next_back().map_or(attempt.began, |(_, at)| *at);
            // barriers come in their order, whatever order this world has for what follows from them
            let prepared = attempt.prepared.entry(subtask).or_default();
            for (id, to) in attempt.cuts.iter().filter(|(id, _)| **id > done && **id <= checkpoint) {
                prepared.push(Transaction { generation, checkpoint: *id, index, of, from, to: *to });
                from = *to;
            }
            pending = prepared.iter().filter(|t| t.checkpoint <= checkpoint).cloned().collect();
            attempt.prepared_to.insert(subtask, done.max(checkpoint));
        }
        let splits = match subtask.vertex.0 {
            0 => attempt.splits.at_barrier(checkpoint, subtask.index),
            _ => BTreeSet::new(),
        };
        Some(Content { position, pending, splits })
    }

    fn upload(&mut self, checkpoint: CheckpointId, generation: Generation, subtask: SubtaskId) -> String {
        self.tally.shared_written += 1;
        let rest = format!("{generation}-{subtask}-{}", self.tally.shared_written);
        let file = checkpoint_paths::shared_file(checkpoint, &rest);
        self.files.entry(checkpoint_paths::SHARED_FOLDER.into()).or_default().insert(file.clone());
        file
    }

    /// A subtask hears that a checkpoint is completed.
    pub(super) fn commit(
        &mut self,
        node: usize,
        generation: Generation,
        checkpoint: CheckpointId,
        subtask: SubtaskId,
    ) {
        let Some(attempt) = self.attempt(node, generation).filter(|attempt| attempt.runs(subtask)) else {
            return;
        };
        if let Some(known) = attempt.known.get_mut(&subtask)
            && checkpoint > known.confirmed
            && let Some(files) = known.sent.remove(&checkpoint)
        {
            (known.confirmed, known.files) = (checkpoint, files);
        }
        if let Some(known) = attempt.known.get_mut(&subtask) {
            known.full.retain(|full| *full > checkpoint);
        }
        let prepared = attempt.prepared.entry(subtask).or_default();
        let committed: Vec<Transaction> =
            prepared.iter().filter(|transaction| transaction.checkpoint <= checkpoint).cloned().collect();
        prepared.retain(|transaction| transaction.checkpoint > checkpoint);
        self.tally.committed += committed.len() as u64;
        self.output.commit(&committed);
        self.report(node, generation, Report::Committed { checkpoint, subtask });
    }

    /// The tasks hear that a checkpoint was given up.
    pub(super) fn aborted(&mut self, node: usize, generation: Generation, checkpoint: CheckpointId) {
        if let Some(attempt) = self.attempt(node, generation) {
            attempt.known.values_mut().for_each(|known| {
                known.full.remove(&checkpoint);
                known.sent.remove(&checkpoint);
            });
        }
    }

    pub(super) fn some_task_fails(&mut self, node: usize, generation: Generation) {
        let Some(attempt) = self.attempt(node, generation) else { return };
        let open: Vec<SubtaskId> = attempt.open.iter().copied().collect();
        let chosen = self.below(open.len() as u64 + 1) as usize;
        let subtask = open.get(chosen).copied();
        let kind = match self.below(40) {
            0 => ErrorKind::Plan,
            n if n % 2 == 0 => ErrorKind::Peer,
            _ => ErrorKind::User,
        };
        let error = Error::new(kind, format!("failure {}", self.below(3)));
        self.report(node, generation, Report::Failed { subtask, error });
        if kind == ErrorKind::Peer
            && let Some(subtask) = subtask
        {
            // a process that was lost: its workers are reported as stopped once it is known to be dead
            self.stop_worker(node, generation, subtask.index.0 as usize, false);
        }
    }

    pub(super) fn stop(&mut self, node: usize, generation: Generation, worker: usize, drain: bool) {
        let hangs = self.rare_fault();
        let Some(attempt) = self.attempt(node, generation) else { return };
        if hangs {
            attempt.hung.insert(worker);
        }
        if !attempt.hung.contains(&worker) {
            self.stop_worker(node, generation, worker, drain);
        }
    }

    /// A worker drops its dataflow. It reports that when nothing that it has started is under way any more.
    fn stop_worker(&mut self, node: usize, generation: Generation, worker: usize, drained: bool) {
        let Some(attempt) = self.attempt(node, generation) else { return };
        if attempt.stopped.insert(worker) {
            self.report(node, generation, Report::Stopped { worker, drained });
        }
    }

    pub(super) fn replace(&mut self, node: usize, workers: Vec<usize>) -> JobEvent {
        self.tally.replaced += 1;
        let (generation, replaceable) = match self.nodes[node].as_ref() {
            Some(node) => (node.engine.generation(), node.replaceable),
            None => (Generation(0), false),
        };
        if !replaceable {
            return JobEvent::NotReplaced {
                error: Error::new(ErrorKind::Timeout, "a thread cannot be ended"),
            };
        }
        if let Some(attempt) = self.attempt(node, generation) {
            attempt.stopped.extend(workers.iter().copied());
        }
        JobEvent::Replaced { workers }
    }

    pub(super) fn is_there(&self, path: &str) -> bool {
        let directory = path.split('/').next().unwrap_or_default();
        self.files.get(directory).is_some_and(|files| files.contains(path))
    }

    /// Whether the register belongs to this generation, and the job has not ended.
    pub(super) fn leads(&self, generation: Generation) -> bool {
        let leads = |r: &RegisterRecord| r.generation == generation && r.outcome == JobOutcome::Running;
        self.register.as_ref().is_some_and(leads)
    }
}
