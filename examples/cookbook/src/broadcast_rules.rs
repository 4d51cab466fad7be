//! Rules that change while the job runs: every subtask gets every rule, and applies it to its own records.
//!
//! A rule is a limit and the time from which it holds. A record waits, as state of its key, until event time
//! has reached it. Both streams hold event time back, so by then every rule that concerns it is there, and
//! the result does not depend on which stream was faster.
//!
//! ```text
//! ("boiler", 95)
//! ("boiler", 80)
//! ```

use stillstream::prelude::*;

/// A machine, its temperature, and when.
type Reading = (String, u64, Timestamp);
/// From when on, and the highest temperature that is allowed.
type Rule = (Timestamp, u64);

struct TooHot {
    limits: BroadcastState<Timestamp, u64>,
    waiting: MapState<Timestamp, u64>,
}

impl BroadcastProcess for TooHot {
    type Key = String;
    type In = Reading;
    type Rule = Rule;
    type Out = (String, u64);

    fn open(states: &mut KeyedStates<String>, broadcasts: &mut BroadcastStates) -> Result<Self> {
        Ok(Self { limits: broadcasts.map("limits")?, waiting: states.map("waiting")? })
    }

    fn process(&mut self, reading: Reading, ctx: &mut KeyedContext<String, Self::Out>) -> Result<()> {
        let (_, degrees, at) = reading;
        self.waiting.put(ctx, at, degrees)?;
        ctx.timers().on_event_time(at)
    }

    fn process_broadcast(&mut self, (from, limit): Rule, _: &mut BroadcastContext<Self::Out>) -> Result<()> {
        Ok(self.limits.put(from, limit)?)
    }

    fn on_timer(&mut self, at: Timestamp, ctx: &mut KeyedContext<String, Self::Out>) -> Result<()> {
        let limits = self.limits.entries()?;
        let newest = limits.iter().filter(|(from, _)| *from <= at).max_by_key(|(from, _)| *from);
        if let (Some(degrees), Some((_, limit))) = (self.waiting.get(ctx, &at)?, newest)
            && degrees > *limit
        {
            ctx.emit((ctx.key().clone(), degrees));
        }
        Ok(self.waiting.delete(ctx, &at)?)
    }
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    let at = |second: i64| Timestamp::from_millis(second * 1000);
    let readings = [(80, 10), (95, 20), (80, 40)];

    let readings = env
        .from_collection(readings.map(|(degrees, second)| ("boiler".into(), degrees, at(second))))
        .watermarks(WatermarkStrategy::monotonic().timestamp(|reading: &Reading| reading.2));
    let rules = env
        .from_collection([(at(0), 90), (at(30), 75)])
        .watermarks(WatermarkStrategy::monotonic().timestamp(|rule: &Rule| rule.0));
    readings
        .key_by_ref(|reading| &reading.0)
        .connect_broadcast(&rules)
        .process::<TooHot>()
        .uid("rules")
        .print();

    env.execute("broadcast rules").map(drop)
}
