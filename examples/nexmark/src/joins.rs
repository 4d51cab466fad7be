//! Joins of two streams by a key, whichever comes first.

use stillstream::prelude::*;

use crate::event::{Auction, Bid, Text};

/// Pairs of a person and the auctions of that person. People and waiting auctions are kept for ever.
#[derive(Debug)]
pub struct LocalItems {
    person: ValueState<(Text, Text, Text)>,
    waiting: ListState<u64>,
}

impl CoProcess for LocalItems {
    type Key = u64;
    /// Id, name, city and state of a person.
    type In1 = (u64, Text, Text, Text);
    /// The seller and the id of an auction.
    type In2 = (u64, u64);
    type Out = (Text, Text, Text, u64);

    fn open(states: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self { person: states.value("person")?, waiting: states.list("waiting auctions")? })
    }

    fn process1(&mut self, (_, name, city, state): Self::In1, ctx: &mut CoContext<Self>) -> Result<()> {
        for auction in self.waiting.take(ctx)? {
            ctx.emit((name.clone(), city.clone(), state.clone(), auction));
        }
        Ok(self.person.set(ctx, (name, city, state))?)
    }

    fn process2(&mut self, (_, auction): (u64, u64), ctx: &mut CoContext<Self>) -> Result<()> {
        match self.person.get(ctx)? {
            Some((name, city, state)) => ctx.emit((name, city, state, auction)),
            None => self.waiting.add(ctx, auction)?,
        }
        Ok(())
    }
}

/// Pairs of a bid and its auction. An auction is kept for ten seconds, and a bid until its auction comes.
#[derive(Debug)]
pub struct Expand {
    auction: ValueState<Option<Auction>>,
    waiting: ListState<Bid>,
}

impl CoProcess for Expand {
    type Key = u64;
    type In1 = Bid;
    /// Id and time of an auction, and the auction if somebody wants it.
    type In2 = (u64, Timestamp, Option<Auction>);
    type Out = (Bid, Auction);

    fn open(states: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self { auction: states.value("auction")?, waiting: states.list("waiting bids")? })
    }

    fn process1(&mut self, bid: Bid, ctx: &mut CoContext<Self>) -> Result<()> {
        match self.auction.get(ctx)? {
            Some(Some(auction)) => ctx.emit((bid, auction)),
            Some(None) => {}
            None => self.waiting.add(ctx, bid)?,
        }
        Ok(())
    }

    fn process2(&mut self, (_, at, auction): Self::In2, ctx: &mut CoContext<Self>) -> Result<()> {
        let waiting = self.waiting.take(ctx)?;
        if let Some(auction) = &auction {
            waiting.into_iter().for_each(|bid| ctx.emit((bid, auction.clone())));
        }
        ctx.timers().on_event_time(at + seconds(10))?;
        Ok(self.auction.set(ctx, auction)?)
    }

    fn on_timer(&mut self, _: Timestamp, ctx: &mut CoContext<Self>) -> Result<()> {
        Ok(self.auction.clear(ctx)?)
    }
}
