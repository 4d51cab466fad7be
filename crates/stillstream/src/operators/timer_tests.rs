//! Timers of both clocks, in every function that has them.

use stillstream_types::{Result, Timestamp, time::millis};

use crate::prelude::*;
use crate::testing::{ConnectedDriver, DriverSnapshot, StreamDriver};

/// Key, and what to do.
type Order = (u64, What, i64);
/// Key, when, event time or not.
type Fired = (u64, i64, bool);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Data)]
enum What {
    /// Sets a timer of event time.
    Event,
    /// Sets one of processing time.
    Processing,
    /// Deletes those of both.
    Delete,
    /// Sets one of event time, this long before 1970, that sets the next one at half of that, until there is
    /// none.
    Chain,
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn order((_, what, time): Order, ctx: &mut KeyedContext<'_, u64, Fired>) -> Result<()> {
    assert_eq!(ctx.time_domain(), None, "no timer is firing");
    let timers = ctx.timers();
    match what {
        What::Event => timers.on_event_time(at(time)),
        What::Processing => timers.on_processing_time(at(time)),
        What::Delete => {
            timers.delete_event_time(at(time))?;
            timers.delete_processing_time(at(time))
        }
        What::Chain => timers.on_event_time(at(-time)),
    }
}

fn fired(time: Timestamp, ctx: &mut KeyedContext<'_, u64, Fired>) -> Result<()> {
    let millis = time.as_millis();
    let by_watermark = ctx.time_domain() == Some(TimeDomain::EventTime);
    assert_eq!(ctx.timestamp(), by_watermark.then_some(time));
    ctx.emit((*ctx.key(), millis, by_watermark));
    // a chain lies before 1970
    if by_watermark && millis < -1 {
        ctx.timers().on_event_time(at(millis / 2))?;
    }
    Ok(())
}

struct One;

impl KeyedProcess for One {
    type Key = u64;
    type In = Order;
    type Out = Fired;
    fn open(_: &mut States<Self>) -> Result<Self> {
        Ok(Self)
    }
    fn process(&mut self, record: Order, ctx: &mut Context<'_, Self>) -> Result<()> {
        order(record, ctx)
    }
    fn on_timer(&mut self, at: Timestamp, ctx: &mut Context<'_, Self>) -> Result<()> {
        fired(at, ctx)
    }
}

struct Two;

impl CoProcess for Two {
    type Key = u64;
    type In1 = Order;
    type In2 = Order;
    type Out = Fired;
    fn open(_: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self)
    }
    fn process1(&mut self, record: Order, ctx: &mut CoContext<'_, Self>) -> Result<()> {
        order(record, ctx)
    }
    fn process2(&mut self, record: Order, ctx: &mut CoContext<'_, Self>) -> Result<()> {
        order(record, ctx)
    }
    fn on_timer(&mut self, at: Timestamp, ctx: &mut CoContext<'_, Self>) -> Result<()> {
        fired(at, ctx)
    }
}

struct WithRules;

impl BroadcastProcess for WithRules {
    type Key = u64;
    type In = Order;
    type Rule = u64;
    type Out = Fired;
    fn open(_: &mut KeyedStates<u64>, _: &mut BroadcastStates<'_>) -> Result<Self> {
        Ok(Self)
    }
    fn process(&mut self, record: Order, ctx: &mut KeyedContext<'_, u64, Fired>) -> Result<()> {
        order(record, ctx)
    }
    fn process_broadcast(&mut self, _: u64, _: &mut BroadcastContext<'_, Fired>) -> Result<()> {
        Ok(())
    }
    fn on_timer(&mut self, at: Timestamp, ctx: &mut KeyedContext<'_, u64, Fired>) -> Result<()> {
        fired(at, ctx)
    }
}

/// A function with timers, whichever it is.
enum Driver {
    One(StreamDriver<Order, Fired>),
    Two(ConnectedDriver<Order, Order, Fired>),
    WithRules(ConnectedDriver<Order, u64, Fired>),
}

macro_rules! on {
    ($self:expr, $driver:ident => $call:expr) => {
        match $self {
            Self::One($driver) => $call,
            Self::Two($driver) => $call,
            Self::WithRules($driver) => $call,
        }
    };
}

