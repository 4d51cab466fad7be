//! The next version of the job `flights`, for the upgrade that `upgrade.sh` shows: it goes on from a
//! savepoint of the first version. A field and an operator are new; everything else is the first version's
//! own code.

#[allow(dead_code, reason = "its weather has been replaced")]
#[path = "../rows.rs"]
mod first;
#[path = "../job.rs"]
mod job;
#[expect(dead_code, reason = "the demonstration alone kills its job")]
#[path = "../options.rs"]
mod options;

use stillstream::prelude::*;

/// The rows of the first version, but for the weather.
mod rows {
    use serde::Deserialize;
    use stillstream::prelude::*;

    pub use crate::first::{AirportHour, CarrierDay, Flight};

    /// The weather at an airport in one hour.
    #[derive(Clone, Debug, Data, Deserialize)]
    pub struct Weather {
        pub origin: String,
        pub time_hour: Timestamp,
        pub wind_speed: Option<String>,
        pub precip: Option<String>,
        /// Miles. New: hours that are in the state of a savepoint get none.
        pub visib: Option<String>,
    }
}

fn is_stormy(hour: &rows::AirportHour) -> bool {
    hour.wind_speed.as_ref().and_then(|speed| speed.parse::<f64>().ok()).is_some_and(|speed| speed > 25.0)
}

#[stillstream::main]
#[expect(clippy::disallowed_methods, reason = "the start of the program reads its arguments")]
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let env = StreamExecutionEnvironment::from_args_with(options::OWN)?;
    let options::Options { settings, .. } = options::parse(&arguments)?;
    // new: how many stormy hours each airport has had since the upgrade
    job::build(&env, &settings)
        .filter(is_stormy)
        .key_by_ref(|hour| &hour.origin)
        .map_with_state("storms", |storms: &mut u64, hour| {
            *storms += 1;
            (hour.origin, hour.hour.to_string(), *storms)
        })
        .uid("storms")
        .sink_to("storms", FileSink::csv(settings.out.join("storms")))
        .uid("storms-out");
    println!("{}", env.execute("flights")?);
    Ok(())
}
