//! WINDOW: counts per key in windows of event time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stillstream::prelude::*;

use super::steady;
use crate::measurement::Measurement;
use crate::records::{keyed, warm_up};
use crate::settings::Settings;

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
    let (windows, span_s) = match settings.variant.as_str() {
        "" | "tumbling 1 s" => (keyed.window(Tumbling::of(seconds(1))), 1),
        "sliding 10 s by 1 s" => (keyed.window(Sliding::of(seconds(10), seconds(1))), 10),
        _ => return Err(settings.no_variant(&["tumbling 1 s", "sliding 10 s by 1 s"])),
    };
    windows.count().uid("count").discard();
    // until all windows that can be open at once are, and the first have fired
    let warm = warm_up(keys).max((span_s + 1) * 1_000 * PER_MS);
    let steady = steady::run(settings, &env, &|| made.load(Relaxed), warm)?;
    let variant = if span_s == 1 { "tumbling 1 s" } else { "sliding 10 s by 1 s" };
    Ok(Measurement::of("WINDOW", settings, steady.span).variant(variant))
}
