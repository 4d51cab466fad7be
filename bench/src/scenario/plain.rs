//! LOOP: the same sums without any engine, in one thread.

use std::hint::black_box;

use rustc_hash::FxHashMap;
use stillstream::Result;

use crate::machine::{Moment, now};
use crate::measurement::Measurement;
use crate::records::{keyed, warm_up};
use crate::settings::Settings;

/// Records that are made before they are summed: two short loops wait less for memory than one long one.
const BATCH: u64 = 1024;
/// Records between two looks at the clock.
const BLOCK: u64 = 1 << 16;

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let keys = settings.keys;
    let mut sums = FxHashMap::<u64, u64>::default();
    let (mut next, mut batch) = (0, Vec::with_capacity(BATCH as usize));
    let mut block = |records: u64| {
        let end = next + records;
        while next < end {
            let until = end.min(next + BATCH);
            batch.extend((next..until).map(|seq| keyed(seq, keys)));
            for record in &mut batch {
                let sum = sums.entry(record.0).or_default();
                *sum += record.1;
                record.1 = *sum;
            }
            black_box(&mut batch).clear();
            next = until;
        }
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
