//! What happens in an auction house.

use std::borrow::Cow;

use stillstream::prelude::*;

/// A text that may be a part of the generator's pools: making an event then copies nothing.
pub type Text = Cow<'static, str>;

/// Somebody who may sell and bid.
#[derive(Clone, Debug, Data)]
pub struct Person {
    pub id: u64,
    pub name: Text,
    pub email: Text,
    pub credit_card: Text,
    pub city: Text,
    pub state: Text,
    pub date_time: Timestamp,
    pub extra: Text,
}

/// Something for sale.
#[derive(Clone, Debug, Data)]
pub struct Auction {
    pub id: u64,
    pub item_name: Text,
    pub description: Text,
    pub initial_bid: u64,
    pub reserve: u64,
    pub date_time: Timestamp,
    pub expires: Timestamp,
    pub seller: u64,
    pub category: u64,
    pub extra: Text,
}

/// A bid for an auction.
#[derive(Clone, Debug, Data)]
pub struct Bid {
    pub auction: u64,
    pub bidder: u64,
    pub price: u64,
    pub channel: Text,
    pub url: Text,
    pub date_time: Timestamp,
    pub extra: Text,
}

/// One of the three.
#[derive(Clone, Debug, Data)]
pub enum Event {
    Person(Person),
    Auction(Auction),
    Bid(Bid),
}

impl Event {
    /// When it happened.
    pub fn date_time(&self) -> Timestamp {
        match self {
            Self::Person(person) => person.date_time,
            Self::Auction(auction) => auction.date_time,
            Self::Bid(bid) => bid.date_time,
        }
    }

    pub fn person(self) -> Option<Person> {
        if let Self::Person(person) = self { Some(person) } else { None }
    }

    pub fn auction(self) -> Option<Auction> {
        if let Self::Auction(auction) = self { Some(auction) } else { None }
    }

    pub fn bid(self) -> Option<Bid> {
        if let Self::Bid(bid) = self { Some(bid) } else { None }
    }
}

/// A copy that does not refer to the pools: what crosses an exchange takes its bytes along.
pub fn owned(text: Text) -> Text {
    Text::Owned(text.into_owned())
}

impl Bid {
    /// With its own bytes.
    pub fn owned(self) -> Self {
        Self { channel: owned(self.channel), url: owned(self.url), extra: owned(self.extra), ..self }
    }
}

impl Auction {
    /// With its own bytes.
    pub fn owned(self) -> Self {
        Self {
            item_name: owned(self.item_name),
            description: owned(self.description),
            extra: owned(self.extra),
            ..self
        }
    }
}
