//! START: how soon a program does something.

use std::sync::{Arc, OnceLock};

use stillstream::prelude::*;

use super::steady;
use crate::machine::since_boot;
use crate::measurement::Measurement;
use crate::settings::Settings;

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let begun = settings.started.unwrap_or_else(since_boot);
    let (env, first) = (settings.environment(), Arc::new(OnceLock::new()));
    let mut stream = env.from_source("numbers", Generator::unbounded(|seq| seq)).uid("numbers");
    for _ in 1..settings.operators.max(1) {
        stream = stream.map(|n| n.wrapping_add(1)).disable_chaining();
    }
    let seen = first.clone();
    stream
        .inspect(move |_| {
            seen.get_or_init(since_boot);
        })
        .disable_chaining()
        .discard();
    let job = env.execute_async("benchmark")?;
    let came = job.wait_until(Duration::from_secs(60), |_| first.get().is_some());
    steady::stop(job)?;
    let Some(at) = first.get().filter(|_| came) else {
        return Err(Error::new(ErrorKind::Timeout, "no record came within a minute"));
    };
    let measurement = Measurement::without_span("START", settings);
    Ok(Measurement { keys: 0, ..measurement }
        .figure("start_ms", at.saturating_sub(begun).as_secs_f64() * 1e3)
        .figure("operators", f64::from(settings.operators)))
}
