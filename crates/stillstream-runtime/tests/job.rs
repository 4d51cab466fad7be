//! Jobs at the level of the runtime: numbers, keyed sums, a sink; failure and recovery in process.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stillstream_runtime::exchange::{OwnedKey, by_key};
use stillstream_runtime::job::{JobSettings, StateBackend, submit};
use stillstream_runtime::plan::{Exchange, Node, NodeBody, NodeId, NodeInput, Plan};
use stillstream_runtime::{
    AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output, Source, SourceStatus,
};
use stillstream_types::{
    CheckpointId, Error, OperatorStateEntry, OperatorStateHandle, OperatorSubtaskState, RedistributionMode,
    Result, SnapshotForm,
};

/// Words of state as one split list.
fn snapshot_words(words: Vec<u64>) -> AsyncSnapshot {
    Box::new(move |store| {
        let mut stream = store.create("words")?;
        words.iter().try_for_each(|word| stream.write_all(&word.to_le_bytes()))?;
        let offsets: Vec<u64> = (0..words.len() as u64).map(|n| n * 8).collect();
        let end = words.len() as u64 * 8;
        let entry = OperatorStateEntry { mode: RedistributionMode::Split, schema: Vec::new(), offsets, end };
        let states = BTreeMap::from([("words".to_string(), entry)]);
        Ok(OperatorSubtaskState {
            incremental: Vec::new(),
            operator: vec![OperatorStateHandle { states, stream: stream.finish()? }],
            keyed: Vec::new(),
        })
    })
}

fn restore_words(context: &OpenContext) -> Result<Option<Vec<u64>>> {
    let Some(state) = &context.restored else { return Ok(None) };
    let mut words = Vec::new();
    for handle in &state.operator {
        let bytes = context.store.read_all(&handle.stream)?;
        words.extend(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())));
    }
    Ok(Some(words))
}

struct Numbers {
    next: u64,
    end: u64,
    step: u64,
}

impl Source for Numbers {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        self.next = context.subtask.0 as u64;
        self.step = context.parallelism as u64;
        if let Some(words) = restore_words(context)? {
            self.next = words[0];
        }
        Ok(())
    }
    fn poll(&mut self, max: usize, out: &mut Output) -> Result<SourceStatus> {
        let mut batch = Batch::default();
        while batch.len() < max && self.next < self.end {
            batch.push(self.next, None);
            self.next += self.step;
        }
        out.batch(batch);
        Ok(if self.next >= self.end { SourceStatus::Ended } else { SourceStatus::More })
    }
    fn snapshot(&mut self, _: CheckpointId, _: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        Ok(Some(snapshot_words(vec![self.next])))
    }
}

/// Sums by key; each record goes on. Fails once after a number of records, or panics.
struct Sum {
    sums: BTreeMap<u64, u64>,
    seen: u64,
    fail_at: u64,
    panics: bool,
    failures: Arc<AtomicU64>,
    result: Arc<Mutex<BTreeMap<u64, u64>>>,
}

impl Operator for Sum {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        for pair in restore_words(context)?.unwrap_or_default().chunks(2) {
            self.sums.insert(pair[0], pair[1]);
        }
        Ok(())
    }
    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let batch = batch.take::<u64>()?;
        for value in &batch.values {
            *self.sums.entry(value % 100).or_default() += value;
        }
        self.seen += batch.len() as u64;
        if self.seen > self.fail_at && self.failures.load(Ordering::SeqCst) > 0 {
            self.failures.fetch_sub(1, Ordering::SeqCst);
            assert!(!self.panics, "a bug in user code");
            return Err(Error::msg("a wrong record"));
        }
        out.batch(batch);
        Ok(())
    }
    fn snapshot(&mut self, _: CheckpointId, _: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        Ok(Some(snapshot_words(self.sums.iter().flat_map(|(k, v)| [*k, *v]).collect())))
    }
    fn finish(&mut self) -> Result<()> {
        self.result.lock().unwrap().extend(self.sums.iter().map(|(k, v)| (*k, *v)));
        Ok(())
    }
}

struct Sink;
impl Operator for Sink {
    fn process(&mut self, _: usize, _: AnyBatch, _: &mut Output) -> Result<()> {
        Ok(())
    }
}

fn node(name: &str, body: NodeBody, input: Option<Exchange>) -> Node {
    let at = |exchange| NodeInput { from: NodeId(0), side: None, port: 0, exchange };
    Node {
        name: name.into(),
        uid: Some(name.into()),
        parallelism: None,
        max_parallelism: None,
        stateful: true,
        chaining: true,
        starts_chain: false,
        buffer_timeout: None,
        with_source: false,
        event_time: stillstream_runtime::plan::EventTimeRole::Passes,
        body,
        inputs: input.map(at).into_iter().collect(),
    }
}

struct Fault {
    fail_at: u64,
    panics: bool,
    times: u64,
}

