//! Functions that keep the same thing in every kind of state, pass their input on, and say at the end what
//! they hold.

use stillstream::prelude::*;

use crate::faults::place;
use crate::source::Row;

/// What functions hold at the end goes here.
pub const HELD: OutputTag<Row> = OutputTag::new("held");
pub const LATE: OutputTag<Row> = OutputTag::new("late");
pub const ASIDE: OutputTag<Row> = OutputTag::new("aside");

/// An event time that only the end of the input reaches.
const END: Timestamp = Timestamp::from_millis(1 << 50);

/// The sum of the weights.
pub struct Weight;

impl Aggregate for Weight {
    type In = Row;
    type Acc = u64;
    type Out = u64;

    fn create(&self) -> u64 {
        0
    }
    fn add(&self, acc: &mut u64, row: Row) {
        if let Err(error) = place("aggregate") {
            panic!("{error}");
        }
        *acc = acc.wrapping_add(row.1);
    }
    fn merge(&self, acc: &mut u64, other: u64) {
        *acc = acc.wrapping_add(other);
    }
    fn result(&self, acc: &u64) -> u64 {
        *acc
    }
}

/// The sum of a key's weights in five kinds of state, which must agree.
pub struct Everything {
    value: ValueState<u64>,
    list: ListState<u64>,
    map: MapState<u64, u64>,
    reducing: ReducingState<u64>,
    aggregating: AggregatingState<Row, u64>,
}

impl KeyedProcess for Everything {
    type Key = u64;
    type In = Row;
    type Out = Row;

    fn open(states: &mut States<Self>) -> Result<Self> {
        place("open")?;
        Ok(Self {
            value: states.value("value")?,
            list: states.list("list")?,
            map: states.map("map")?,
            reducing: states.reducing("reducing", |sum: &mut u64, weight| *sum = sum.wrapping_add(weight))?,
            aggregating: states.aggregating("aggregating", Weight)?,
        })
    }

    fn process(&mut self, row: Row, ctx: &mut Context<Self>) -> Result<()> {
        place("keyed")?;
        let weight = row.1;
        self.value.update(ctx, || 0, |sum| *sum = sum.wrapping_add(weight))?;
        self.list.add(ctx, weight)?;
        let part = self.map.get(ctx, &(weight % 4))?.unwrap_or_default();
        self.map.put(ctx, weight % 4, part.wrapping_add(weight))?;
        self.reducing.add(ctx, weight)?;
        self.aggregating.add(ctx, row)?;
        ctx.timers().on_event_time(END)?;
        ctx.emit(row);
        Ok(())
    }

    fn on_timer(&mut self, _: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        place("timer")?;
        let sum = |weights: Vec<u64>| weights.into_iter().fold(0, u64::wrapping_add);
        let held = [
            self.value.get(ctx)?.unwrap_or_default(),
            sum(self.list.get(ctx)?),
            sum(self.map.values(ctx)?),
            self.reducing.get(ctx)?.unwrap_or_default(),
            self.aggregating.get(ctx)?.unwrap_or_default(),
        ];
        // a sum that is nobody's shows that they do not agree
        let agreed = held.iter().all(|sum| *sum == held[0]);
        ctx.side(&HELD, (*ctx.key(), if agreed { held[0] } else { 0 }, 0))
    }
}

/// Holds records back until a timer of processing time, at the latest until the end.
pub struct Later {
    held: ListState<Row>,
}

impl KeyedProcess for Later {
    type Key = u64;
    type In = Row;
    type Out = Row;

    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { held: states.list("held")? })
    }

    fn process(&mut self, row: Row, ctx: &mut Context<Self>) -> Result<()> {
        place("later")?;
        self.held.add(ctx, row)?;
        let soon = ctx.processing_time().as_millis() + 1 + (row.1 % 8) as i64;
        ctx.timers().on_processing_time(Timestamp::from_millis(soon))?;
        ctx.timers().on_event_time(END)
    }

    fn on_timer(&mut self, _: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        place("later-timer")?;
        for row in self.held.get(ctx)? {
            ctx.emit(row);
        }
        self.held.clear(ctx)?;
        Ok(())
    }
}

/// Passes two inputs on and holds the sum of each.
pub struct Join {
    left: ReducingState<u64>,
    right: AggregatingState<Row, u64>,
}

impl CoProcess for Join {
    type Key = u64;
    type In1 = Row;
    type In2 = Row;
    type Out = Row;

    fn open(states: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self {
            left: states.reducing("left", |sum: &mut u64, weight| *sum = sum.wrapping_add(weight))?,
            right: states.aggregating("right", Weight)?,
        })
    }

    fn process1(&mut self, row: Row, ctx: &mut CoContext<Self>) -> Result<()> {
        place("left")?;
        self.left.add(ctx, row.1)?;
        ctx.timers().on_event_time(END)?;
        ctx.emit(row);
        Ok(())
    }

    fn process2(&mut self, row: Row, ctx: &mut CoContext<Self>) -> Result<()> {
        place("right")?;
        self.right.add(ctx, row)?;
        ctx.timers().on_event_time(END)?;
        ctx.emit(row);
        Ok(())
    }

    fn on_timer(&mut self, _: Timestamp, ctx: &mut CoContext<Self>) -> Result<()> {
        place("timer")?;
        let (left, right) = (self.left.get(ctx)?.unwrap_or(0), self.right.get(ctx)?.unwrap_or(0));
        ctx.side(&HELD, (*ctx.key(), joined(left, right), 0))
    }
}

/// What [`Join`] says of its two sums.
pub fn joined(left: u64, right: u64) -> u64 {
    left.wrapping_mul(3).wrapping_add(right.wrapping_mul(5))
}

/// Passes records on; each key says at the end what the sum of the rules is.
pub struct Ruled {
    rules: BroadcastState<u64, u64>,
}

impl BroadcastProcess for Ruled {
    type Key = u64;
    type In = Row;
    type Rule = Row;
    type Out = Row;

    fn open(_: &mut KeyedStates<u64>, broadcasts: &mut BroadcastStates<'_>) -> Result<Self> {
        Ok(Self { rules: broadcasts.map("rules")? })
    }

    fn process(&mut self, row: Row, ctx: &mut KeyedContext<'_, u64, Row>) -> Result<()> {
        place("ruled")?;
        ctx.timers().on_event_time(END)?;
        ctx.emit(row);
        Ok(())
    }

    fn process_broadcast(&mut self, rule: Row, _: &mut BroadcastContext<'_, Row>) -> Result<()> {
        place("rule")?;
        // a rule that came twice would count twice
        let before = self.rules.get(&rule.1)?.unwrap_or_default();
        self.rules.put(rule.1, before.wrapping_add(rule.1))?;
        Ok(())
    }

    fn on_timer(&mut self, _: Timestamp, ctx: &mut KeyedContext<'_, u64, Row>) -> Result<()> {
        place("timer")?;
        let mut sum = 0u64;
        self.rules.for_each(|_, weight| sum = sum.wrapping_add(*weight))?;
        ctx.side(&HELD, (*ctx.key(), sum, 0))
    }
}
