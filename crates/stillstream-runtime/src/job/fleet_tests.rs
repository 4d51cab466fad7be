//! What workers do with the JobManager's words, whenever those come.

use std::sync::atomic::Ordering::SeqCst;

use stillstream_types::{CheckpointId, Generation, SavepointFormat, SavepointTarget, SnapshotForm};

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::control::{AttemptSpec, Control, Report};
use crate::dataflow::exchange::{OwnedKey, by_key};
use crate::job::settings::JobSettings;
use crate::operator::batch::{AnyBatch, Batch};
use crate::operator::{AsyncSnapshot, Operator, Output, Source, SourceStatus};
use crate::plan::{EventTimeRole, Exchange, Node, NodeBody, NodeId, NodeInput, Plan};
use parking_lot::Mutex;

/// Emits numbers as fast as it may.
struct Numbers {
    next: u64,
    polls: Arc<std::sync::atomic::AtomicU64>,
}

impl Source for Numbers {
    fn poll(&mut self, max: usize, out: &mut Output) -> Result<SourceStatus> {
        self.polls.fetch_add(1, SeqCst);
        let mut batch = Batch::default();
        for _ in 0..max.min(100) {
            batch.push(self.next, None);
            self.next += 1;
        }
        out.batch(batch);
        Ok(SourceStatus::More)
    }
    fn snapshot(&mut self, _: CheckpointId, _: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        Ok(None)
    }
}

/// Notes in which form it was asked for its state.
struct Asked(Arc<Mutex<Vec<(u64, SnapshotForm)>>>);

impl Operator for Asked {
    fn process(&mut self, _: usize, _: AnyBatch, _: &mut Output) -> Result<()> {
        Ok(())
    }
    fn snapshot(&mut self, id: CheckpointId, form: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        self.0.lock().push((id.0, form));
        Ok(None)
    }
}

fn node(name: &str, parallelism: u32, body: NodeBody, input: Option<Exchange>) -> Node {
    let at = |exchange| NodeInput { from: NodeId(0), side: None, port: 0, exchange };
    Node {
        name: name.into(),
        uid: Some(name.into()),
        parallelism: Some(parallelism),
        max_parallelism: None,
        stateful: true,
        chaining: true,
        starts_chain: false,
        buffer_timeout: None,
        with_source: false,
        event_time: EventTimeRole::Passes,
        body,
        inputs: input.map(at).into_iter().collect(),
    }
}

struct Bench {
    fleet: LocalFleet,
    reports: mpsc::Receiver<Report>,
    asked: Arc<Mutex<Vec<(u64, SnapshotForm)>>>,
    polls: Arc<std::sync::atomic::AtomicU64>,
}

const WORD: Duration = Duration::from_secs(60);

impl Bench {
    /// A source in worker 0, and behind it an operator in each of two workers.
    fn new() -> Self {
        let (asked, polls) =
            (Arc::<Mutex<Vec<_>>>::default(), Arc::<std::sync::atomic::AtomicU64>::default());
        let (source, operator) = (polls.clone(), asked.clone());
        let mut plan = Plan::default();
        let body = move || Ok(Box::new(Numbers { next: 0, polls: source.clone() }) as Box<dyn Source>);
        plan.add(node("numbers", 1, NodeBody::Source(Arc::new(body)), None));
        let selector = Arc::new(OwnedKey(|n: &u64| *n));
        let exchange =
            Exchange::Key(Arc::new(move |groups, p| by_key::<u64, _>(selector.clone(), groups, p)));
        let body = move || Ok(Box::new(Asked(operator.clone())) as Box<dyn Operator>);
        plan.add(node("asked", 2, NodeBody::Operator(Arc::new(body)), Some(exchange)));
        let settings = JobSettings { parallelism: 2, ..JobSettings::default() };
        let physical = Arc::new(plan.compile(2, true).unwrap());
        let stores = crate::job::snapshot_stores(&settings, &None);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let (sender, reports) = mpsc::channel();
        let sender = Mutex::new(sender);
        let queue = Arc::new(ReportQueue(move |_, report| drop(sender.lock().send(report))));
        let context =
            crate::job::context_factory(&settings, &physical, &stores, &clock, &Arc::default(), queue);
        let mut fleet = LocalFleet::start(2, context.unwrap()).unwrap();
        fleet.start(AttemptSpec { generation: Generation(1), restored: None }).unwrap();
        Self { fleet, reports, asked, polls }
    }

    /// Tells one worker alone.
    fn tell(&self, worker: usize, control: Control) {
        self.fleet.tell(worker, control);
    }