fn run(
    n: u64,
    fault: Fault,
    settings: JobSettings,
) -> (Result<stillstream_runtime::job::JobResult>, BTreeMap<u64, u64>) {
    let result: Arc<Mutex<BTreeMap<u64, u64>>> = Arc::default();
    let failures = Arc::new(AtomicU64::new(fault.times));
    let mut plan = Plan::default();
    plan.add(node(
        "numbers",
        NodeBody::Source(Arc::new(move || Ok(Box::new(Numbers { next: 0, end: n, step: 1 })))),
        None,
    ));
    let selector = Arc::new(OwnedKey(|n: &u64| n % 100));
    let exchange = Exchange::Key(Arc::new(move |groups, p| by_key::<u64, _>(selector.clone(), groups, p)));
    let shared = result.clone();
    plan.add(node(
        "sum",
        NodeBody::Operator(Arc::new(move || {
            Ok(Box::new(Sum {
                sums: BTreeMap::new(),
                seen: 0,
                fail_at: fault.fail_at,
                panics: fault.panics,
                failures: failures.clone(),
                result: shared.clone(),
            }))
        })),
        Some(exchange),
    ));
    let mut sink = node("sink", NodeBody::Operator(Arc::new(|| Ok(Box::new(Sink)))), Some(Exchange::Forward));
    sink.inputs[0].from = NodeId(1);
    plan.add(sink);
    let outcome = submit(plan, settings).and_then(stillstream_runtime::job::JobClient::wait);
    let sums = result.lock().unwrap().clone();
    (outcome, sums)
}

fn expected(n: u64) -> BTreeMap<u64, u64> {
    let mut sums = BTreeMap::new();
    (0..n).for_each(|value| *sums.entry(value % 100).or_default() += value);
    sums
}

fn settings(name: &str, interval_ms: Option<u64>) -> JobSettings {
    let mut settings = JobSettings { name: name.into(), parallelism: 2, ..JobSettings::default() };
    settings.checkpoint.interval = interval_ms.map(Duration::from_millis);
    settings
}

const NONE: Fault = Fault { fail_at: 0, panics: false, times: 0 };

#[test]
fn a_bounded_job_without_checkpoints_runs_to_its_end() {
    let (outcome, sums) = run(1_000_000, NONE, settings("plain", None));
    assert_eq!(outcome.unwrap().records_in, 1_000_000);
    assert_eq!(sums, expected(1_000_000));
}

#[test]
fn a_bounded_job_with_checkpoints_takes_a_final_one() {
    let (outcome, sums) = run(3_000_000, NONE, settings("checkpointed", Some(10)));
    let outcome = outcome.unwrap();
    assert!(outcome.checkpoints.completed >= 1, "{outcome}");
    assert_eq!(sums, expected(3_000_000));
}

#[test]
fn an_error_and_a_panic_go_back_to_the_last_checkpoint_and_the_sums_are_exact() {
    for panics in [false, true] {
        let mut settings = settings("failing", Some(10));
        settings.restart = Some(stillstream_types::RestartStrategy::FixedDelay {
            attempts: 5,
            delay: Duration::from_millis(1),
        });
        let (outcome, sums) = run(4_000_000, Fault { fail_at: 500_000, panics, times: 2 }, settings);
        let outcome = outcome.unwrap();
        // both subtasks may fail in the same attempt
        assert!((1..=2).contains(&outcome.restarts), "{outcome}");
        assert_eq!(sums, expected(4_000_000));
    }
}

#[test]
fn without_checkpoints_a_failure_ends_the_job_and_names_the_operator() {
    let (outcome, _) =
        run(1_000_000, Fault { fail_at: 1000, panics: true, times: 1 }, settings("fatal", None));
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("operator `sum`") && error.contains("a bug in user code"), "{error}");
}

#[test]
fn a_job_in_a_directory_leaves_nothing_behind_but_the_register() {
    let dir = tempfile::tempdir().unwrap();
    let uri = dir.path().to_str().unwrap().to_string();
    let mut settings = settings("in-a-directory", Some(10));
    settings.backend = StateBackend::Fs { checkpoint_uri: uri, asynchronous: true };
    let (outcome, sums) = run(3_000_000, NONE, settings.clone());
    assert!(outcome.unwrap().checkpoints.completed >= 1);
    assert_eq!(sums, expected(3_000_000));
    let job = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let left: Vec<_> = std::fs::read_dir(job)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(left.iter().all(|name| !name.starts_with("chk-")), "{left:?}");
    // a finished job does not run again unasked
    let (outcome, sums) = run(1000, NONE, settings.clone());
    let again = outcome.unwrap();
    assert!(again.finished_before.is_some() && again.records_in == 3_000_000, "{again}");
    assert!(sums.is_empty());
    settings.start_fresh = true;
    let (outcome, sums) = run(1000, NONE, settings);
    let anew = outcome.unwrap();
    assert_eq!((anew.resumed_from, anew.finished_before), (None, None));
    assert_eq!(sums, expected(1000));
}
