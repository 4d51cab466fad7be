//! All subtasks of one window operator, fed like a job feeds them.

use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_runtime::exchange::OwnedKey;
use stillstream_runtime::metrics::Counters;
use stillstream_runtime::testing::redistribute;
use stillstream_runtime::{Batch, Emission, OpenContext, Operator, Output};
use stillstream_state::{Aggregate, Key, MemorySnapshotStore, TimeDomain};
use stillstream_types::{
    CheckpointId, KeyGroups, KeyHash, OperatorSubtaskState, Result, SnapshotForm, Timestamp,
};

use crate::collector::Collector;
use crate::side_output::{OutputTag, Sides};
use crate::window::aligned::AlignedWindows;
use crate::window::assigner::{Kind, Windows};
use crate::window::general::{Aggregated, GeneralWindows, Listed, Parts};
use crate::window::process::{Apply, Collect, Plain};
use crate::window::session::SessionWindows;
use crate::window::shell::Settings;
use crate::window::{EventTimeTrigger, TimeWindow, With};

/// Key, value, time.
pub(super) type Record = (u32, u64, i64);
/// Key, start, end, number of records, sum.
pub(super) type Fired = (u32, i64, i64, u64, u64);

pub(super) const LATE: OutputTag<Record> = OutputTag::new("late");

type Selector = OwnedKey<fn(&Record) -> u32>;

pub(super) struct Sum;

impl Aggregate for Sum {
    type In = Record;
    type Acc = (u64, u64);
    type Out = (u64, u64);
    fn create(&self) -> (u64, u64) {
        (0, 0)
    }
    fn add(&self, acc: &mut (u64, u64), record: Record) {
        *acc = (acc.0 + 1, acc.1 + record.1);
    }
    fn merge(&self, acc: &mut (u64, u64), other: (u64, u64)) {
        *acc = (acc.0 + other.0, acc.1 + other.1);
    }
    fn result(&self, acc: &(u64, u64)) -> (u64, u64) {
        *acc
    }
}

/// Keeps all records and adds them up when the window fires.
fn sum_of_all(key: &u32, window: TimeWindow, records: Vec<Record>, out: &mut Collector<Fired>) -> Result<()> {
    let (start, end) = (window.start.as_millis(), window.end.as_millis());
    out.emit((*key, start, end, records.len() as u64, records.iter().map(|record| record.1).sum()));
    Ok(())
}

/// What the operator under test is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub kind: Kind,
    pub lateness: i64,
    /// Keeps all records, or only sums.
    pub keep_all: bool,
    pub late_output: bool,
    /// The operator that knows all windows, in place of the one for this kind.
    pub general: bool,
}

/// The same window by the operator that knows all of them.
fn general(setup: Setup, settings: Settings<Record>, selector: Arc<Selector>) -> Box<dyn Operator> {
    let windows = Windows::Fixed(setup.kind, TimeDomain::EventTime);
    let trigger = Arc::new(EventTimeTrigger::create());
    let emit = |key: &u32, window: TimeWindow, (n, sum): (u64, u64)| {
        Some((*key, window.start.as_millis(), window.end.as_millis(), n, sum))
    };
    if setup.keep_all {
        let contents = Arc::new(Listed(PhantomData));
        let function = Arc::new(Plain(Arc::new(Apply(sum_of_all, PhantomData))));
        let parts = Parts { windows, settings, trigger, contents, function };
        return Box::new(GeneralWindows::new(parts, selector));
    }
    let contents = Arc::new(Aggregated(Arc::new(Sum)));
    let function = Arc::new(Plain(Arc::new(With(emit, PhantomData))));
    Box::new(GeneralWindows::new(Parts { windows, settings, trigger, contents, function }, selector))
}

fn boxed(setup: Setup) -> Box<dyn Operator> {
    let sides = Sides::new();
    if setup.late_output {
        sides.declare(&LATE, "window").unwrap();
    }
    let settings = Settings { lateness: setup.lateness, late: setup.late_output.then_some(LATE), sides };
    let selector: Arc<Selector> = Arc::new(OwnedKey(|record: &Record| record.0));
    let emit = |key: &u32, window: TimeWindow, (n, sum): (u64, u64)| {
        Some((*key, window.start.as_millis(), window.end.as_millis(), n, sum))
    };
    let emit = Arc::new(With(emit, PhantomData));
    if setup.general {
        return general(setup, settings, selector);
    }
    if setup.keep_all {
        let (collect, emit) = (Arc::new(Collect(PhantomData)), Arc::new(Apply(sum_of_all, PhantomData)));
        return match setup.kind {
            Kind::Aligned(windows) => {
                Box::new(AlignedWindows::new(windows, settings, selector, collect, emit))
            }
            Kind::Session { gap } => Box::new(SessionWindows::new(gap, settings, selector, collect, emit)),
        };
    }
    match setup.kind {
        Kind::Aligned(windows) => {
            Box::new(AlignedWindows::new(windows, settings, selector, Arc::new(Sum), emit))
        }
        Kind::Session { gap } => Box::new(SessionWindows::new(gap, settings, selector, Arc::new(Sum), emit)),
    }
}

