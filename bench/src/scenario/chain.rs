//! CHAIN: functions in a row, without an exchange.

use stillstream::prelude::*;

use super::steady;
use crate::measurement::Measurement;
use crate::settings::Settings;

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let (env, out) = (settings.environment(), Discard::new());
    env.from_source("numbers", Generator::new(settings.records.unwrap_or(u64::MAX), |seq| seq))
        .uid("numbers")
        // an odd factor keeps the lowest bit, so that exactly every second record passes the filter
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .filter(|n| n % 2 == 0)
        .map(|n| n.rotate_left(17) ^ 0xff)
        .sink_to("discard", out.clone());
    let steady = steady::run(settings, &env, &|| 2 * out.count(), 1_000_000)?;
    Ok(Measurement { keys: 0, ..Measurement::of("CHAIN", settings, steady.span) })
}
