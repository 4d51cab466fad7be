//! A small incremental backend: it counts records in local files that are merged now and then, as an LSM
//! tree's are.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use stillstream_runtime::clock::Clock;
use stillstream_runtime::exchange::{OwnedKey, by_key};
use stillstream_runtime::plan::{Exchange, Node, NodeBody, NodeId, NodeInput, Plan};
use stillstream_runtime::{
    AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output, Source, SourceStatus,
};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointId, Error, IncrementalFormat, IncrementalHandle, KeyGroupRange, NamedStream,
    OperatorStateEntry, OperatorStateHandle, OperatorSubtaskState, RedistributionMode, Result, SnapshotForm,
    StreamHandle,
};

/// How the job misbehaves, and what it counted.
#[derive(Clone, Default)]
pub struct Behaviour {
    /// How many records there are in all.
    pub records: u64,
    /// One snapshot of this many fails when it has written its files; 0: none does.
    pub declines: u64,
    /// Fails once at this record; 0: never.
    pub fails_at: Arc<AtomicU64>,
    /// Where the source came to.
    pub emitted: Arc<AtomicU64>,
    /// Records that the state stood for at the end.
    pub counted: Arc<AtomicU64>,
}

/// How many numbers are emitted for each checkpoint: so the number of checkpoints does not depend on the
/// machine.
const STEP: u64 = 200;

/// Emits 10 numbers a millisecond, and no more than [`STEP`] before the next checkpoint is completed.
struct Numbers {
    next: u64,
    /// Where it waits for a checkpoint.
    until: u64,
    end: u64,
    emitted: Arc<AtomicU64>,
    clock: Option<Arc<dyn Clock>>,
}

impl Source for Numbers {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        self.clock = Some(context.clock.clone());
        if let Some(handle) = context.restored.iter().flat_map(|state| &state.operator).next() {
            self.next = word(&context.store.read_all(&handle.stream)?);
        }
        self.until = self.next + STEP;
        Ok(())
    }
    fn poll(&mut self, _: usize, out: &mut Output) -> Result<SourceStatus> {
        let mut batch = Batch::default();
        while batch.len() < 10 && self.next < self.end.min(self.until) {
            batch.push(self.next, None);
            self.next += 1;
        }
        out.batch(batch);
        self.emitted.store(self.next, SeqCst);
        let until_ms = self.clock.as_ref().map(|clock| clock.now_ms() + 1);
        Ok(if self.next >= self.end { SourceStatus::Ended } else { SourceStatus::Idle { until_ms } })
    }
    fn snapshot(&mut self, _: CheckpointId, _: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        let next = self.next;
        Ok(Some(Box::new(move |store| {
            let stream = write(store.create("position")?, next)?;
            let mode = RedistributionMode::Split;
            let entry = OperatorStateEntry { mode, schema: Vec::new(), offsets: vec![0], end: 8 };
            let operator =
                vec![OperatorStateHandle { states: BTreeMap::from([("next".into(), entry)]), stream }];
            Ok(OperatorSubtaskState { operator, ..OperatorSubtaskState::default() })
        })))
    }
    fn checkpoint_complete(&mut self, _: CheckpointId) -> Result<()> {
        self.until = self.next + STEP;
        Ok(())
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

fn write(mut stream: Box<dyn stillstream_types::streams::SnapshotStream>, word: u64) -> Result<StreamHandle> {
    stream.write_all(&word.to_le_bytes())?;
    Ok(stream.finish()?)
}

type Uploaded = BTreeMap<u64, StreamHandle>;

struct Counter {
    behaviour: Behaviour,
    /// Local files: how many records each stands for. A name is never used again.
    local: BTreeMap<u64, u64>,
    next_name: u64,
    /// Records since the last snapshot.
    recent: u64,
    snapshots: u64,
    /// Where the files of the newest completed checkpoint lie, and those of checkpoints that may become it.
    confirmed: Uploaded,
    sent: Arc<Mutex<BTreeMap<CheckpointId, Uploaded>>>,
}

impl Operator for Counter {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        for handle in context.restored.iter().flat_map(|state| &state.incremental) {
            for file in &handle.files {
                let name = file.name.parse().map_err(|_| Error::msg("a name that this backend gives"))?;
                self.local.insert(name, word(&context.store.read_all(&file.stream)?));
                self.next_name = self.next_name.max(name + 1);
                if context.store.owns_shared() {
                    self.confirmed.insert(name, file.stream.clone());
                }
            }
        }
        Ok(())
    }
    fn process(&mut self, _: usize, batch: AnyBatch, _: &mut Output) -> Result<()> {
        let batch = batch.take::<u64>()?;
        self.recent += batch.len() as u64;
        let fails_at = self.behaviour.fails_at.load(SeqCst);
        if fails_at > 0 && batch.values.contains(&fails_at) {
            self.behaviour.fails_at.store(0, SeqCst);
            return Err(Error::msg("told to"));
        }
        Ok(())
    }
    fn snapshot(&mut self, id: CheckpointId, _: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        let mut recent = std::mem::take(&mut self.recent);
        if self.local.len() >= 4 {
            // compaction: all files become one
            recent += std::mem::take(&mut self.local).into_values().sum::<u64>();
        }
        self.local.insert(self.next_name, recent);
        self.next_name += 1;
        self.snapshots += 1;
        let declines = self.behaviour.declines > 0 && self.snapshots.is_multiple_of(self.behaviour.declines);
        let (local, confirmed, sent) = (self.local.clone(), self.confirmed.clone(), self.sent.clone());
        Ok(Some(Box::new(move |store| {
            let uploaded = upload(store, &local, &confirmed)?;
            if declines {
                return Err(Error::msg("the disk is full, after all files were written"));
            }
            let named = |(name, stream): (&u64, &StreamHandle)| NamedStream {
                name: name.to_string(),
                stream: stream.clone(),
            };
            let handle = IncrementalHandle {
                range: KeyGroupRange::new(0, 128),
                format: IncrementalFormat::RocksDb,
                backend: 1,
                meta: write(store.create("manifest")?, id.0)?,
                files: uploaded.iter().map(named).collect(),
            };
            sent.lock().unwrap().insert(id, uploaded);
            Ok(OperatorSubtaskState { incremental: vec![handle], ..OperatorSubtaskState::default() })
        })))
    }
    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        let mut sent = self.sent.lock().unwrap();
        if let Some(files) = sent.remove(&id) {
            self.confirmed = files;
        }
        sent.retain(|later, _| *later > id);
        Ok(())
    }
    fn checkpoint_aborted(&mut self, id: CheckpointId) -> Result<()> {
        self.sent.lock().unwrap().remove(&id);
        Ok(())
    }
    fn finish(&mut self) -> Result<()> {
        self.behaviour.counted.store(self.local.values().sum::<u64>() + self.recent, SeqCst);
        Ok(())
    }
}

