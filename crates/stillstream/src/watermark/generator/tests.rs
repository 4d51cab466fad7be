use std::sync::Arc;

use stillstream_runtime::clock::ManualClock;
use stillstream_runtime::{Batch, Emission};
use stillstream_state::MemorySnapshotStore;
use stillstream_types::time::seconds;

use super::*;

struct Hand {
    generator: WatermarkGenerator<i64>,
    clock: Arc<ManualClock>,
    out: Output,
}

fn strategy() -> WatermarkStrategy<i64> {
    WatermarkStrategy::bounded_out_of_orderness(seconds(1)).timestamp(|ms: &i64| Timestamp::from_millis(*ms))
}

impl Hand {
    fn open(
        strategy: WatermarkStrategy<i64>,
        subtask: u32,
        parallelism: u32,
        restored: Option<OperatorSubtaskState>,
        hub: Option<WatermarkHub>,
    ) -> (Self, WatermarkHub) {
        let clock = Arc::new(ManualClock::default());
        let mut context = OpenContext::for_test("times", subtask, parallelism).with_clock(clock.clone());
        context.restored = restored;
        if let Some(hub) = hub {
            context = context.with_watermark_hub(hub);
        }
        let mut generator = WatermarkGenerator::new(strategy);
        generator.open(&mut context).unwrap();
        (Self { generator, clock, out: Output::default() }, context.watermark_hub())
    }

    fn records(&mut self, records: &[i64]) -> Vec<i64> {
        self.generator.process(0, Batch::new(records.to_vec()).into(), &mut self.out).unwrap();
        self.watermarks()
    }

    fn watermarks(&mut self) -> Vec<i64> {
        let watermark = |emission| match emission {
            Emission::Watermark(watermark) => Some(watermark.as_millis()),
            _ => None,
        };
        self.out.take_all().into_iter().filter_map(watermark).collect()
    }

    fn tick(&mut self, now_ms: i64) -> Vec<i64> {
        self.clock.set_ms(now_ms);
        self.generator.processing_time(now_ms, &mut self.out).unwrap();
        self.watermarks()
    }

    fn snapshot(&mut self) -> OperatorSubtaskState {
        let write = self.generator.snapshot(CheckpointId(1)).unwrap().unwrap();
        write(&MemorySnapshotStore::default()).unwrap()
    }
}

#[test]
fn a_batch_gets_its_times_and_one_watermark_behind_it() {
    let (mut hand, _) = Hand::open(strategy(), 0, 1, None, None);
    hand.generator.process(0, Batch::new(vec![5000i64, 3000, 4000]).into(), &mut hand.out).unwrap();
    let emitted: Vec<Emission> = hand.out.take_all();
    let [Emission::Batch(batch), Emission::Watermark(watermark)] = &emitted[..] else {
        panic!("{emitted:?}")
    };
    assert_eq!(batch.clone().take::<i64>().unwrap().times, [5000, 3000, 4000]);
    assert_eq!(watermark.as_millis(), 3999);
    assert_eq!(hand.records(&[4500]), Vec::<i64>::new(), "a watermark does not go back");
}

#[test]
fn only_the_end_of_the_input_is_passed_on_from_above() {
    let (mut hand, _) = Hand::open(strategy(), 0, 1, None, None);
    hand.generator.watermark(Timestamp::from_millis(77), &mut hand.out).unwrap();
    assert_eq!(hand.watermarks(), Vec::<i64>::new());
    hand.generator.watermark(Timestamp::MAX, &mut hand.out).unwrap();
    assert_eq!(hand.watermarks(), [i64::MAX]);
}

#[test]
fn records_without_any_time_are_refused_with_what_to_do() {
    let strategy = WatermarkStrategy::monotonic().source_timestamps::<i64>();
    let (mut hand, _) = Hand::open(strategy, 0, 1, None, None);
    let error = hand.generator.process(0, Batch::new(vec![1i64]).into(), &mut hand.out).unwrap_err();
    assert!(error.to_string().contains(".timestamp("), "{error}");
}

#[test]
fn an_idle_subtask_follows_the_active_ones_and_never_overtakes_them() {
    let (mut busy, hub) = Hand::open(strategy(), 0, 2, None, None);
    let (mut idle, _) = Hand::open(strategy().idleness(seconds(10)), 1, 2, None, Some(hub));
    assert_eq!(busy.records(&[50_000]), [48_999]);
    assert_eq!(idle.tick(9_999), Vec::<i64>::new(), "not idle yet: it holds event time back");
    assert_eq!(idle.tick(10_000), [48_999]);
    assert_eq!(busy.records(&[60_000]), [58_999]);
    assert_eq!(idle.tick(10_050), [58_999]);
    assert_eq!(idle.records(&[40_000]), Vec::<i64>::new(), "what it has followed to stays");
    assert_eq!(busy.records(&[90_000]), [88_999]);
    assert_eq!(idle.tick(10_100), Vec::<i64>::new(), "it has records again and is waited for");
    busy.generator.watermark(Timestamp::MAX, &mut busy.out).unwrap();
    assert_eq!(idle.tick(30_000), Vec::<i64>::new(), "the end of the others is not its own");
}

#[test]
fn a_restored_subtask_says_again_how_far_it_was_before_any_record() {
    let (mut first, _) = Hand::open(strategy(), 0, 2, None, None);
    let (mut second, _) = Hand::open(strategy(), 1, 2, None, None);
    first.records(&[100_000]);
    second.records(&[40_000]);
    let (a, b) = (first.snapshot(), second.snapshot());
    let all = || OperatorSubtaskState {
        keyed: Vec::new(),
        operator: a.operator.iter().chain(&b.operator).cloned().collect(),
    };
    let (mut same, _) = Hand::open(strategy(), 0, 2, Some(all()), None);
    assert_eq!(same.tick(0), [98_999], "its own");
    let (mut more, _) = Hand::open(strategy(), 0, 4, Some(all()), None);
    assert_eq!(more.records(&[30_000]), [38_999], "the least of all, and before the records");
    let (mut fewer, _) = Hand::open(strategy(), 0, 1, Some(all()), None);
    assert_eq!(fewer.tick(0), [38_999]);
}

#[test]
fn a_watermark_that_was_followed_survives_a_restore() {
    let (mut busy, hub) = Hand::open(strategy(), 0, 2, None, None);
    let (mut idle, _) = Hand::open(strategy().idleness(seconds(10)), 1, 2, None, Some(hub));
    busy.records(&[50_000]);
    idle.tick(10_000);
    let (a, b) = (busy.snapshot(), idle.snapshot());
    let all = OperatorSubtaskState {
        keyed: Vec::new(),
        operator: a.operator.into_iter().chain(b.operator).collect(),
    };
    let (mut again, _) = Hand::open(strategy().idleness(seconds(10)), 1, 2, Some(all), None);
    assert_eq!(again.tick(0), [48_999]);
}