    /// Waits for so many acknowledgements; says by whom.
    fn acknowledged(&self, checkpoint: u64, count: usize) -> Vec<(u32, u32)> {
        let mut by = Vec::new();
        while by.len() < count {
            match self.reports.recv_timeout(WORD).unwrap() {
                Report::Acknowledged { checkpoint: id, subtask, .. } if id.0 == checkpoint => {
                    by.push((subtask.vertex.0, subtask.index.0));
                }
                Report::Declined { .. } | Report::Failed { .. } => panic!("it fails"),
                _ => {}
            }
        }
        by.sort_unstable();
        by
    }

    fn stop(mut self) {
        self.fleet.send(Control::Stop);
        self.fleet.shutdown(WORD);
    }
}

fn trigger(id: u64, savepoint: Option<&SavepointTarget>, stop: bool) -> Control {
    Control::Trigger { id: CheckpointId(id), at_ms: 0, savepoint: savepoint.cloned(), full: false, stop }
}

#[test]
fn a_task_whose_barrier_comes_before_the_word_of_it_waits_and_takes_none_in_the_wrong_form_and_leaves_none_out()
 {
    let dir = tempfile::tempdir().unwrap();
    let target = SavepointTarget {
        location: dir.path().join("savepoint").display().to_string().into(),
        format: SavepointFormat::Native,
    };
    std::fs::create_dir(&*target.location).unwrap();
    let bench = Bench::new();
    // more than ever were remembered, the savepoint among them
    let words = |id: u64| trigger(id, (id == 20).then_some(&target), false);
    for id in 1..=40 {
        bench.tell(0, words(id));
    }
    // the source and the operator beside it have taken all; the barriers are on their way to the other
    // worker, or there
    let first = bench.acknowledged(40, 2);
    assert_eq!(first.iter().map(|(_, index)| *index).collect::<Vec<_>>(), [0, 0]);
    assert!(bench.asked.lock().len() == 40, "only one of the two operators has had the word");
    for id in 1..=40 {
        bench.tell(1, words(id));
    }
    assert_eq!(bench.acknowledged(40, 1)[0].1, 1);
    let mut asked = bench.asked.lock().clone();
    asked.sort_by_key(|(id, _)| *id);
    let form = |id| match id {
        20 => SnapshotForm::Savepoint(SavepointFormat::Native),
        _ => SnapshotForm::Checkpoint,
    };
    let expected: Vec<_> = (1..=40).flat_map(|id| [(id, form(id)); 2]).collect();
    assert_eq!(asked, expected);
    bench.stop();
}

#[test]
fn behind_the_barrier_of_a_stop_a_source_is_not_asked_for_records_and_every_task_still_confirms() {
    let bench = Bench::new();
    while bench.polls.load(SeqCst) < 3 {
        std::thread::yield_now();
    }
    for worker in [0, 1] {
        bench.tell(worker, trigger(1, None, true));
    }
    assert_eq!(bench.acknowledged(1, 3).len(), 3);
    let polls = bench.polls.load(SeqCst);
    for worker in [0, 1] {
        bench.tell(worker, Control::Complete { id: CheckpointId(1) });
    }
    let mut confirmed = 0;
    while confirmed < 3 {
        if let Report::Committed { checkpoint, .. } = bench.reports.recv_timeout(WORD).unwrap() {
            assert_eq!(checkpoint, CheckpointId(1));
            confirmed += 1;
        }
    }
    assert_eq!(bench.polls.load(SeqCst), polls, "the source has been woken by the mail, and was not polled");
    bench.stop();
}

#[test]
fn a_drain_ends_an_endless_source_and_every_task_says_that_it_has_ended() {
    let bench = Bench::new();
    for worker in [0, 1] {
        bench.tell(worker, Control::Drain);
    }
    let mut ended = 0;
    while ended < 3 {
        ended += u32::from(matches!(bench.reports.recv_timeout(WORD).unwrap(), Report::Ended(_)));
    }
    for worker in [0, 1] {
        bench.tell(worker, trigger(1, None, false));
    }
    assert_eq!(bench.acknowledged(1, 3).len(), 3);
    for worker in [0, 1] {
        bench.tell(worker, Control::Finish);
    }
    let mut drained = 0;
    while drained < 2 {
        if let Report::Stopped { drained: by_itself, .. } = bench.reports.recv_timeout(WORD).unwrap() {
            assert!(by_itself);
            drained += 1;
        }
    }
    let mut fleet = bench.fleet;
    fleet.shutdown(WORD);
}
