//! NEXMARK: the queries of the example `nexmark`, whole jobs from start to end.

use nexmark::results::golden;
use nexmark::{Events, Profile, Tally};
use stillstream::{Error, ErrorKind, Result};

use crate::machine::Moment;
use crate::measurement::Measurement;
use crate::settings::Settings;

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let variant = &settings.variant;
    let query: u64 = variant.trim_start_matches('q').parse().map_err(|_| {
        Error::new(ErrorKind::Configuration, format!("`--variant {variant}`: expected a query, as in q5"))
    })?;
    let count = settings.records.unwrap_or(2_000_000);
    let (env, tally, profile) = (settings.environment(), Tally::new(query), Profile::FAST);
    nexmark::run(&env, query, Events { profile, count, splits: settings.workers.into() }, &tally)?;
    let before = Moment::at(0);
    env.execute(format!("nexmark q{query}"))?;
    let span = Moment::at(count) - before;
    let total = tally.total()?;
    if golden(query, profile.per_ms, count).is_some_and(|known| known != total) {
        return Err(Error::msg(format!("q{query} gave {} rows, {:016x}: wrong", total.rows, total.sum)));
    }
    let measured =
        Measurement { keys: 0, variant: variant.clone(), ..Measurement::of("NEXMARK", settings, span) };
    Ok(measured)
}
