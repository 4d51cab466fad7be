//! Every event as a function of its number.
//!
//! The public Nexmark draws its random numbers one after another; here a draw is a function of the event's
//! number, so that any event can be made on its own, and every result is known.

use std::sync::LazyLock;

use stillstream::prelude::*;

use crate::event::{Auction, Bid, Event, Person, Text};

/// 2015-07-15 00:00 UTC, in milliseconds.
const BASE: u64 = 1_436_918_400_000;
/// Auctions that bids are for.
const IN_FLIGHT: u64 = 100;
/// People that bid and sell.
const ACTIVE: u64 = 1000;
/// The numbers of persons, auctions and bids in 50 events are 1, 3 and 46.
const EPOCH: u64 = 50;
const CHANNELS: u64 = 10_000;

const FIRST: [&str; 11] =
    ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"];
const LAST: [&str; 9] =
    ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"];
const CITY: [&str; 10] = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
];
const STATE: [&str; 6] = ["AZ", "CA", "ID", "OR", "WA", "WY"];

/// How many events happen in a millisecond of event time, and in which order they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    pub per_ms: u64,
    pub disordered: bool,
}

impl Profile {
    /// For speed.
    pub const FAST: Self = Self { per_ms: 1000, disordered: false };
    /// For checking: windows, sessions and joins see many turns.
    pub const SLOW: Self = Self { per_ms: 1, disordered: false };

    /// How much later than a later one an event may come.
    pub fn delay(self) -> Duration {
        if self.disordered { seconds(1) } else { Duration::ZERO }
    }

    /// The number of the event that comes at a position.
    pub fn event_at(self, position: u64) -> u64 {
        let group = 1000 * self.per_ms;
        match self.disordered {
            false => position,
            true => position / group * group + position * 953 % group,
        }
    }
}

