//! Winning bids, and what things of a category are sold for.

use stillstream::prelude::*;

/// An auction that is open, and the highest valid bid so far.
#[derive(Clone, Debug, Data)]
pub struct Open {
    category: u64,
    from: Timestamp,
    expires: Timestamp,
    best: Option<u64>,
}

impl Open {
    fn bid(&mut self, price: u64, at: Timestamp) {
        if self.from <= at && at <= self.expires {
            self.best = self.best.max(Some(price));
        }
    }
}

/// Gives the category and the price of each auction when it expires, if there was a valid bid.
///
/// Bids that come before their auction wait. One is not valid if its auction has not begun by then, so it waits until the
/// watermark has reached its time.
#[derive(Debug)]
pub struct Close {
    open: ValueState<Open>,
    waiting: ListState<(u64, Timestamp)>,
}

impl CoProcess for Close {
    type Key = u64;
    /// Auction, price and time of a bid.
    type In1 = (u64, u64, Timestamp);
    /// Id, category, beginning and end of an auction.
    type In2 = (u64, u64, Timestamp, Timestamp);
    type Out = (u64, u64);

    fn open(states: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self { open: states.value("open auction")?, waiting: states.list("waiting bids")? })
    }

    fn process1(&mut self, (_, price, at): Self::In1, ctx: &mut CoContext<Self>) -> Result<()> {
        match self.open.get(ctx)? {
            Some(mut open) => {
                open.bid(price, at);
                self.open.set(ctx, open)?;
            }
            // the auction has been closed, or has not begun: nothing to wait for if all of that time have come
            None if at > ctx.watermark() => {
                self.waiting.add(ctx, (price, at))?;
                ctx.timers().on_event_time(at)?;
            }
            None => {}
        }
        Ok(())
    }

    fn process2(&mut self, (_, category, from, expires): Self::In2, ctx: &mut CoContext<Self>) -> Result<()> {
        let mut open = Open { category, from, expires, best: None };
        self.waiting.take(ctx)?.into_iter().for_each(|(price, at)| open.bid(price, at));
        ctx.timers().on_event_time(expires)?;
        Ok(self.open.set(ctx, open)?)
    }

    fn on_timer(&mut self, at: Timestamp, ctx: &mut CoContext<Self>) -> Result<()> {
        match self.open.get(ctx)? {
            Some(open) if open.expires == at => {
                self.open.clear(ctx)?;
                open.best.into_iter().for_each(|price| ctx.emit((open.category, price)));
            }
            Some(_) => {}
            None => {
                let mut waiting = self.waiting.get(ctx)?;
                waiting.retain(|(_, of)| *of > at);
                self.waiting.update(ctx, waiting)?;
            }
        }
        Ok(())
    }
}

/// Category, sum, number and average of the prices.
type Sold = (u64, u64, u64, u64);

/// Adds a price, and gives the old row of the category, if there was one, and the new one.
pub fn average(sold: &mut Option<Sold>, (category, price): (u64, u64)) -> (Option<Sold>, Sold) {
    let (_, sum, count, _) = sold.unwrap_or_default();
    let (sum, count) = (sum + price, count + 1);
    let new = (category, sum, count, sum / count);
    (sold.replace(new), new)
}
