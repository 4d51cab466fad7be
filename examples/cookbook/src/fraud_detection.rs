//! Fraud detection: a small payment, and within a minute a large one with the same card.
//!
//! A function with state of its own and timers is a [`KeyedProcess`]. The state here is the time of the last
//! small payment, and the timer forgets it after a minute, so that cards which are not used take no memory.
//! `testing_a_function.rs` tests this function without a job.
//!
//! ```text
//! Payment { card: "4711", cents: 80000, at: 1970-01-01T00:00:50Z }
//! ```

use stillstream::prelude::*;

#[derive(Clone, Debug, PartialEq, Data)]
pub struct Payment {
    pub card: String,
    pub cents: u64,
    pub at: Timestamp,
}

#[derive(Debug)]
pub struct FraudDetector {
    small: ValueState<Timestamp>,
}

impl KeyedProcess for FraudDetector {
    type Key = String;
    type In = Payment;
    type Out = Payment;

    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { small: states.value("last small payment")? })
    }

    fn process(&mut self, payment: Payment, ctx: &mut Context<Self>) -> Result<()> {
        let (cents, at, small) = (payment.cents, payment.at, self.small.get(ctx)?);
        if cents > 50_000 && small.is_some_and(|small| at - small <= minutes(1)) {
            ctx.emit(payment);
        }
        if cents < 100 {
            self.small.set(ctx, at)?;
            ctx.timers().on_event_time(at + minutes(1))?;
        }
        Ok(())
    }

    fn on_timer(&mut self, at: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        if self.small.get(ctx)? == Some(at - minutes(1)) {
            self.small.clear(ctx)?;
        }
        Ok(())
    }
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    let payments = [("4711", 99, 10), ("0815", 99, 20), ("4711", 80_000, 50), ("0815", 80_000, 95)];

    env.from_collection(payments.map(|(card, cents, second)| Payment {
        card: card.into(),
        cents,
        at: Timestamp::from_seconds(second),
    }))
    .event_time(|payment| payment.at, Duration::ZERO)
    .key_by_ref(|payment| &payment.card)
    .process::<FraudDetector>()
    .uid("fraud")
    .print();

    env.execute("fraud detection").map(drop)
}
