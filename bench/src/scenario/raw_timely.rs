//! TIMELY: the same sums written directly against Timely.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::sleep;

use rustc_hash::FxHashMap;
use stillstream::{Error, Result};
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::{Input, Operator, Probe};
use timely::dataflow::{InputHandle, ProbeHandle};
use timely::worker::Worker;

use super::steady;
use crate::machine::Moment;
use crate::measurement::Measurement;
use crate::records::{keyed, warm_up};
use crate::settings::Settings;

/// Records that are sent together.
const BATCH: u64 = 1024;
/// Batches between two steps of time.
const BATCHES: u64 = 16;
/// Steps of time that the input may be ahead: bounds what is in flight, as the jobs that it is compared with
/// do.
const AHEAD: u64 = 4;

struct Shared {
    keys: u64,
    limit: u64,
    /// Records that reached the end.
    count: AtomicU64,
    stop: AtomicBool,
}

/// Spreads keys over workers by bits that the hash map does not use for its buckets.
fn route(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

fn work(worker: &mut Worker, shared: &Arc<Shared>) {
    let (index, peers) = (worker.index() as u64, worker.peers() as u64);
    let mut input = InputHandle::<u64, _>::new();
    let probe = ProbeHandle::new();
    let counted = shared.clone();
    worker.dataflow(|scope| {
        scope
            .input_from(&mut input)
            .container::<Vec<(u64, u64)>>()
            .unary(Exchange::new(|record: &(u64, u64)| route(record.0)), "Sum", |_, _| {
                let mut sums = FxHashMap::<u64, u64>::default();
                move |input, output| {
                    input.for_each(|time, batch| {
                        for record in batch.iter_mut() {
                            let sum = sums.entry(record.0).or_default();
                            *sum += record.1;
                            record.1 = *sum;
                        }
                        output.session(&time).give_container(batch);
                    });
                }
            })
            .container::<Vec<(u64, u64)>>()
            .unary(Pipeline, "Discard", move |_, _| {
                move |input, output| {
                    input.for_each(|time, batch| {
                        counted.count.fetch_add(batch.len() as u64, Relaxed);
                        batch.clear();
                        output.session(&time).give_container(batch);
                    });
                }
            })
            .container::<Vec<(u64, u64)>>()
            .probe_with(&probe);
    });
    let mut batch = Vec::new();
    let mut step = 0u64;
    'feed: while !shared.stop.load(Relaxed) {
        for _ in 0..BATCHES {
            let from = (step * peers + index) * BATCH;
            if from >= shared.limit {
                break 'feed;
            }
            batch.extend((from..shared.limit.min(from + BATCH)).map(|seq| keyed(seq, shared.keys)));
            input.send_batch(&mut batch);
            batch.clear();
            worker.step();
            step += 1;
        }
        input.advance_to(step / BATCHES);
        while probe.less_than(&(step / BATCHES).saturating_sub(AHEAD)) {
            worker.step_or_park(None);
        }
    }
}

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let shared = Arc::new(Shared {
        keys: settings.keys,
        limit: settings.records.unwrap_or(u64::MAX),
        count: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let begun = Moment::at(0);
    let for_workers = shared.clone();
    let config = timely::Config::process(settings.workers as usize);
    let workers = timely::execute(config, move |worker| work(worker, &for_workers)).map_err(Error::msg)?;
    let count = || shared.count.load(Relaxed);
    let span = match settings.records {
        Some(_) => None,
        None => {
            let warm = steady::wait_until(&|| false, &count, warm_up(settings.keys));
            let from = Moment::at(count());
            sleep(settings.measure);
            let span = Moment::at(count()) - from;
            shared.stop.store(true, Relaxed);
            Some(warm.map(|()| span)?)
        }
    };
    for result in workers.join() {
        result.map_err(Error::msg)?;
    }
    Ok(Measurement::of("TIMELY", settings, span.unwrap_or_else(|| Moment::at(count()) - begun)))
}