fn upload(store: &dyn SnapshotStore, local: &BTreeMap<u64, u64>, confirmed: &Uploaded) -> Result<Uploaded> {
    assert!(store.keeps_shared());
    let mut uploaded = Uploaded::new();
    for (name, records) in local {
        let stream = match confirmed.get(name) {
            Some(there) => there.clone(),
            None => write(store.create_shared(&format!("{name:06}"))?, *records)?,
        };
        uploaded.insert(*name, stream);
    }
    Ok(uploaded)
}

/// Numbers, counted.
pub fn plan(behaviour: &Behaviour) -> Plan {
    let node = |name: &str, body, inputs| Node {
        name: name.into(),
        uid: Some(name.into()),
        parallelism: Some(1),
        max_parallelism: Some(128),
        stateful: true,
        chaining: true,
        starts_chain: false,
        buffer_timeout: None,
        with_source: false,
        event_time: stillstream_runtime::plan::EventTimeRole::Passes,
        body,
        inputs,
    };
    let mut plan = Plan::default();
    let (end, emitted) = (behaviour.records, behaviour.emitted.clone());
    let numbers = move || {
        let emitted = emitted.clone();
        Ok(Box::new(Numbers { next: 0, until: 0, end, emitted, clock: None }) as Box<dyn Source>)
    };
    plan.add(node("numbers", NodeBody::Source(Arc::new(numbers)), vec![]));
    let behaviour = behaviour.clone();
    let counter = move || {
        Ok(Box::new(Counter {
            behaviour: behaviour.clone(),
            local: BTreeMap::new(),
            next_name: 0,
            recent: 0,
            snapshots: 0,
            confirmed: Uploaded::new(),
            sent: Arc::default(),
        }) as Box<dyn Operator>)
    };
    let selector = Arc::new(OwnedKey(|n: &u64| *n));
    let exchange = Exchange::Key(Arc::new(move |groups, p| by_key::<u64, _>(selector.clone(), groups, p)));
    let input = NodeInput { from: NodeId(0), side: None, port: 0, exchange };
    plan.add(node("counter", NodeBody::Operator(Arc::new(counter)), vec![input]));
    plan
}
