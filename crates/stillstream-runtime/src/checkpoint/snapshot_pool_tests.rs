use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;

use stillstream_state::MemorySnapshotStore;
use stillstream_testing::Gate;
use stillstream_types::OperatorSubtaskState;

use super::*;
use crate::clock::ManualClock;

/// Reports as they come.
struct Reports(Mutex<mpsc::Sender<(Generation, Report)>>);

impl ReportSink for Reports {
    fn report(&self, generation: Generation, report: Report) {
        // the test may have seen enough
        let _ = self.0.lock().send((generation, report));
    }
}

/// Stores that nothing is read from.
#[derive(Debug)]
struct Stores;

impl SnapshotStores for Stores {
    fn store(&self, _: CheckpointId, _: &str, _: Option<&SavepointTarget>) -> Result<Box<dyn SnapshotStore>> {
        Ok(Box::new(MemorySnapshotStore::default()))
    }

    fn reader(&self, _: Option<&str>) -> Result<Arc<dyn SnapshotStore>> {
        Ok(Arc::new(MemorySnapshotStore::default()))
    }
}

struct Bench {
    pool: Arc<SnapshotPool>,
    reports: Arc<Reports>,
    heard: mpsc::Receiver<(Generation, Report)>,
    /// How many parts have been carried out.
    carried_out: Arc<AtomicU64>,
}

impl Bench {
    fn new(threads: usize) -> Self {
        let pool = SnapshotPool::start(threads, Arc::new(Stores), Arc::new(ManualClock::default())).unwrap();
        let (sender, heard) = mpsc::channel();
        Self { pool, reports: Arc::new(Reports(Mutex::new(sender))), heard, carried_out: Arc::default() }
    }

    /// Submits a job whose only part passes the gate.
    fn submit(&self, generation: u64, checkpoint: u64, gate: &Gate) {
        let (gate, carried_out) = (gate.clone(), self.carried_out.clone());
        let part: AsyncSnapshot = Box::new(move |_| {
            gate.pass();
            carried_out.fetch_add(1, SeqCst);
            Ok(OperatorSubtaskState::default())
        });
        self.pool.submit(SnapshotJob {
            generation: Generation(generation),
            checkpoint: CheckpointId(checkpoint),
            savepoint: None,
            subtask: SubtaskId::new(0, 0),
            parts: vec![(OperatorId::from_uid("a"), "a".into(), part)],
            metrics: AckMetrics::default(),
            reports: self.reports.clone(),
        });
    }

    fn next(&self) -> (Generation, Report) {
        self.heard.recv_timeout(Duration::from_secs(30)).unwrap()
    }
}

fn open() -> Gate {
    let gate = Gate::new();
    gate.open();
    gate
}

#[test]
fn a_generation_is_retired_when_its_work_under_way_has_ended_and_what_waited_is_dropped() {
    let (bench, gate) = (Bench::new(1), Gate::new());
    bench.submit(1, 1, &gate);
    bench.submit(1, 2, &gate);
    bench.submit(2, 3, &open());
    gate.wait_for_arrival();
    std::thread::scope(|scope| {
        let retiring = scope.spawn(|| {
            bench.pool.retire(Generation(1));
            bench.carried_out.load(SeqCst)
        });
        // what waited is gone although the thread is still busy
        let kept = |pool: &SnapshotPool| pool.0.state.lock().waiting.len() == 1;
        let dropped = (0..30_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            kept(&bench.pool)
        });
        assert!(dropped, "what waited was not dropped");
        assert!(!retiring.is_finished(), "its first part is still under way");
        gate.open();
        assert!(retiring.join().unwrap() >= 1, "the part under way was awaited");
    });
    assert!(matches!(
        bench.next(),
        (Generation(1), Report::Acknowledged { checkpoint: CheckpointId(1), .. })
    ));
    assert!(matches!(
        bench.next(),
        (Generation(2), Report::Acknowledged { checkpoint: CheckpointId(3), .. })
    ));
    assert_eq!(bench.carried_out.load(SeqCst), 2, "the waiting part of generation 1 was never carried out");
}

#[test]
fn work_of_a_retired_generation_is_refused_and_that_of_the_next_is_done() {
    let bench = Bench::new(2);
    bench.pool.retire(Generation(4));
    bench.submit(3, 1, &open());
    bench.submit(4, 2, &open());
    bench.submit(5, 3, &open());
    assert!(matches!(
        bench.next(),
        (Generation(5), Report::Acknowledged { checkpoint: CheckpointId(3), .. })
    ));
    bench.pool.retire(Generation(5));
    assert_eq!(bench.carried_out.load(SeqCst), 1);
    assert!(bench.heard.try_recv().is_err(), "nobody is told of what was refused");
}

#[test]
fn a_part_that_panics_declines_its_checkpoint_and_the_thread_goes_on() {
    let bench = Bench::new(1);
    let part: AsyncSnapshot = Box::new(|_| panic!("no such page"));
    bench.pool.submit(SnapshotJob {
        generation: Generation(1),
        checkpoint: CheckpointId(1),
        savepoint: None,
        subtask: SubtaskId::new(0, 0),
        parts: vec![(OperatorId::from_uid("a"), "a".into(), part)],
        metrics: AckMetrics::default(),
        reports: bench.reports.clone(),
    });
    match bench.next().1 {
        Report::Declined { reason, .. } => assert!(reason.contains("no such page"), "{reason}"),
        other => panic!("{other:?}"),
    }
    bench.submit(1, 2, &open());
    assert!(matches!(bench.next().1, Report::Acknowledged { checkpoint: CheckpointId(2), .. }));
}
