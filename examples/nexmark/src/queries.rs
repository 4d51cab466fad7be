//! The queries, as a user would write them.

use stillstream::prelude::*;

use crate::auctions::{Close, average};
use crate::event::{Auction, Bid, Event, Person, Text, owned};
use crate::joins::{Expand, LocalItems};
use crate::source::Events;
use crate::tally::{Change, Row, Tally};

/// All queries by their numbers.
pub const QUERIES: [u64; 11] = [0, 1, 2, 3, 4, 5, 7, 8, 11, 18, 20];

type Stream<T> = DataStream<T>;

/// Adds query `number` over these events to a job; its result goes into `tally`.
///
/// # Errors
/// If there is no such query.
pub fn run(env: &StreamExecutionEnvironment, number: u64, source: Events, tally: &Tally) -> Result<()> {
    let events = events(env, source);
    match number {
        0 => counted(&q0(&bids(&events)), tally),
        1 => counted(&q1(&bids(&events)), tally),
        2 => counted(&q2(&bids(&events)), tally),
        3 => counted(&q3(&people(&events), &auctions(&events)), tally),
        4 => counted(&q4(&bids(&events), &auctions(&events)), tally),
        5 => counted(&q5(&bids(&events)), tally),
        7 => counted(&q7(&bids(&events)), tally),
        8 => counted(&q8(&events), tally),
        11 => counted(&q11(&bids(&events)), tally),
        18 => counted(&q18(&bids(&events)), tally),
        20 => counted(&q20(&bids(&events), &auctions(&events)), tally),
        other => {
            let text = format!("there is no query {other}; there are {QUERIES:?}");
            return Err(Error::new(ErrorKind::Configuration, text));
        }
    }
    Ok(())
}

fn counted<T: Row>(rows: &Stream<T>, tally: &Tally) {
    rows.sink_to("tally", tally.clone()).uid("tally");
}

/// All events, in event time.
pub fn events(env: &StreamExecutionEnvironment, source: Events) -> Stream<Event> {
    env.from_source("events", source)
        .uid("events")
        .event_time(Event::date_time, source.profile.delay())
        .uid("event time")
}

fn people(events: &Stream<Event>) -> Stream<Person> {
    events.flat_map(Event::person).name("people")
}

fn auctions(events: &Stream<Event>) -> Stream<Auction> {
    events.flat_map(Event::auction).name("auctions")
}

fn bids(events: &Stream<Event>) -> Stream<Bid> {
    events.flat_map(Event::bid).name("bids")
}

type BidRow = (u64, u64, u64, Timestamp, Text);

/// Pass-through.
pub fn q0(bids: &Stream<Bid>) -> Stream<BidRow> {
    bids.map(|bid| (bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra))
}

/// Currency conversion, into thousandths of a euro.
pub fn q1(bids: &Stream<Bid>) -> Stream<BidRow> {
    bids.map(|bid| (bid.auction, bid.bidder, bid.price * 908, bid.date_time, bid.extra))
}

/// Selection.
pub fn q2(bids: &Stream<Bid>) -> Stream<(u64, u64)> {
    bids.filter(|bid| bid.auction % 123 == 0).map(|bid| (bid.auction, bid.price))
}

/// Local item suggestion: auctions of category 10 whose sellers live in OR, ID or CA.
pub fn q3(people: &Stream<Person>, auctions: &Stream<Auction>) -> Stream<(Text, Text, Text, u64)> {
    let near = people.filter(|person| ["OR", "ID", "CA"].contains(&&*person.state));
    let near = near.map(|person| (person.id, owned(person.name), owned(person.city), owned(person.state)));
    let items = auctions.filter(|auction| auction.category == 10).map(|auction| (auction.seller, auction.id));
    near.connect(&items).key_by(|person| person.0, |item| item.0).process::<LocalItems>().uid("local items")
}

/// Average price of what was sold, by category.
pub fn q4(bids: &Stream<Bid>, auctions: &Stream<Auction>) -> Stream<Change<(u64, u64, u64, u64)>> {
    let bids = bids.map(|bid| (bid.auction, bid.price, bid.date_time));
    let auctions = auctions.map(|auction| (auction.id, auction.category, auction.date_time, auction.expires));
    bids.connect(&auctions)
        .key_by(|bid| bid.0, |auction| auction.0)
        .process::<Close>()
        .uid("winning bids")
        .key_by(|(category, _)| *category)
        .map_with_state("sold", average)
        .uid("average")
        .flat_map(Change::of)
}

/// How many records each key has in each window, with the window.
struct Count;

impl Aggregate for Count {
    type In = u64;
    type Acc = u64;
    type Out = u64;
    fn create(&self) -> u64 {
        0
    }
    fn add(&self, count: &mut u64, _: u64) {
        *count += 1;
    }
    fn merge(&self, count: &mut u64, other: u64) {
        *count += other;
    }
    fn result(&self, count: &u64) -> u64 {
        *count
    }
}

/// All records that have the highest value of some field.
struct Highest<T, F>(F, std::marker::PhantomData<fn(T)>);

impl<T, F: Fn(&T) -> u64> Highest<T, F> {
    fn of(value: F) -> Self {
        Self(value, std::marker::PhantomData)
    }
}

