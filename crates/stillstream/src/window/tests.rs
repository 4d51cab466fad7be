//! Window operators driven by hand, against a model that looks at all records at once.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_runtime::exchange::BorrowedKey;
use stillstream_runtime::{Batch, OpenContext, Operator, Output};
use stillstream_state::{Key, MemorySnapshotStore};
use stillstream_types::{CheckpointId, KeyGroups, OperatorSubtaskState, SnapshotForm, Timestamp};

use super::aggregates::Count;
use super::*;
use crate::window::shell::SLICE;

type Record = (String, i64);
type Result = (String, i64, i64, u64);
const LATE: OutputTag<Record> = OutputTag::new("late");

/// A small generator (SplitMix64), so that each seed is one case.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as i64
    }
}

fn name(record: &Record) -> &String {
    &record.0
}

fn operator(kind: Kind, lateness: i64, late: Option<OutputTag<Record>>) -> Box<dyn Operator> {
    let sides = Sides::new();
    sides.declare(&LATE, "window").unwrap();
    let settings = Settings { lateness, late, sides };
    let selector = Arc::new(BorrowedKey::new(name as fn(&Record) -> &String));
    let emit = |key: &String, window: TimeWindow, n: u64| {
        Some((key.clone(), window.start.as_millis(), window.end.as_millis(), n))
    };
    let (count, emit) = (Arc::new(Count(PhantomData)), Arc::new(With(emit, PhantomData)));
    match kind {
        Kind::Aligned(windows) => Box::new(AlignedWindows::new(windows, settings, selector, count, emit)),
        Kind::Session { gap } => Box::new(SessionWindows::new(gap, settings, selector, count, emit)),
    }
}

fn opened(kind: Kind, lateness: i64, late: Option<OutputTag<Record>>) -> Box<dyn Operator> {
    let mut operator = operator(kind, lateness, late);
    operator.open(&mut OpenContext::for_test("window", 0, 1)).unwrap();
    operator
}

fn batch(records: &[Record]) -> Batch<Record> {
    let groups = KeyGroups::new(128);
    let mut batch = Batch::timed(records.to_vec(), records.iter().map(|record| record.1).collect());
    batch.hashes = records.iter().map(|record| record.0.key_hash(groups)).collect();
    batch
}

/// What the operator emits for a call, and how many slices it takes.
fn drain(operator: &mut dyn Operator, out: &mut Output) -> (Vec<Result>, usize) {
    let mut slices = 1;
    while operator.resume(out).unwrap() {
        slices += 1;
    }
    let mut results = Vec::new();
    for batch in out.take_batches() {
        let batch = batch.take::<Result>().unwrap();
        assert!(batch.values.iter().zip(&batch.times).all(|(result, time)| result.2 - 1 == *time));
        assert_eq!(batch.values.len(), batch.times.len());
        results.extend(batch.values);
    }
    (results, slices)
}

fn process(operator: &mut dyn Operator, records: &[Record]) -> (Vec<Result>, Vec<Record>) {
    let mut out = Output::default();
    operator.process(0, batch(records).into(), &mut out).unwrap();
    let results = drain(operator, &mut out).0;
    let late = out.take_side(0).into_iter().flat_map(|batch| batch.take::<Record>().unwrap().values);
    (results, late.collect())
}

fn watermark(operator: &mut dyn Operator, at: i64) -> Vec<Result> {
    let mut out = Output::default();
    operator.watermark(Timestamp::from_millis(at), &mut out).unwrap();
    let results = drain(operator, &mut out).0;
    assert_eq!(out.take_watermarks(), [Timestamp::from_millis(at)]);
    results
}

/// Windows kept as plain lists, and every rule applied to each of them every time.
struct Model {
    kind: Kind,
    lateness: i64,
    now: i64,
    /// By key: start, end, count, fired.
    windows: BTreeMap<String, Vec<(i64, i64, u64, bool)>>,
}

impl Model {
    fn new(kind: Kind, lateness: i64) -> Self {
        Self { kind, lateness, now: i64::MIN, windows: BTreeMap::new() }
    }

