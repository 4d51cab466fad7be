//! Event time after a restore: sources with skewed times, a snapshot in the middle, another parallelism of
//! the windows.

use std::collections::BTreeMap;

use stillstream_runtime::testing::redistribute;
use stillstream_runtime::{Batch, Emission, OpenContext, Operator, Output};
use stillstream_state::MemorySnapshotStore;
use stillstream_types::time::seconds;
use stillstream_types::{CheckpointId, OperatorSubtaskState, SnapshotForm, Timestamp};

use super::by_hand::{ByHand, Record, Setup};
use super::random::Random;
use crate::watermark::{AssignWatermarks, WatermarkStrategy};
use crate::window::assigner::{Aligned, Kind};

const SPLITS: u32 = 4;

/// One subtask of the source with its split, and how far the windows below know it to be.
struct Split {
    generator: AssignWatermarks<Record>,
    watermark: i64,
}

fn open(state: &[OperatorSubtaskState]) -> Vec<Split> {
    let strategy = WatermarkStrategy::bounded_out_of_orderness(seconds(5))
        .timestamp(|record: &Record| Timestamp::from_millis(record.2));
    let dealt = redistribute(state, SPLITS as usize);
    let splits = (0..SPLITS).zip(dealt).map(|(index, dealt)| {
        let mut context = OpenContext::for_test("source", index, SPLITS);
        if !state.is_empty() {
            context = context.restored_for_test(2, CheckpointId(1), dealt);
        }
        let mut generator = AssignWatermarks::new(strategy.clone());
        generator.open(&mut context).unwrap();
        Split { generator, watermark: i64::MIN }
    });
    splits.collect()
}

/// Sums by key and window, number of late records.
type Outcome = (BTreeMap<(u32, i64), u64>, u64);

/// Runs the job, with a restart before batch `restart.0` at parallelism `restart.1`.
fn run(kind: Kind, restart: Option<(usize, u32)>) -> Outcome {
    let setup = Setup { kind, lateness: 0, keep_all: false, late_output: false, general: false };
    let (mut splits, mut windows) = (open(&[]), ByHand::open(setup, 4, &[]));
    let mut random = Random::new(7);
    let mut sums = BTreeMap::new();
    let mut passed = i64::MIN;
    let mut advance = |splits: &[Split], windows: &mut ByHand, passed: &mut i64| {
        let low = splits.iter().map(|split| split.watermark).min().unwrap_or(i64::MIN);
        if low > *passed {
            *passed = low;
            for (key, start, _, _, sum) in windows.watermark(low, |_| true) {
                assert_eq!(sums.insert((key, start), sum), None, "each window has one result");
            }
        }
    };
    for batch in 0..400usize {
        if let Some((_, parallelism)) = restart.filter(|(at, _)| *at == batch) {
            let state: Vec<OperatorSubtaskState> = splits
                .iter_mut()
                .map(|split| {
                    let write =
                        split.generator.snapshot(CheckpointId(1), SnapshotForm::Checkpoint).unwrap().unwrap();
                    write(&MemorySnapshotStore::default()).unwrap()
                })
                .collect();
            splits = open(&state);
            windows.restart(parallelism);
            passed = i64::MIN;
            // the first activation, before any record: every split says again how far it was
            for split in &mut splits {
                let mut out = Output::default();
                split.generator.processing_time(0, &mut out).unwrap();
                for emission in out.take_all() {
                    let Emission::Watermark(watermark) = emission else { panic!("{emission:?}") };
                    split.watermark = watermark.as_millis();
                }
            }
            advance(&splits, &mut windows, &mut passed);
        }
        let index = random.below(SPLITS as u64) as usize;
        // split 3 is a minute behind, and some of its records are later than the five seconds that are
        // allowed for
        let base = batch as i64 * 500 - if index == 3 { 60_000 } else { 0 };
        let records: Vec<Record> = (0..20)
            .map(|_| {
                let behind = if random.below(4) == 0 { 20_000 } else { random.below(5_000) as i64 };
                (random.below(30) as u32, 1 + random.below(9), base - behind)
            })
            .collect();
        let mut out = Output::default();
        splits[index].generator.process(0, Batch::new(records).into(), &mut out).unwrap();
        for emission in out.take_all() {
            match emission {
                Emission::Batch(records) => {
                    let (fired, _) = windows.records(&records.take::<Record>().unwrap().values);
                    assert!(fired.is_empty());
                }
                Emission::Watermark(watermark) => {
                    splits[index].watermark = watermark.as_millis();
                    advance(&splits, &mut windows, &mut passed);
                }
                Emission::Idle(false) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    splits.iter_mut().for_each(|split| split.watermark = i64::MAX);
    advance(&splits, &mut windows, &mut passed);
    (sums, windows.late_count())
}

#[test]
fn skewed_splits_give_the_same_sums_and_late_records_after_a_restore() {
    for kind in [
        Kind::Aligned(Aligned { size: 10_000, slide: 10_000, offset: 0 }),
        Kind::Aligned(Aligned { size: 10_000, slide: 2_500, offset: 0 }),
        Kind::Session { gap: 1_000 },
    ] {
        let expected = run(kind, None);
        assert!(expected.0.len() > 100 && expected.1 > 20, "the run says something: {} late", expected.1);
        for at in [1, 50, 100, 150, 200, 250, 300, 399] {
            for parallelism in [4, 2, 8] {
                assert_eq!(run(kind, Some((at, parallelism))), expected, "{kind:?} at {at} x{parallelism}");
            }
        }
    }
}
