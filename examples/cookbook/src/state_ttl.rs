//! State that expires: the first of equal messages within a day is passed on, and then the next one.
//!
//! State with a time to live is gone when nobody has written it for so long, and its memory comes back. The
//! time is that of the clock on the wall, so the function runs here by a driver whose clock is moved by hand.
//!
//! ```text
//! first day: ["disk full"]
//! a day later: ["disk full"]
//! ```

use stillstream::prelude::*;
use stillstream::testing::KeyedProcessDriver;

struct Distinct {
    seen: ValueState<()>,
}

impl KeyedProcess for Distinct {
    type Key = String;
    type In = String;
    type Out = String;

    fn open(states: &mut States<Self>) -> Result<Self> {
        let a_day = StateTtlConfig::new(days(1));
        Ok(Self { seen: states.with_ttl(&a_day).value("seen")? })
    }

    fn process(&mut self, message: String, ctx: &mut Context<Self>) -> Result<()> {
        if self.seen.get(ctx)?.is_none() {
            self.seen.set(ctx, ())?;
            ctx.emit(message);
        }
        Ok(())
    }
}

pub fn main() -> Result<()> {
    let mut driver = KeyedProcessDriver::<Distinct>::new(|message| message.clone());

    driver.record("disk full".into())?;
    driver.advance_clock(hours(23))?;
    driver.record("disk full".into())?; // not written again: the time is still that of the first one
    println!("first day: {:?}", driver.output());

    driver.advance_clock(hours(1))?;
    driver.record("disk full".into())?;
    println!("a day later: {:?}", driver.output());
    Ok(())
}