    /// Results that it makes at once, and whether it is late.
    fn add(&mut self, (key, time): &Record) -> (Vec<Result>, bool) {
        let mut spans: Vec<(i64, i64)> = match self.kind {
            Kind::Aligned(Aligned { size, slide, offset }) => (time - size..=*time)
                .filter(|start| (start - offset).rem_euclid(slide) == 0 && start + size > *time)
                .map(|start| (start, start + size))
                .collect(),
            Kind::Session { gap } => vec![(*time, time + gap)],
        };
        let all = self.windows.entry(key.clone()).or_default();
        let mut counts = vec![1; spans.len()];
        if let Kind::Session { .. } = self.kind {
            let (start, end) = spans[0];
            all.retain(|window| {
                let touches = window.0 <= end && start <= window.1;
                if touches {
                    spans[0] = (spans[0].0.min(window.0), spans[0].1.max(window.1));
                    counts[0] += window.2;
                }
                !touches
            });
        }
        let (now, lateness) = (self.now, self.lateness);
        let mut taken = false;
        let mut results = Vec::new();
        for ((start, end), count) in spans.into_iter().zip(counts) {
            if end - 1 + lateness <= now {
                continue;
            }
            taken = true;
            let at = all.iter().position(|window| window.0 == start && window.1 == end).unwrap_or(all.len());
            if at == all.len() {
                all.push((start, end, 0, false));
            }
            all[at].2 += count;
            all[at].3 = end - 1 <= now;
            if all[at].3 {
                results.push((key.clone(), start, end, all[at].2));
            }
        }
        // a record can be in no window at all, where the slide is above the size: late, as in Flink, if its
        // time is over
        (results, !taken && time + lateness <= now)
    }

    fn advance(&mut self, to: i64) -> Vec<Result> {
        self.now = to;
        let mut results = Vec::new();
        for (key, all) in &mut self.windows {
            for window in all.iter_mut().filter(|window| !window.3 && window.1 - 1 <= to) {
                window.3 = true;
                results.push((key.clone(), window.0, window.1, window.2));
            }
            all.retain(|window| window.1 - 1 + self.lateness > to);
        }
        results
    }
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items
}

const KINDS: [Kind; 5] = [
    Kind::Aligned(Aligned { size: 10, slide: 10, offset: 0 }),
    Kind::Aligned(Aligned { size: 10, slide: 10, offset: 3 }),
    Kind::Aligned(Aligned { size: 12, slide: 5, offset: 1 }),
    Kind::Aligned(Aligned { size: 4, slide: 9, offset: 0 }),
    Kind::Session { gap: 6 },
];

fn records(random: &mut Random, step: i64) -> Vec<Record> {
    let n = random.below(12);
    (0..n).map(|_| (format!("k{}", random.below(9)), step * 5 - 40 + random.below(60))).collect()
}

#[test]
fn windows_agree_with_the_model_with_lateness_and_late_output() {
    for seed in 0..30 {
        for kind in KINDS {
            for lateness in [0, 7, 25] {
                let mut random = Random(seed);
                let (mut operator, mut model) =
                    (opened(kind, lateness, Some(LATE)), Model::new(kind, lateness));
                for step in 0..40 {
                    let records = records(&mut random, step);
                    let (results, late) = process(&mut *operator, &records);
                    let (mut expected, mut expected_late) = (Vec::new(), Vec::new());
                    for record in &records {
                        let (now, late) = model.add(record);
                        expected.extend(now);
                        if late {
                            expected_late.push(record.clone());
                        }
                    }
                    let case = format!("{kind:?}, lateness {lateness}, seed {seed}, step {step}");
                    assert_eq!(sorted(results), sorted(expected), "at once: {case}");
                    assert_eq!(sorted(late), sorted(expected_late), "late: {case}");
                    let at = if step == 39 { i64::MAX } else { step * 5 - 20 + random.below(9) };
                    let at = at.max(model.now);
                    let fired = watermark(&mut *operator, at);
                    assert!(fired.is_sorted_by_key(|result| result.2), "by the end of the window: {case}");
                    let expected = match at {
                        // the model's sums would overflow; nothing is kept after the end anyway
                        i64::MAX => model.advance(1 << 40),
                        at => model.advance(at),
                    };
                    assert_eq!(sorted(fired), sorted(expected), "fired: {case}");
                }
            }
        }
    }
}

