//! Credits: what is in flight on each edge, and what is owed for it.
//!
//! Timely's channels have no bound. So each edge counts the records and bytes that were sent to each worker
//! and not yet processed there. Credits flow back over a second, small dataflow. Only sources and bulk
//! emitters look at the gate, each only at the edges that its own output can reach: one that also looked at
//! its own input would wait for itself, and one that looked at the other input of a join below would wait for
//! a barrier that it holds back itself.
//!
//! A barrier waits for what is in flight before it, so the limit follows the consumer: with each credit it
//! says how many records make about a second of its work. Before the first credit the limit is low.

use timely::scheduling::Activator;

/// What may be in flight on an edge to one worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowLimits {
    pub records: i64,
    pub bytes: i64,
}

impl FlowLimits {
    pub fn new(records: u64, bytes: u64) -> Self {
        let limit = |n: u64| n.clamp(1, i64::MAX as u64) as i64;
        Self { records: limit(records), bytes: limit(bytes) }
    }
}

/// The limit while nothing is known of the consumer.
const FIRST_LIMIT: i64 = 256;

/// The size of a record where none was seen yet.
const UNKNOWN: i64 = 1;

/// What was sent and not yet processed, or is owed for having been processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Amount {
    pub records: i64,
    pub bytes: i64,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
    }

    fn subtract(&mut self, other: Self) {
        self.records -= other.records;
        self.bytes -= other.bytes;
    }
}

/// A credit on its way to a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Credit {
    pub to: u64,
    pub edge: u32,
    pub amount: Amount,
    /// Records that may be in flight from now on.
    pub limit: i64,
}

/// In flight per edge and target, and credits owed per edge and sender, of one worker.
pub(crate) struct Credits {
    me: usize,
    peers: usize,
    limits: FlowLimits,
    in_flight: Vec<Amount>,
    /// Per edge and target: records that may be in flight, as the target said last.
    allowed: Vec<i64>,
    owed: Vec<Amount>,
    /// Per edge: bytes of a record, as sent last.
    record_size: Vec<i64>,
    /// Per edge: records that each sender may have in flight to this worker.
    allows: Vec<i64>,
    total_owed: i64,
    waiting: Vec<(usize, Activator)>,
    pub max_in_flight: i64,
}

impl Credits {
    pub fn new(me: usize, peers: usize, edges: usize, limits: FlowLimits) -> Self {
        let first = limits.records.min(FIRST_LIMIT);
        Self {
            me,
            peers,
            limits,
            in_flight: vec![Amount::default(); edges * peers],
            allowed: vec![first; edges * peers],
            owed: vec![Amount::default(); edges * peers],
            record_size: vec![UNKNOWN; edges],
            allows: vec![first; edges],
            total_owed: 0,
            waiting: Vec::new(),
            max_in_flight: 0,
        }
    }

    /// Counts a batch that goes to worker `to`.
    #[inline]
    pub fn sent(&mut self, edge: u32, to: usize, amount: Amount) {
        let count = &mut self.in_flight[edge as usize * self.peers + to];
        count.add(amount);
        if amount.records > 0 {
            self.record_size[edge as usize] = (amount.bytes / amount.records).max(UNKNOWN + 1);
        }
        self.max_in_flight = self.max_in_flight.max(count.records);
    }

    /// Counts a batch that has been processed here and came from worker `from`.
    #[inline]
    pub fn processed(&mut self, edge: u32, from: usize, amount: Amount) {
        let at = edge as usize * self.peers + from;
        if from == self.me {
            self.in_flight[at].subtract(amount);
            self.allowed[at] = self.allows[edge as usize];
            self.wake_all();
        } else {
            self.owed[at].add(amount);
            self.total_owed += amount.records;
        }
    }

    /// The consumer of an edge does so many records in the time that may lie in flight, all senders together.
    pub fn pace(&mut self, edge: u32, records: i64, senders: usize) {
        let share = records / senders.max(1) as i64;
        self.allows[edge as usize] = share.clamp(1, self.limits.records);
    }

    /// Whether all these edges have room for more.
    pub fn open(&self, edges: &[u32]) -> bool {
        edges.iter().all(|edge| {
            self.targets(*edge)
                .all(|(count, allowed)| count.records < allowed && count.bytes < self.limits.bytes)
        })
    }