struct Subtask {
    operator: Box<dyn Operator>,
    out: Output,
}

pub(super) struct ByHand {
    setup: Setup,
    subtasks: Vec<Subtask>,
    pub counters: Arc<Counters>,
}

pub(super) fn hash(key: u32) -> KeyHash {
    key.key_hash(KeyGroups::new(128))
}

impl ByHand {
    pub fn open(setup: Setup, parallelism: u32, state: &[OperatorSubtaskState]) -> Self {
        let counters = Arc::new(Counters::default());
        let dealt = redistribute(state, parallelism as usize);
        let keyed: Vec<_> = state.iter().flat_map(|state| state.keyed.clone()).collect();
        let subtasks = (0..parallelism).zip(dealt).map(|(index, mut dealt)| {
            let mut context = OpenContext::for_test("window", index, parallelism);
            context.counters = counters.clone();
            if !state.is_empty() {
                dealt.keyed = keyed.clone();
                context = context.restored_for_test(2, CheckpointId(1), dealt);
            }
            let mut operator = boxed(setup);
            operator.open(&mut context).unwrap();
            Subtask { operator, out: Output::default() }
        });
        Self { setup, subtasks: subtasks.collect(), counters }
    }

    pub fn parallelism(&self) -> u32 {
        self.subtasks.len() as u32
    }

    pub fn owner(&self, key: u32) -> u32 {
        KeyGroups::new(128).owner(hash(key).group(), self.parallelism())
    }

    /// One batch, split over the subtasks. Returns results and late records.
    pub fn records(&mut self, records: &[Record]) -> (Vec<Fired>, Vec<Record>) {
        for index in 0..self.parallelism() {
            let own: Vec<Record> =
                records.iter().copied().filter(|record| self.owner(record.0) == index).collect();
            let subtask = &mut self.subtasks[index as usize];
            let batch = Batch {
                times: own.iter().map(|record| record.2).collect(),
                hashes: own.iter().map(|record| hash(record.0)).collect(),
                values: own,
            };
            subtask.operator.process(0, batch.into(), &mut subtask.out).unwrap();
            assert!(
                !subtask.operator.resume(&mut subtask.out).unwrap(),
                "a batch leaves nothing to go on with"
            );
        }
        self.take()
    }

    /// The watermark reaches some subtasks.
    pub fn watermark(&mut self, watermark: i64, reaches: impl Fn(u32) -> bool) -> Vec<Fired> {
        let mut fired = Vec::new();
        for index in (0..self.parallelism()).filter(|index| reaches(*index)) {
            let subtask = &mut self.subtasks[index as usize];
            let watermark = Timestamp::from_millis(watermark);
            subtask.operator.watermark(watermark, &mut subtask.out).unwrap();
            while subtask.operator.resume(&mut subtask.out).unwrap() {}
            let mut emitted = std::mem::take(&mut subtask.out).take_all();
            let Some(Emission::Watermark(passed)) = emitted.pop() else { panic!("the watermark comes last") };
            assert_eq!(passed, watermark);
            let mut last = i64::MIN;
            for emission in emitted {
                let Emission::Batch(batch) = emission else { panic!("{emission:?}") };
                let batch = batch.take::<Fired>().unwrap();
                for (result, time) in batch.values.into_iter().zip(batch.times) {
                    assert_eq!(
                        time,
                        result.2.saturating_sub(1),
                        "results carry the last moment of the window"
                    );
                    assert!(last <= time, "windows fire in order");
                    last = time;
                    fired.push(result);
                }
            }
        }
        fired.sort_unstable();
        fired
    }

    fn take(&mut self) -> (Vec<Fired>, Vec<Record>) {
        let (mut fired, mut late) = (Vec::new(), Vec::new());
        for subtask in &mut self.subtasks {
            for emission in subtask.out.take_all() {
                match emission {
                    Emission::Batch(batch) => fired.extend(batch.take::<Fired>().unwrap().values),
                    Emission::Side(0, batch) => late.extend(batch.take::<Record>().unwrap().values),
                    other => panic!("{other:?}"),
                }
            }
        }
        fired.sort_unstable();
        late.sort_unstable();
        (fired, late)
    }

    pub fn snapshot(&mut self) -> Vec<OperatorSubtaskState> {
        let write = |subtask: &mut Subtask| {
            let write =
                subtask.operator.snapshot(CheckpointId(1), SnapshotForm::Checkpoint).unwrap().unwrap();
            write(&MemorySnapshotStore::default()).unwrap()
        };
        self.subtasks.iter_mut().map(write).collect()
    }

    /// The job fails and starts again with another parallelism.
    pub fn restart(&mut self, parallelism: u32) {
        let state = self.snapshot();
        let counters = self.counters.clone();
        *self = Self::open(self.setup, parallelism, &state);
        for (name, n) in counters.all() {
            self.counters.add(&name, n);
        }
    }

    pub fn late_count(&self) -> u64 {
        self.counters.all().get("window.late").copied().unwrap_or(0)
    }
}