impl Driver {
    fn all() -> [fn() -> Self; 3] {
        let one = || {
            Self::One(StreamDriver::new(|orders: &DataStream<Order>| orders.key_by(|o| o.0).process::<One>()))
        };
        let two = || {
            Self::Two(ConnectedDriver::new(|first: &DataStream<Order>, second: &DataStream<Order>| {
                first.connect(second).key_by(|order| order.0, |order| order.0).process::<Two>()
            }))
        };
        let with_rules = || {
            Self::WithRules(ConnectedDriver::new(|orders: &DataStream<Order>, rules: &DataStream<u64>| {
                orders.key_by(|order| order.0).connect_broadcast(rules).process::<WithRules>()
            }))
        };
        [one, two, with_rules]
    }

    fn order(&mut self, key: u64, what: What, time: i64) {
        let order = (key, what, time);
        match self {
            Self::One(driver) => driver.record(order),
            Self::Two(driver) if time % 2 == 0 => driver.record1(order),
            Self::Two(driver) => driver.record2(order),
            Self::WithRules(driver) => driver.record1(order),
        }
        .unwrap();
    }

    fn watermark(&mut self, to: Timestamp) -> Vec<Fired> {
        on!(self, driver => { driver.watermark(to).unwrap(); driver.output() })
    }

    fn clock(&mut self, by: u64) -> Vec<Fired> {
        on!(self, driver => { driver.advance_clock(millis(by)).unwrap(); driver.output() })
    }

    fn snapshot(&mut self) -> DriverSnapshot {
        on!(self, driver => driver.snapshot().unwrap())
    }

    fn restored(self, snapshot: DriverSnapshot) -> Self {
        match self {
            Self::One(driver) => Self::One(driver.restored(snapshot).parallelism(3)),
            Self::Two(driver) => Self::Two(driver.restored(snapshot).parallelism(3)),
            Self::WithRules(driver) => Self::WithRules(driver.restored(snapshot).parallelism(3)),
        }
    }
}

#[test]
fn timers_are_one_for_each_time_deletable_and_fire_in_order_by_their_own_clock() {
    for new in Driver::all() {
        let mut driver = new();
        for time in [30, 10, 20, 10, 15] {
            driver.order(1, What::Event, time);
            driver.order(1, What::Processing, time);
        }
        driver.order(1, What::Delete, 15);
        driver.order(2, What::Delete, 20);
        assert_eq!(driver.watermark(at(20)), [(1, 10, true), (1, 20, true)]);
        assert!(driver.clock(9).is_empty());
        assert_eq!(driver.clock(1), [(1, 10, false)]);
        assert_eq!(driver.clock(100), [(1, 20, false), (1, 30, false)]);
        assert!(driver.watermark(at(29)).is_empty());
    }
}

#[test]
fn at_the_end_of_the_input_event_timers_fire_and_so_do_those_that_they_set() {
    for new in Driver::all() {
        let mut driver = new();
        driver.order(7, What::Processing, 50);
        driver.order(7, What::Event, 1 << 40);
        driver.order(7, What::Chain, 9);
        let expected = [(7, -9, true), (7, -4, true), (7, -2, true), (7, -1, true), (7, 1 << 40, true)];
        assert_eq!(driver.watermark(Timestamp::MAX), expected);
    }
}

#[test]
fn timers_of_both_clocks_are_there_after_a_restart_with_another_parallelism() {
    for new in Driver::all() {
        let mut driver = new();
        for key in 0..20 {
            driver.order(key, What::Event, 10 + key as i64);
            driver.order(key, What::Processing, 40 + key as i64);
        }
        let mut driver = new().restored(driver.snapshot());
        driver.order(3, What::Delete, 13);
        let mut by_watermark = driver.watermark(at(100));
        by_watermark.sort_unstable();
        let expected = (0..20).filter(|key| *key != 3).map(|key| (key, 10 + key as i64, true));
        assert_eq!(by_watermark, expected.collect::<Vec<_>>());
        // those whose moment passed while the job was down fire at once
        let mut by_clock = driver.clock(1_000);
        by_clock.sort_unstable();
        assert_eq!(by_clock, (0..20).map(|key| (key, 40 + key as i64, false)).collect::<Vec<_>>());
    }
}
