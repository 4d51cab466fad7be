//! Long rides: an alert for each taxi ride that has not ended two hours after it began (Flink's training, "long rides").
//!
//! The timer tells of a ride whose end does not come, when it is two hours late and not later. Start and end may come in either
//! order; what comes first waits for the other one.
//!
//! ```text
//! (2, 2020-01-01T12:10:00Z)
//! (3, 2020-01-01T12:20:00Z)
//! ```

use stillstream::prelude::*;

#[derive(Clone, Debug, Data)]
struct Ride {
    id: u64,
    is_start: bool,
    at: Timestamp,
}

struct LongRides {
    first: ValueState<Ride>,
}

impl KeyedProcess for LongRides {
    type Key = u64;
    type In = Ride;
    /// The ride, and when it began.
    type Out = (u64, Timestamp);

    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { first: states.value("first of two")? })
    }

    fn process(&mut self, ride: Ride, ctx: &mut Context<Self>) -> Result<()> {
        let Some(other) = self.first.take(ctx)? else {
            if ride.is_start {
                ctx.timers().on_event_time(ride.at + hours(2))?;
            }
            return Ok(self.first.set(ctx, ride)?);
        };
        let (start, end) = if ride.is_start { (ride, other) } else { (other, ride) };
        ctx.timers().delete_event_time(start.at + hours(2))?;
        if end.at - start.at > hours(2) {
            ctx.emit((start.id, start.at));
        }
        Ok(())
    }

    fn on_timer(&mut self, at: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        let ride = *ctx.key();
        ctx.emit((ride, at - hours(2)));
        Ok(self.first.clear(ctx)?)
    }
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    let noon: Timestamp = "2020-01-01 12:00".parse()?;
    let rides = [
        (1, true, 0),
        (2, true, 10),
        (1, false, 15),
        (3, false, 200),
        (3, true, 20),
        (4, true, 190),
        (4, false, 210),
    ];
    env.from_collection(rides.map(|(id, is_start, minute)| Ride {
        id,
        is_start,
        at: noon + minutes(minute),
    }))
    .event_time(|ride| ride.at, hours(4))
    .key_by(|ride| ride.id)
    .process::<LongRides>()
    .uid("long rides")
    .print();
    env.execute("long rides").map(drop)
}