impl<T: Data, F: Fn(&T) -> u64 + 'static> Aggregate for Highest<T, F> {
    type In = T;
    type Acc = Vec<T>;
    type Out = Vec<T>;
    fn create(&self) -> Vec<T> {
        Vec::new()
    }
    fn add(&self, best: &mut Vec<T>, record: T) {
        match best.first().map(|known| (self.0)(known).cmp(&(self.0)(&record))) {
            Some(std::cmp::Ordering::Greater) => {}
            Some(std::cmp::Ordering::Equal) => best.push(record),
            _ => *best = vec![record],
        }
    }
    fn merge(&self, best: &mut Vec<T>, other: Vec<T>) {
        other.into_iter().for_each(|record| self.add(best, record));
    }
    fn result(&self, best: &Vec<T>) -> Vec<T> {
        best.clone()
    }
}

/// Hot items: the auctions with the most bids of the last ten seconds, every two seconds.
pub fn q5(bids: &Stream<Bid>) -> Stream<(Timestamp, u64, u64)> {
    bids.map(|bid| bid.auction)
        .key_by(|auction| *auction)
        .window(Sliding::of(seconds(10), seconds(2)))
        .aggregate_with(Count, |auction, window, bids| (window.end, *auction, bids))
        .uid("bids of each auction")
        // the counts of a window have the time of its last moment, and so they meet in one window again
        .window_all(Tumbling::of(seconds(2)))
        .aggregate(Highest::of(|count: &(Timestamp, u64, u64)| count.2))
        .uid("hottest")
        .flat_map(|hottest| hottest)
}

/// Highest bid: all bids with the highest price of each ten seconds.
pub fn q7(bids: &Stream<Bid>) -> Stream<(u64, u64, u64, Timestamp, Text)> {
    type Row = (u64, u64, u64, Timestamp, Text);
    let price = |bid: &Row| bid.1;
    bids.map(|bid| (bid.auction, bid.price, bid.bidder, bid.date_time, owned(bid.extra)))
        // in parts first: the end of a window has few records then
        .key_by(|bid| bid.0 % 64)
        .window(Tumbling::of(seconds(10)))
        .aggregate(Highest::of(price))
        .uid("highest of a part")
        .flat_map(|bids| bids)
        .window_all(Tumbling::of(seconds(10)))
        .aggregate(Highest::of(price))
        .uid("highest")
        .flat_map(|bids| bids)
}

/// Who came, and whether they sold.
struct NewSeller;

impl Aggregate for NewSeller {
    /// Somebody's id, with the name where the person came and without it where they opened an auction.
    type In = (u64, Option<Text>);
    type Acc = (Option<Text>, bool);
    type Out = Option<Text>;
    fn create(&self) -> Self::Acc {
        (None, false)
    }
    fn add(&self, (name, sold): &mut Self::Acc, record: Self::In) {
        match record.1 {
            Some(came) => *name = Some(came),
            None => *sold = true,
        }
    }
    fn merge(&self, (name, sold): &mut Self::Acc, other: Self::Acc) {
        *name = name.take().or(other.0);
        *sold |= other.1;
    }
    fn result(&self, (name, sold): &Self::Acc) -> Option<Text> {
        name.clone().filter(|_| *sold)
    }
}

/// Monitor new users: who came and opened an auction within the same ten seconds.
pub fn q8(events: &Stream<Event>) -> Stream<(u64, Text, Timestamp)> {
    let seen = events.flat_map(|event| match event {
        Event::Person(person) => Some((person.id, Some(owned(person.name)))),
        Event::Auction(auction) => Some((auction.seller, None)),
        Event::Bid(_) => None,
    });
    seen.key_by(|seen| seen.0)
        .window(Tumbling::of(seconds(10)))
        .aggregate_with(NewSeller, |id, window, name| name.map(|name| (*id, name, window.start)))
        .uid("new sellers")
        .flat_map(|seller| seller)
}

/// User sessions: how often somebody bid without a pause of ten seconds.
pub fn q11(bids: &Stream<Bid>) -> Stream<(u64, u64, Timestamp, Timestamp)> {
    bids.map(|bid| bid.bidder)
        .key_by(|bidder| *bidder)
        .window(Session::with_gap(seconds(10)))
        .aggregate_with(Count, |bidder, window, bids| (*bidder, bids, window.start, window.end))
        .uid("sessions")
}

/// The last bid of each bidder for each auction.
pub fn q18(bids: &Stream<Bid>) -> Stream<Change<Bid>> {
    fn order(bid: &Bid) -> impl Ord + '_ {
        (bid.date_time, bid.price, &bid.extra, &bid.channel)
    }
    bids.map(Bid::owned)
        .key_by(|bid| (bid.bidder, bid.auction))
        .map_with_state("last", |last: &mut Option<Bid>, bid: Bid| {
            if last.as_ref().is_some_and(|last| order(last) >= order(&bid)) {
                return None;
            }
            Some((last.replace(bid.clone()), bid))
        })
        .uid("last bids")
        .flat_map(|change| change.into_iter().flat_map(Change::of))
}

/// Expand bid: each bid for an auction of category 10, with the auction.
pub fn q20(bids: &Stream<Bid>, auctions: &Stream<Auction>) -> Stream<(Bid, Auction)> {
    // of the other auctions only that they are there, so that nobody waits for them
    let auctions = auctions.map(|auction| {
        let (id, date_time) = (auction.id, auction.date_time);
        (id, date_time, (auction.category == 10).then(|| auction.owned()))
    });
    bids.map(Bid::owned)
        .connect(&auctions)
        .key_by(|bid| bid.auction, |auction| auction.0)
        .process::<Expand>()
        .uid("expand")
}