/// A snapshot of all subtasks.
fn snapshots(operators: &mut [Box<dyn Operator>]) -> Vec<OperatorSubtaskState> {
    let write = |operator: &mut Box<dyn Operator>| {
        let write = operator.snapshot(CheckpointId(1), SnapshotForm::Checkpoint).unwrap().unwrap();
        write(&MemorySnapshotStore::default()).unwrap()
    };
    operators.iter_mut().map(write).collect()
}

fn restored(
    kind: Kind,
    lateness: i64,
    old: &[OperatorSubtaskState],
    parallelism: u32,
) -> Vec<Box<dyn Operator>> {
    let mut states = stillstream_runtime::testing::redistribute(old, parallelism as usize);
    let open = |(subtask, state): (usize, &mut OperatorSubtaskState)| {
        state.keyed = old.iter().flat_map(|old| old.keyed.clone()).collect();
        let context = OpenContext::for_test("window", subtask as u32, parallelism);
        let mut operator = operator(kind, lateness, Some(LATE));
        operator.open(&mut context.restored_for_test(2, CheckpointId(1), state.clone())).unwrap();
        operator
    };
    states.iter_mut().enumerate().map(open).collect()
}

#[test]
fn a_restore_with_the_same_or_another_parallelism_goes_on_as_if_nothing_had_happened() {
    for (seed, parallelism) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 5)] {
        for kind in KINDS {
            let mut random = Random(seed);
            let (mut operators, mut model) = (vec![opened(kind, 7, Some(LATE))], Model::new(kind, 7));
            for step in 0..30 {
                if step % 6 == 5 {
                    let parallelism = if step % 12 == 5 { parallelism } else { 2 };
                    operators = restored(kind, 7, &snapshots(&mut operators), parallelism);
                }
                let n = operators.len() as u32;
                let groups = KeyGroups::new(128);
                let records = records(&mut random, step);
                let (mut results, mut late) = (Vec::new(), Vec::new());
                for (subtask, operator) in operators.iter_mut().enumerate() {
                    let range = groups.range(subtask as u32, n);
                    let own =
                        records.iter().filter(|record| range.contains(record.0.key_hash(groups).group()));
                    // before the first watermark of the new run, which must not make fired windows unknown
                    let (now, side) = process(&mut **operator, &own.cloned().collect::<Vec<_>>());
                    results.extend(now);
                    late.extend(side);
                }
                let (mut expected, mut expected_late) = (Vec::new(), Vec::new());
                for record in &records {
                    let (now, late) = model.add(record);
                    expected.extend(now);
                    expected_late.extend(late.then(|| record.clone()));
                }
                let case = format!("{kind:?}, seed {seed}, step {step}");
                assert_eq!(sorted(results), sorted(expected), "at once: {case}");
                assert_eq!(sorted(late), sorted(expected_late), "late: {case}");
                let at = step * 5 - 15;
                let fired =
                    operators.iter_mut().flat_map(|operator| watermark(&mut **operator, at)).collect();
                assert_eq!(sorted(fired), sorted(model.advance(at)), "fired: {case}");
            }
        }
    }
}

/// Sessions whose timers move on, several of a key, more than a slice of them, all due at one watermark.
#[test]
fn sessions_that_are_due_together_fire_in_the_order_of_their_ends_and_then_of_their_keys_hashes() {
    for lateness in [0, 1_000] {
        let (kind, n) = (Kind::Session { gap: 6 }, 3 * SLICE as i64);
        let (mut operator, mut model) = (opened(kind, lateness, None), Model::new(kind, lateness));
        let (mut random, mut records) = (Random(lateness as u64), Vec::new());
        for time in 0..40 {
            records.extend((0..n / 4).map(|_| (format!("k{}", random.below(n)), time + random.below(5))));
        }
        for records in records.chunks(500) {
            assert_eq!(process(&mut *operator, records), (Vec::new(), Vec::new()));
            records.iter().for_each(|record| assert_eq!(model.add(record), (Vec::new(), false)));
        }
        let (fired, expected) = (watermark(&mut *operator, 100), model.advance(100));
        let place = |result: &Result| (result.2, result.0.key_hash(KeyGroups::new(128)));
        assert!(fired.is_sorted_by_key(place), "lateness {lateness}");
        assert!(fired.len() > 4 * SLICE, "{} sessions", fired.len());
        assert_eq!(sorted(fired), sorted(expected), "lateness {lateness}");
    }
}

