use super::by_hand::{ByHand, Setup};
use super::model::Model;
use crate::window::assigner::{Aligned, Kind};

/// A small generator of random numbers: xorshift64*.
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

#[derive(Clone, Copy, Debug)]
enum Restarts {
    Never,
    SameParallelism,
    AnyParallelism,
}

/// Feeds random batches, watermarks and restarts to the operator and the model, and compares after each step.
/// Before a restart the subtasks may have got to different watermarks.
fn compare(setup: Setup, restarts: Restarts, seed: u64) {
    let random = &mut Random::new(seed);
    let mut by_hand = ByHand::open(setup, 1 + random.below(4) as u32, &[]);
    let mut model = Model::new(setup.kind, setup.lateness);
    let (mut now, mut watermark, mut value, mut late_total) = (0i64, -200i64, 0, 0);
    for step in 0..120 {
        let what = format!("{setup:?}, {restarts:?}, seed {seed}, step {step}");
        match random.below(10) {
            0..6 => {
                let (spread, n) = (1 + random.below(90), random.below(40));
                let records: Vec<_> = (0..n)
                    .map(|_| {
                        value += 1;
                        (random.below(12) as u32, value, now - random.below(spread) as i64)
                    })
                    .collect();
                let expected = model.records(&records);
                let (fired, late) = by_hand.records(&records);
                assert_eq!(fired, expected.0, "{what}");
                late_total += expected.1.len() as u64;
                assert_eq!(by_hand.late_count(), late_total, "{what}");
                assert_eq!(late, if setup.late_output { expected.1 } else { Vec::new() }, "{what}");
                now += random.below(15) as i64;
            }
            6..9 => {
                watermark = watermark.max(now - 40 + random.below(45) as i64);
                let expected = model.watermark(watermark, |_| true);
                assert_eq!(by_hand.watermark(watermark, |_| true), expected, "{what}");
            }
            _ => {
                let parallelism = match restarts {
                    Restarts::Never => continue,
                    Restarts::SameParallelism => by_hand.parallelism(),
                    Restarts::AnyParallelism => 1 + random.below(8) as u32,
                };
                // some subtasks are ahead of the others when the snapshot is taken
                let ahead = watermark + random.below(20) as i64;
                let old = by_hand.parallelism();
                let owner = |group| stillstream_types::KeyGroups::new(128).owner(group, old);
                let expected =
                    model.watermark(ahead, |group| owner(stillstream_types::KeyGroup(group)) % 2 == 0);
                assert_eq!(by_hand.watermark(ahead, |index| index % 2 == 0), expected, "{what}");
                by_hand.restart(parallelism);
            }
        }
    }
    let expected = model.watermark(i64::MAX, |_| true);
    assert_eq!(by_hand.watermark(i64::MAX, |_| true), expected, "{setup:?}, seed {seed}, the end");
}

fn compare_all(kind: Kind) {
    for seed in 0..24 {
        for lateness in [0, 25] {
            for restarts in [Restarts::Never, Restarts::SameParallelism, Restarts::AnyParallelism] {
                let late_output = seed % 3 == 0;
                for general in [false, true] {
                    let setup = Setup { kind, lateness, keep_all: seed % 2 == 0, late_output, general };
                    compare(setup, restarts, seed);
                }
            }
        }
    }
}

#[test]
fn tumbling_windows_give_what_the_model_gives_with_and_without_restarts() {
    compare_all(Kind::Aligned(Aligned { size: 30, slide: 30, offset: 7 }));
}

#[test]
fn sliding_windows_give_what_the_model_gives_with_and_without_restarts() {
    compare_all(Kind::Aligned(Aligned { size: 30, slide: 12, offset: 0 }));
    compare_all(Kind::Aligned(Aligned { size: 10, slide: 25, offset: -3 }));
}

#[test]
fn sessions_give_what_the_model_gives_with_and_without_restarts() {
    compare_all(Kind::Session { gap: 8 });
    compare_all(Kind::Session { gap: 40 });
}
