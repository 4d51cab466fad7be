//! LOOP: the same sums without any engine, in one thread.

use std::hint::black_box;

use rustc_hash::FxHashMap;
use stillstream::Result;

use crate::machine::{Moment, now};
use crate::measurement::Measurement;
use crate::records::{keyed, warm_up};
use crate::settings::Settings;

/// Records between two looks at the clock.
const BLOCK: u64 = 1 << 16;

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let keys = settings.keys;
    let mut sums = FxHashMap::<u64, u64>::default();
    let mut next = 0;
    let mut block = |records: u64| {
        for seq in next..next + records {
            let (key, value) = keyed(seq, keys);
            let sum = sums.entry(key).or_default();
            *sum += value;
            black_box((key, *sum));
        }
        next += records;
        next
    };
    if let Some(records) = settings.records {
        let from = Moment::at(0);
        return Ok(Measurement::of("LOOP", settings, Moment::at(block(records)) - from));
    }
    let from = Moment::at(block(warm_up(keys)));
    let begun = now();
    loop {
        let done = block(BLOCK);
        if begun.elapsed() >= settings.measure {
            return Ok(Measurement::of("LOOP", settings, Moment::at(done) - from));
        }
    }
}