#[test]
fn a_large_window_fires_in_slices_and_passes_the_watermark_on_only_after_the_last() {
    for kind in [KINDS[0], KINDS[4]] {
        let mut operator = opened(kind, 0, None);
        let keys: Vec<Record> = (0..3 * SLICE + 5).map(|n| (format!("key {n}"), 1)).collect();
        process(&mut *operator, &keys);
        let mut out = Output::default();
        operator.watermark(Timestamp::from_millis(50), &mut out).unwrap();
        let mut total = 0;
        loop {
            let more = operator.resume(&mut out).unwrap();
            let slice: usize = out.take_batches().iter().map(|batch| batch.len()).sum();
            assert!(slice <= SLICE);
            total += slice;
            if !more {
                break;
            }
            assert!(out.take_watermarks().is_empty());
        }
        assert_eq!(total, keys.len());
        assert_eq!(out.take_watermarks(), [Timestamp::from_millis(50)]);
    }
}

#[test]
fn late_records_are_counted_whether_or_not_there_is_a_late_output() {
    for (kind, late) in [(KINDS[0], None), (KINDS[4], None), (KINDS[0], Some(LATE)), (KINDS[4], Some(LATE))] {
        let mut context = OpenContext::for_test("per hour", 0, 1);
        let mut operator = operator(kind, 0, late);
        operator.open(&mut context).unwrap();
        watermark(&mut *operator, 100);
        let (results, side) = process(&mut *operator, &[("a".into(), 5), ("b".into(), 7)]);
        assert_eq!((results.len(), side.len()), (0, if late.is_some() { 2 } else { 0 }));
        assert_eq!(context.counters.all().get("per hour.late"), Some(&2));
    }
}

#[test]
fn records_between_two_windows_are_counted() {
    let mut context = OpenContext::for_test("per hour", 0, 1);
    let mut operator = operator(KINDS[3], 0, None);
    operator.open(&mut context).unwrap();
    process(&mut *operator, &[("a".into(), 0), ("a".into(), 5), ("b".into(), 8), ("b".into(), 9)]);
    assert_eq!(context.counters.all().get("per hour.in_no_window"), Some(&2));
    assert_eq!(watermark(&mut *operator, 100).len(), 2);
}

#[test]
fn records_without_event_time_are_refused_with_what_to_add() {
    for kind in [KINDS[0], KINDS[4]] {
        let mut records = batch(&[("a".into(), 5)]);
        records.times.clear();
        let error = opened(kind, 0, None).process(0, records.into(), &mut Output::default()).unwrap_err();
        assert!(error.to_string().contains(".watermarks("), "{error}");
    }
}

#[test]
fn reduce_folds_and_merges() {
    let reduce = Reduce::new(|a: u64, b: u64| a.max(b));
    let mut acc = reduce.create();
    assert_eq!(reduce.result(&acc), None);
    reduce.add(&mut acc, 3);
    reduce.merge(&mut acc, Some(9));
    reduce.merge(&mut acc, None);
    assert_eq!(reduce.result(&acc), Some(9));
}

#[test]
fn a_window_of_less_than_a_millisecond_is_a_mistake_of_the_plan() {
    let windows: [std::result::Result<Windows<u64>, String>; 3] = [
        assigner::Assigner::windows(Tumbling::of(Duration::from_micros(5))),
        assigner::Assigner::windows(Sliding::of(Duration::from_secs(1), Duration::ZERO)),
        assigner::Assigner::windows(Session::with_gap(Duration::ZERO)),
    ];
    for mistake in windows {
        assert!(mistake.unwrap_err().contains("at least 1"));
    }
}