/// Element `64 i + k` of splitmix64's sequence from seed 0.
fn draw(i: u64, k: u64) -> u64 {
    let z = (64u64.wrapping_mul(i).wrapping_add(k + 1)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// A number below `n` from the upper half of a draw.
fn hi(r: u64, n: u64) -> u64 {
    ((r >> 32) * n) >> 32
}

/// A number below `n` from the lower half of a draw.
fn lo(r: u64, n: u64) -> u64 {
    ((r & 0xFFFF_FFFF) * n) >> 32
}

/// What texts are cut out of, made once.
struct Pools {
    letters: String,
    text: String,
    /// Name and URL of each channel.
    channels: Vec<(String, String)>,
}

static POOLS: LazyLock<Pools> = LazyLock::new(|| {
    const T: u64 = 1 << 40;
    const P: u64 = 1 << 41;
    let pool =
        |byte: &dyn Fn(u64) -> u8| (0..65_536 + 1024).map(|b| char::from(byte(P + b))).collect::<String>();
    let letter = |n: u64| b'a' + n as u8;
    let letters = pool(&|b| letter(hi(draw(b, 0), 26)));
    let text = pool(&|b| {
        let r = draw(b, 1);
        if hi(r, 13) == 0 { b' ' } else { letter(lo(r, 26)) }
    });
    let channel = |k: u64| {
        let word = |j: u64| cut(&text, draw(T + k, j), 3, 2).replace(' ', "_");
        let url = format!("https://www.nexmark.com/{}/{}/{}/item.htm?query=1", word(0), word(1), word(2));
        match k.checked_sub(CHANNELS) {
            Some(large) => (["Google", "Facebook", "Baidu", "Apple"][large as usize].to_string(), url),
            None if hi(draw(T + k, 3), 10) > 0 => {
                let id = ((k as u32).reverse_bits() as i32).unsigned_abs();
                (format!("channel-{k}"), format!("{url}&channel_id={id}"))
            }
            None => (format!("channel-{k}"), url),
        }
    };
    let channels = (0..CHANNELS + 4).map(channel).collect();
    Pools { channels, letters, text }
});

/// `min` bytes of a pool and fewer than `span` more.
fn cut(pool: &str, r: u64, min: u64, span: u64) -> &str {
    let at = lo(r, 65_536) as usize;
    &pool[at..at + (min + hi(r, span)) as usize]
}

/// Makes events.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    per_ms: u64,
}

impl Generator {
    pub fn new(profile: Profile) -> Self {
        Self { per_ms: profile.per_ms }
    }

    /// Event `i`, below 2^40.
    pub fn event(self, i: u64) -> Event {
        let one = Drawing { i, epoch: i / EPOCH, millis: BASE + i / self.per_ms };
        match i % EPOCH {
            0 => Event::Person(one.person()),
            off @ 1..=3 => Event::Auction(one.auction(off, self.per_ms)),
            _ => Event::Bid(one.bid()),
        }
    }
}

/// One event that is being made.
struct Drawing {
    i: u64,
    epoch: u64,
    millis: u64,
}

impl Drawing {
    fn hi(&self, k: u64, n: u64) -> u64 {
        hi(draw(self.i, k), n)
    }

    fn lo(&self, k: u64, n: u64) -> u64 {
        lo(draw(self.i, k), n)
    }

    fn letters(&self, k: u64, min: u64, span: u64) -> &'static str {
        cut(&POOLS.letters, draw(self.i, k), min, span)
    }

    fn text(&self, k: u64, min: u64, span: u64) -> Text {
        Text::Borrowed(cut(&POOLS.text, draw(self.i, k), min, span))
    }

    /// About log-uniform, from 100 to 104857599.
    fn price(&self, k: u64) -> u64 {
        (100 * ((1 << 32) + (draw(self.i, k) & 0xFFFF_FFFF))) >> (32 - self.hi(k, 20))
    }

    /// What makes the event about `target` bytes long.
    fn extra(&self, k: u64, used: usize, target: u64) -> Text {
        let left = target - used as u64;
        let delta = (2 * left + 5) / 10;
        Text::Borrowed(self.letters(k, left - delta, 2 * delta))
    }

    /// One of the active people, or of the next nine to come.
    fn somebody(&self, k: u64) -> u64 {
        let people = self.epoch + 1;
        let some = people.min(ACTIVE);
        people - some + self.lo(k, some + 10)
    }

    fn date_time(&self) -> Timestamp {
        Timestamp::from_millis(self.millis as i64)
    }

    fn person(&self) -> Person {
        let name = format!("{} {}", FIRST[self.hi(0, 11) as usize], LAST[self.lo(0, 9) as usize]);
        let email = format!("{}@{}.com", self.letters(2, 3, 4), self.letters(3, 3, 2));
        let four = |k, high| if high { self.hi(k, 10_000) } else { self.lo(k, 10_000) };
        let (a, b, c, d) = (four(4, true), four(4, false), four(5, true), four(5, false));
        let credit_card = format!("{a:04} {b:04} {c:04} {d:04}");
        let (city, state) = (CITY[self.hi(1, 10) as usize], STATE[self.lo(1, 6) as usize]);
        let used = 8 + name.len() + email.len() + credit_card.len() + city.len() + state.len();
        Person {
            id: self.epoch + 1000,
            name: name.into(),
            email: email.into(),
            credit_card: credit_card.into(),
            city: city.into(),
            state: state.into(),
            date_time: self.date_time(),
            extra: self.extra(6, used, 200),
        }
    }

    fn auction(&self, off: u64, per_ms: u64) -> Auction {
        let (item_name, description) = (self.text(4, 3, 17), self.text(5, 3, 97));
        let used = 48 + item_name.len() + description.len();
        let initial_bid = self.price(2);
        let horizon = BASE + (self.i + IN_FLIGHT * EPOCH / 3) / per_ms - self.millis;
        let seller = if self.hi(0, 4) > 0 { self.epoch / 100 * 100 } else { self.somebody(0) };
        Auction {
            id: 3 * self.epoch + off - 1 + 1000,
            item_name,
            description,
            initial_bid,
            reserve: initial_bid + self.price(3),
            date_time: self.date_time(),
            expires: Timestamp::from_millis((self.millis + 1 + self.lo(1, (2 * horizon).max(1))) as i64),
            seller: seller + 1000,
            category: 10 + self.hi(1, 5),
            extra: self.extra(6, used, 500),
        }
    }

    fn bid(&self) -> Bid {
        let last = 3 * self.epoch + 2;
        let auction = match self.hi(0, 2) > 0 {
            true => last / 100 * 100,
            false => {
                let min = last.saturating_sub(IN_FLIGHT);
                min + self.lo(0, last - min + 11)
            }
        };
        let bidder = if self.hi(1, 4) > 0 { self.epoch / 100 * 100 + 1 } else { self.somebody(1) };
        let channel = if self.hi(3, 2) > 0 { CHANNELS + self.lo(3, 4) } else { self.lo(3, CHANNELS) };
        let (channel, url) = &POOLS.channels[channel as usize];
        Bid {
            auction: auction + 1000,
            bidder: bidder + 1000,
            price: self.price(2),
            channel: Text::Borrowed(channel),
            url: Text::Borrowed(url),
            date_time: self.date_time(),
            extra: self.extra(4, 32, 100),
        }
    }
}
