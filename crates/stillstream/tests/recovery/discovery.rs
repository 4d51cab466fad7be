//! Splits that are found while a job runs: read once each, whatever fails, and at the right time.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

use stillstream::connect::{
    Assignments, Enumerator, EnumeratorContext, SourceContext, SplitEnumerator, SplitReader, SplitSource,
};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId, SourceStatus};

/// Records of each split.
const RECORDS: u64 = 50;

/// How many splits there are by now, and how many there will be. Another one appears with each completed
/// checkpoint.
#[derive(Clone)]
struct Arrivals {
    there: Arc<AtomicU64>,
    all: u64,
    /// After so many records of all attempts together the reader fails; none: never.
    failures: Arc<Mutex<Vec<u64>>>,
    read: Arc<AtomicU64>,
    /// What the enumerator does instead of looking.
    instead: Option<Arc<dyn Fn() -> Result<()> + Send + Sync>>,
}

impl Arrivals {
    fn new(all: u64, failures: &[u64]) -> Self {
        let failures = Arc::new(Mutex::new(failures.to_vec()));
        Self { there: Arc::new(AtomicU64::new(1)), all, failures, read: Arc::default(), instead: None }
    }
}

struct Find {
    source: Arrivals,
    assigned: u64,
}

impl SplitEnumerator for Find {
    type Split = (u64, u64);
    type State = u64;
    fn restore(&mut self, state: Option<u64>, held: Vec<(u64, u64)>) -> Result<()> {
        self.assigned = state.unwrap_or(held.len() as u64);
        Ok(())
    }
    fn discover(&mut self, assignments: &mut Assignments<(u64, u64)>) -> Result<Option<std::time::Duration>> {
        if let Some(instead) = &self.source.instead {
            instead()?;
        }
        let there = self.source.there.load(SeqCst).min(self.source.all);
        (self.assigned..there).for_each(|split| assignments.assign((split, 0)));
        self.assigned = there;
        if there == self.source.all {
            assignments.no_more();
        }
        Ok(Some(millis(1)))
    }
    fn state(&self) -> u64 {
        self.assigned
    }
}

struct Reader {
    source: Arrivals,
    splits: Vec<(u64, u64)>,
}

impl SplitSource for Arrivals {
    type Item = u64;
    type Split = (u64, u64);
    fn enumerator(&self, _: &EnumeratorContext) -> Result<Option<Enumerator<(u64, u64)>>> {
        Ok(Some(Enumerator::new(Find { source: self.clone(), assigned: 0 })))
    }
    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<u64, (u64, u64)>>> {
        Ok(Box::new(Reader { source: self.clone(), splits: Vec::new() }))
    }
}

impl SplitReader<u64, (u64, u64)> for Reader {
    fn assign(&mut self, splits: Vec<(u64, u64)>) -> Result<()> {
        self.splits.extend(splits);
        Ok(())
    }
    fn poll(&mut self, _: usize, out: &mut Batch<u64>) -> Result<SourceStatus> {
        let Some((split, next)) = self.splits.iter_mut().find(|(_, next)| *next < RECORDS) else {
            return Ok(SourceStatus::Ended);
        };
        out.values.push(*split * RECORDS + *next);
        *next += 1;
        let read = self.source.read.fetch_add(1, SeqCst);
        let mut failures = self.source.failures.lock().unwrap();
        if failures.first().is_some_and(|at| read >= *at) {
            failures.remove(0);
            return Err(Error::new(ErrorKind::Connector, "a failure that is wanted"));
        }
        Ok(SourceStatus::More)
    }
    fn positions(&self) -> Vec<(u64, u64)> {
        self.splits.iter().copied().filter(|(_, next)| *next < RECORDS).collect()
    }
    fn checkpoint_complete(&mut self, _: CheckpointId) -> Result<()> {
        self.source.there.fetch_add(1, SeqCst);
        Ok(())
    }
}

fn environment(parallelism: u32, restarts: u32) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(parallelism)
        .enable_checkpointing(millis(10))
        .set_restart_strategy(RestartStrategy::fixed_delay(restarts, millis(1)));
    env
}

#[test]
fn splits_that_are_found_while_the_job_fails_again_and_again_are_read_once_each() {
    let source = Arrivals::new(20, &[30, 200, 201, 500, 700]);
    let env = environment(2, 5);
    let out = env.from_source("arrivals", source.clone()).uid("arrivals").collect();
    let result = env.execute("discovery").unwrap();
    // the two subtasks may fail at once
    assert!(
        result.restarts >= 3 && source.failures.lock().unwrap().is_empty(),
        "{} restarts",
        result.restarts
    );
    let mut found = out.items();
    found.sort();
    assert!(found.iter().copied().eq(0..20 * RECORDS), "{} records: {found:?}", found.len());
}