    fn targets(&self, edge: u32) -> impl Iterator<Item = (Amount, i64)> + '_ {
        let start = edge as usize * self.peers;
        let counts = self.in_flight[start..start + self.peers].iter();
        counts.copied().zip(self.allowed[start..start + self.peers].iter().copied())
    }

    /// How many records a source may emit at once into these edges, if they are dealt out evenly.
    pub fn room(&self, edges: impl Iterator<Item = u32>) -> usize {
        let of = |edge: u32| {
            let size = self.record_size[edge as usize];
            let left = |(count, allowed): (Amount, i64)| {
                (allowed - count.records).min((self.limits.bytes - count.bytes) / size)
            };
            let least = self.targets(edge).map(left).min().unwrap_or(i64::MAX);
            least.max(1).saturating_mul(self.peers as i64)
        };
        edges.map(of).min().map_or(usize::MAX, |room| usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// Whether a record of this edge has been measured.
    pub fn knows_size(&self, edge: u32) -> bool {
        self.record_size[edge as usize] != UNKNOWN
    }

    /// What is known of a record's size on this edge before the first one was sent.
    pub fn expect_size(&mut self, edge: u32, bytes: usize) {
        self.record_size[edge as usize] = (bytes as i64).max(UNKNOWN + 1);
    }

    /// Whether so many records on these edges are as many bytes as may be in flight: then it is time to send
    /// them.
    pub fn is_much(&self, records: u64, edges: impl Iterator<Item = u32>) -> bool {
        let size = edges.map(|edge| self.record_size[edge as usize]).max().unwrap_or(UNKNOWN);
        (records as i64).saturating_mul(size) >= self.limits.bytes
    }

    /// Wakes task `task` at the next credit.
    pub fn wait(&mut self, task: usize, activator: &Activator) {
        if !self.waiting.iter().any(|(waiting, _)| *waiting == task) {
            self.waiting.push((task, activator.clone()));
        }
    }

    fn wake_all(&mut self) {
        self.waiting.drain(..).for_each(|(_, activator)| activator.activate());
    }

    /// Credits that other workers wait for.
    pub fn owed(&self) -> i64 {
        self.total_owed
    }

    /// Whether so much is owed that it should be returned before the worker goes idle: a sender that may have
    /// little in flight waits for little.
    pub fn owes_much(&self) -> bool {
        let least = self.allows.iter().copied().min().unwrap_or(self.limits.records);
        self.total_owed > least.min(16_384) / 4
    }

    /// Takes what is owed.
    pub fn take_owed(&mut self, mut send: impl FnMut(Credit)) {
        if self.total_owed == 0 {
            return;
        }
        self.total_owed = 0;
        for (at, owed) in self.owed.iter_mut().enumerate() {
            if owed.records > 0 {
                let (edge, to) = (at / self.peers, (at % self.peers) as u64);
                let (amount, limit) = (std::mem::take(owed), self.allows[edge]);
                send(Credit { to, edge: edge as u32, amount, limit });
            }
        }
    }

    /// A credit from worker `from` has arrived.
    pub fn credited(&mut self, edge: u32, from: usize, amount: Amount, limit: i64) {
        let at = edge as usize * self.peers + from;
        self.in_flight[at].subtract(amount);
        self.allowed[at] = limit.clamp(1, self.limits.records);
        self.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flow::pace::WorkPace;

    fn records(records: i64) -> Amount {
        Amount { records, bytes: records * 8 }
    }

    #[test]
    fn an_edge_is_closed_at_its_limit_and_opens_with_the_credit() {
        let mut credits = Credits::new(0, 2, 3, FlowLimits::new(10, 1 << 20));
        credits.sent(1, 1, records(10));
        assert!(!credits.open(&[0, 1]));
        assert!(credits.open(&[0, 2]), "only the edges that an emitter reaches count");
        credits.credited(1, 1, records(4), 10);
        assert!(credits.open(&[1]));
    }

    #[test]
    fn few_large_records_close_an_edge_as_many_small_ones_do() {
        let mut credits = Credits::new(0, 2, 1, FlowLimits::new(65_536, 32 << 20));
        let large = Amount { records: 1, bytes: 10 << 20 };
        for _ in 0..3 {
            assert!(credits.open(&[0]));
            credits.sent(0, 1, large);
        }
        assert_eq!(credits.room([0].into_iter()), 2, "two megabytes are left");
        credits.sent(0, 1, large);
        assert!(!credits.open(&[0]), "40 MB are in flight");
        credits.credited(0, 1, Amount { records: 2, bytes: 20 << 20 }, 65_536);
        assert!(credits.open(&[0]));
    }

    #[test]
    fn the_limit_is_about_a_second_of_the_consumers_work() {
        let mut credits = Credits::new(0, 2, 1, FlowLimits::new(65_536, 1 << 30));
        credits.sent(0, 1, records(300));
        assert!(!credits.open(&[0]), "nothing is known of the consumer yet");
        let at = Duration::from_millis;
        let mut pace = WorkPace::default();
        pace.begin(at(0));
        pace.done(100);
        assert_eq!(pace.measure(at(1_000), false), 100);
        credits.pace(0, 100, 2);
        credits.processed(0, 1, records(100));
        let mut owed = Vec::new();
        credits.take_owed(|credit| owed.push(credit));
        assert_eq!(owed, [Credit { to: 1, edge: 0, amount: records(100), limit: 50 }]);
        credits.credited(0, 1, records(260), 50);
        assert!(credits.open(&[0]));
        assert_eq!(credits.room([0].into_iter()), 20, "ten more to each of two");
        credits.sent(0, 1, records(10));
        assert!(!credits.open(&[0]));
        // a consumer that waits for room downstream is slow too, and one that has become fast is given more
        for n in 1..=20 {
            pace.begin(at(1_000 + n));
            pace.done(1_000);
            pace.measure(at(1_000 + n) + Duration::from_micros(100), false);
        }
        pace.begin(at(2_000));
        pace.done(1_000);
        assert!(pace.measure(at(2_000) + Duration::from_micros(100), false) > 500_000);
    }

    #[test]
    fn credits_to_oneself_need_no_message_and_few_credits_are_returned_too() {
        let mut credits = Credits::new(0, 2, 1, FlowLimits::new(1 << 20, 1 << 40));
        credits.sent(0, 0, records(5));
        credits.processed(0, 0, records(5));
        assert_eq!((credits.owed(), credits.in_flight[0]), (0, Amount::default()));
        credits.processed(0, 1, records(1));
        let mut sent = Vec::new();
        credits.take_owed(|credit| sent.push((credit.to, credit.edge, credit.amount)));
        assert_eq!(sent, [(1, 0, records(1))]);
        assert_eq!(credits.owed(), 0);
    }
}
