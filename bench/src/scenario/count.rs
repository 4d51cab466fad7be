//! COUNT: a running sum by key.

use stillstream::prelude::*;

use super::{filled, steady};
use crate::measurement::Measurement;
use crate::records::keyed;
use crate::settings::Settings;

/// The job; gives the sink, which counts.
pub(super) fn build(settings: &Settings, env: &StreamExecutionEnvironment) -> Discard {
    let (keys, out) = (settings.keys, Discard::new());
    env.from_source(
        "numbers",
        Generator::new(settings.records.unwrap_or(u64::MAX), move |seq| keyed(seq, keys)),
    )
    .uid("numbers")
    .key_by(|record| record.0)
    .map_with_state("sum", |sum: &mut u64, (key, value)| {
        *sum += value;
        (key, *sum)
    })
    .uid("sum")
    .sink_to("discard", out.clone());
    out
}

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let (mut env, dir) = (settings.environment(), settings.scratch()?);
    let warm_up = filled::prepare(settings, &mut env, dir.path())?;
    let out = build(settings, &env);
    let steady = steady::run(settings, &env, &|| out.count(), warm_up)?;
    Ok(Measurement::of("COUNT", settings, steady.span))
}

pub(super) fn run_with_checkpoints(settings: &Settings) -> Result<Measurement> {
    let mode = match settings.variant.as_str() {
        "" | "exactly-once" => CheckpointingMode::ExactlyOnce,
        "at-least-once" => CheckpointingMode::AtLeastOnce,
        _ => return Err(settings.no_variant(&["exactly-once", "at-least-once"])),
    };
    let dir = settings.scratch()?;
    let mut env = settings.checkpointed(dir.path());
    env.set_checkpointing_mode(mode);
    let warm_up = filled::prepare(settings, &mut env, dir.path())?;
    let out = build(settings, &env);
    let steady = steady::run(settings, &env, &|| out.count(), warm_up)?;
    let mut measurement =
        Measurement::of("COUNT+ckpt", settings, steady.span).checkpoints(&steady.checkpoints);
    measurement.checkpoint_interval_ms = Some(settings.interval.as_millis() as u64);
    Ok(match mode {
        CheckpointingMode::ExactlyOnce => measurement.variant("exactly-once"),
        CheckpointingMode::AtLeastOnce => measurement.variant("at-least-once"),
    })
}