#[test]
fn a_subtask_without_splits_holds_no_window_back_and_what_it_gets_later_is_not_dropped_unseen() {
    // one split after another: at any time at most one of four subtasks has records
    let env = environment(4, 0);
    let windows = env
        .from_source("arrivals", Arrivals::new(12, &[]))
        .uid("arrivals")
        .watermarks(WatermarkStrategy::monotonic().timestamp(|n: &u64| Timestamp::from_millis(*n as i64)))
        .uid("time")
        .key_by(|_| 0u32)
        .window(Tumbling::of(millis(RECORDS)))
        .count()
        .uid("windows")
        .collect();
    let result = env.execute("idle").unwrap();
    let counted: u64 = windows.items().iter().map(|window| window.1).sum();
    let late: u64 = result.counters.iter().filter(|(name, _)| name.contains("late")).map(|(_, n)| *n).sum();
    assert_eq!(counted + late, 12 * RECORDS, "{:?}", result.counters);
}

#[test]
fn an_enumerator_that_fails_or_panics_fails_the_job_with_the_name_of_its_source() {
    let error = |instead: Arc<dyn Fn() -> Result<()> + Send + Sync>| {
        let env = environment(2, 1);
        let source = Arrivals { instead: Some(instead), ..Arrivals::new(3, &[]) };
        env.from_source("arrivals", source).uid("arrivals").collect();
        env.execute("fails").unwrap_err().to_string()
    };
    let failed = error(Arc::new(|| Err(Error::msg("no route to host"))));
    let panicked = error(Arc::new(|| panic!("index out of range")));
    for (text, why) in [(failed, "no route to host"), (panicked, "panicked: index out of range")] {
        assert!(text.contains("the splits of source `arrivals`") && text.contains(why), "{text}");
    }
}

#[test]
fn an_enumerator_that_blocks_holds_up_neither_records_nor_checkpoints() {
    let source = Arrivals::new(1, &[]);
    let (there, looked) = (source.there.clone(), Arc::new((Mutex::new(0), Condvar::new())));
    let blocks = looked.clone();
    let waits = move || {
        let mut times = blocks.0.lock().unwrap();
        *times += 1;
        // at its second call it returns when checkpoints have been completed, each of which adds one
        while *times > 1 && there.load(SeqCst) < 4 {
            times = blocks.1.wait_timeout(times, millis(1)).unwrap().0;
        }
        Ok(())
    };
    let source = Arrivals { all: 4, instead: Some(Arc::new(waits)), ..source };
    let env = environment(1, 0);
    let out = env.from_source("arrivals", source).uid("arrivals").collect();
    env.execute("blocks").unwrap();
    assert_eq!(out.items().len() as u64, 4 * RECORDS);
    assert!(*looked.0.lock().unwrap() >= 2);
}

#[test]
fn splits_are_dealt_out_anew_when_a_job_goes_on_at_another_parallelism() {
    let folder = tempfile::tempdir().unwrap();
    let source = Arrivals::new(30, &[]);
    let out = Collect::new();
    let mut from: Option<String> = None;
    for parallelism in [1, 3, 2] {
        let mut env = environment(parallelism, 0);
        env.set_state_backend(FsStateBackend::new(folder.path().join("ck").display().to_string()));
        let arrivals = env.from_source("arrivals", source.clone()).uid("arrivals");
        arrivals.sink_to("out", out.clone()).uid("out");
        if let Some(from) = &from {
            env.restore_from(from);
        }
        let job = env.execute_async("rescaled").unwrap();
        if parallelism == 2 {
            job.wait().unwrap();
        } else {
            let wanted = source.there.load(SeqCst) + 4;
            while source.there.load(SeqCst) < wanted {
                assert!(!job.status().is_terminal(), "it has ended");
                std::thread::yield_now();
            }
            let at = folder.path().join(format!("sp-{parallelism}"));
            let report =
                job.stop_with_savepoint(Some(at.to_str().unwrap()), false, SavepointFormat::Canonical);
            from = Some(report.unwrap().path);
            job.wait().unwrap();
        }
    }
    let mut all = out.items();
    all.sort();
    assert!(all.iter().copied().eq(0..30 * RECORDS), "{} records: {all:?}", all.len());
}
