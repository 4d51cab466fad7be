//! The job that the tests start: it counts carriers until it is stopped.

use stillstream::prelude::*;

#[stillstream::main]
pub fn job() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args_with(&[("--name NAME", "the job's name")])?;
    let name = env.arguments().last().cloned().unwrap_or_else(|| "carriers".into());
    let carriers = ["AA", "B6", "DL", "UA"];
    let flights = Generator::unbounded(move |n| carriers[(n % 4) as usize].to_string());
    env.from_source("flights", flights.records_per_second(2_000.0))
        .uid("flights")
        .key_by(|carrier| carrier.clone())
        .map_with_state("seen", |seen: &mut u64, carrier| {
            *seen += 1;
            (carrier, *seen)
        })
        .uid("count")
        .discard();
    env.execute(name).map(drop)
}
