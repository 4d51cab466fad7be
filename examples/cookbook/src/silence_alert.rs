//! An alert when somebody is silent: a sensor that has sent nothing for a minute.
//!
//! Nothing comes that could be processed, so a timer does it. Each record moves the timer of its key, and one
//! that fires has not been moved for a minute. Timers are state: they are in every checkpoint.
//!
//! ```text
//! ("fan", 1970-01-01T00:00:50Z)
//! ("pump", 1970-01-01T00:02:40Z)
//! ```

use stillstream::prelude::*;

/// A sensor and the second at which it sent something.
type Reading = (String, i64);

struct Silence {
    last: ValueState<Timestamp>,
}

impl KeyedProcess for Silence {
    type Key = String;
    type In = Reading;
    type Out = (String, Timestamp);

    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { last: states.value("last")? })
    }

    fn process(&mut self, _: Reading, ctx: &mut Context<Self>) -> Result<()> {
        let at = ctx.timestamp().ok_or_else(|| Error::msg("a reading without an event time"))?;
        if let Some(last) = self.last.get(ctx)? {
            ctx.timers().delete_event_time(last + minutes(1))?;
        }
        self.last.set(ctx, at)?;
        ctx.timers().on_event_time(at + minutes(1))
    }

    fn on_timer(&mut self, at: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        ctx.emit((ctx.key().clone(), at - minutes(1)));
        Ok(self.last.clear(ctx)?)
    }
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    // the input ends, and with it event time: so the pump, which was never silent, gets its alert at the end
    let readings =
        [("pump", 0), ("fan", 10), ("pump", 40), ("fan", 50), ("pump", 80), ("pump", 120), ("pump", 160)];
    let second = |reading: &Reading| Timestamp::from_millis(reading.1 * 1000);

    env.from_collection(readings.map(|(sensor, second)| (sensor.to_string(), second)))
        .watermarks(WatermarkStrategy::monotonic().timestamp(second))
        .key_by_ref(|reading| &reading.0)
        .process::<Silence>()
        .uid("silence")
        .print();

    env.execute("silence alert").map(drop)
}
