//! WINDOW: counts per key in windows of event time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stillstream::prelude::*;

use super::steady;
use crate::measurement::Measurement;
use crate::records::{keyed, warm_up};
use crate::settings::Settings;

const TUMBLING: &str = "tumbling 1 s";
const SLIDING: &str = "sliding 10 s by 1 s";
const SESSION: &str = "session, gap 1 s";

/// Records for each millisecond of event time.
const PER_MS: u64 = 1_000;
/// Records are counted in blocks of this many, at the last one of each.
const BLOCK: u64 = 1 << 10;

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let (env, keys, made) = (settings.environment(), settings.keys, Arc::new(AtomicU64::new(0)));
    let counting = made.clone();
    let source = Generator::new(settings.records.unwrap_or(u64::MAX), move |seq| {
        if seq % BLOCK == BLOCK - 1 {
            counting.fetch_add(BLOCK, Relaxed);
        }
        (keyed(seq, keys).0, (seq / PER_MS) as i64)
    });
    let time =
        WatermarkStrategy::monotonic().timestamp(|record: &(u64, i64)| Timestamp::from_millis(record.1));
    let keyed =
        env.from_source("clicks", source).uid("clicks").watermarks(time).uid("time").key_by(|click| click.0);
    let (variant, span_s) = match settings.variant.as_str() {
        "" | TUMBLING => (TUMBLING, 1),
        SLIDING => (SLIDING, 10),
        SESSION => (SESSION, 2),
        _ => return Err(settings.no_variant(&[TUMBLING, SLIDING, SESSION])),
    };
    let counts = match variant {
        SLIDING => keyed.window(Sliding::of(seconds(10), seconds(1))).count(),
        SESSION => keyed.window(Session::with_gap(seconds(1))).count(),
        _ => keyed.window(Tumbling::of(seconds(1))).count(),
    };
    counts.uid("count").discard();
    // until all windows that can be open at once are, and the first have fired
    let warm = warm_up(keys).max((span_s + 1) * 1_000 * PER_MS);
    let steady = steady::run(settings, &env, &|| made.load(Relaxed), warm)?;
    Ok(Measurement::of("WINDOW", settings, steady.span).variant(variant))
}
