//! Rides and fares: each taxi ride with its fare, whichever of the two comes first (Flink's training, "stateful enrichment").
//!
//! A ride and its fare have the same id, and each comes once. So the state of an id is the one that came first, and it is
//! empty again when the other one has come.
//!
//! ```text
//! Trip { ride: 1, driver: "Ada", cents: 1250 }
//! Trip { ride: 2, driver: "Grace", cents: 880 }
//! ```

use stillstream::prelude::*;

/// A ride's id and its driver.
type Ride = (u64, String);
/// A ride's id and what was paid.
type Fare = (u64, u64);

#[derive(Clone, Debug, Data)]
struct Trip {
    ride: u64,
    driver: String,
    cents: u64,
}

struct Enrichment {
    ride: ValueState<Ride>,
    fare: ValueState<Fare>,
}

impl CoProcess for Enrichment {
    type Key = u64;
    type In1 = Ride;
    type In2 = Fare;
    type Out = Trip;

    fn open(states: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self { ride: states.value("ride")?, fare: states.value("fare")? })
    }

    fn process1(&mut self, (ride, driver): Ride, ctx: &mut CoContext<Self>) -> Result<()> {
        match self.fare.take(ctx)? {
            Some((_, cents)) => ctx.emit(Trip { ride, driver, cents }),
            None => self.ride.set(ctx, (ride, driver))?,
        }
        Ok(())
    }

    fn process2(&mut self, (ride, cents): Fare, ctx: &mut CoContext<Self>) -> Result<()> {
        match self.ride.take(ctx)? {
            Some((_, driver)) => ctx.emit(Trip { ride, driver, cents }),
            None => self.fare.set(ctx, (ride, cents))?,
        }
        Ok(())
    }
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    let rides = env.from_collection([(1, "Ada"), (2, "Grace")].map(|(id, driver)| (id, driver.to_string())));
    let fares = env.from_collection([(2, 880), (1, 1250), (3, 500)]);
    rides.connect(&fares).key_by(|ride| ride.0, |fare| fare.0).process::<Enrichment>().uid("enrich").print();
    env.execute("rides and fares").map(drop)
}
