//! Nexmark: queries over the people, auctions and bids of an auction house.
//!
//! | module | what is inside |
//! |---|---|
//! | [`event`] | [`Person`], [`Auction`] and [`Bid`] |
//! | [`generator`] | every event as a function of its number |
//! | [`source`] | the generator as a replayable source |
//! | [`queries`] | the queries, each a function of the stream of events |
//! | [`joins`], [`auctions`] | the functions with state that some of them need |
//! | [`tally`] | a sink that counts rows and adds up their hashes, each exactly once |
//! | [`results`] | what the queries must give |

#![expect(missing_docs, reason = "names of the benchmark's own say what they are")]

pub mod auctions;
pub mod event;
pub mod generator;
pub mod joins;
pub mod queries;
pub mod results;
pub mod source;
pub mod tally;

pub use event::{Auction, Bid, Event, Person, Text};
pub use generator::{Generator, Profile};
pub use queries::{QUERIES, run};
pub use source::Events;
pub use tally::{Tally, Total};
