//! Flow control by credits, and the exchange of watermarks between sources.
//!
//! Timely's channels have no bound. So each edge counts the records that were sent to each worker and not yet processed
//! there. Credits flow back over a second, small dataflow. Only sources and bulk emitters look at the gate, each only at the
//! edges that its own output can reach: one that also looked at its own input would wait for itself, and one that looked
//! at the other input of a join below would wait for a barrier that it holds back itself.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use stillstream_types::Timestamp;
use timely::scheduling::Activator;

/// In-flight records per edge and target, and credits owed per edge and sender, of one worker.
pub(crate) struct Board {
    me: usize,
    peers: usize,
    limit: i64,
    in_flight: Vec<i64>,
    owed: Vec<i64>,
    total_owed: i64,
    waiting: Vec<(usize, Activator)>,
    pub max_in_flight: i64,
}

impl Board {
    pub fn new(me: usize, peers: usize, edges: usize, limit: u64) -> Self {
        Self {
            me,
            peers,
            limit: limit.clamp(1, i64::MAX as u64) as i64,
            in_flight: vec![0; edges * peers],
            owed: vec![0; edges * peers],
            total_owed: 0,
            waiting: Vec::new(),
            max_in_flight: 0,
        }
    }

    /// Counts a batch that goes to worker `to`.
    #[inline]
    pub fn sent(&mut self, edge: u32, to: usize, records: u32) {
        let count = &mut self.in_flight[edge as usize * self.peers + to];
        *count += records as i64;
        self.max_in_flight = self.max_in_flight.max(*count);
    }

    /// Counts a batch that has been processed here and came from worker `from`.
    #[inline]
    pub fn processed(&mut self, edge: u32, from: usize, records: u32) {
        let at = edge as usize * self.peers + from;
        if from == self.me {
            self.in_flight[at] -= records as i64;
            self.wake_all();
        } else {
            self.owed[at] += records as i64;
            self.total_owed += records as i64;
        }
    }

    /// Whether all these edges have room for more.
    pub fn open(&self, edges: &[u32]) -> bool {
        edges.iter().all(|edge| {
            let start = *edge as usize * self.peers;
            self.in_flight[start..start + self.peers].iter().all(|count| *count < self.limit)
        })
    }

    /// Wakes task `slot` at the next credit.
    pub fn wait(&mut self, slot: usize, activator: &Activator) {
        if !self.waiting.iter().any(|(waiting, _)| *waiting == slot) {
            self.waiting.push((slot, activator.clone()));
        }
    }

    fn wake_all(&mut self) {
        self.waiting.drain(..).for_each(|(_, activator)| activator.activate());
    }

    /// Credits that other workers wait for.
    pub fn owed(&self) -> i64 {
        self.total_owed
    }

    /// Whether so much is owed that it should be returned before the worker goes idle.
    pub fn owes_much(&self) -> bool {
        self.total_owed > self.limit.min(16_384) / 4
    }

    /// Takes what is owed: (sender, edge, records).
    pub fn take_owed(&mut self, mut send: impl FnMut(u64, u32, i64)) {
        if self.total_owed == 0 {
            return;
        }
        self.total_owed = 0;
        for (at, owed) in self.owed.iter_mut().enumerate() {
            if *owed > 0 {
                send((at % self.peers) as u64, (at / self.peers) as u32, std::mem::take(owed));
            }
        }
    }

    /// A credit from worker `from` has arrived.
    pub fn credited(&mut self, edge: u32, from: usize, records: i64) {
        self.in_flight[edge as usize * self.peers + from] -= records;
        self.wake_all();
    }
}

/// What a generator of watermarks is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GeneratorState {
    pub watermark: Timestamp,
    pub idle: bool,
}

#[derive(Default)]
struct Hub {
    /// By generator, then by worker.
    states: Vec<Vec<Option<GeneratorState>>>,
    /// Local generators whose state changed since it was last sent: generator numbers.
    changed: Vec<u32>,
    local: Vec<(u32, GeneratorState)>,
    wanted: bool,
    me: usize,
    peers: usize,
}

/// Where subtasks of sources tell one another their watermarks: a capability cannot go back, so an idle source must follow
/// the active ones and not run ahead of them.
#[derive(Clone, Default)]
pub struct WatermarkHub(Rc<RefCell<Hub>>);

impl fmt::Debug for WatermarkHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatermarkHub")
    }
}

impl WatermarkHub {
    pub(crate) fn new(me: usize, peers: usize) -> Self {
        Self(Rc::new(RefCell::new(Hub { me, peers, ..Hub::default() })))
    }

    /// A new generator on this worker; all workers register theirs in the same order. `idleness`: whether it can go idle.
    pub fn register(&self, idleness: bool) -> u32 {
        let mut hub = self.0.borrow_mut();
        let number = hub.local.len() as u32;
        let start = GeneratorState { watermark: Timestamp::MIN, idle: false };
        hub.local.push((number, start));
        hub.changed.push(number);
        hub.wanted |= idleness;
        number
    }

    /// Says how far generator `number` is. Nothing is sent unless some generator of the job can go idle.
    pub fn report(&self, number: u32, watermark: Timestamp, idle: bool) {
        let mut hub = self.0.borrow_mut();
        if !hub.wanted {
            return;
        }
        let state = GeneratorState { watermark, idle };
        let slot = &mut hub.local[number as usize].1;
        if *slot != state {
            *slot = state;
            if !hub.changed.contains(&number) {
                hub.changed.push(number);
            }
        }
    }

    /// The least watermark over all generators that are not idle; `None` if all are idle or one has not been heard of.
    pub fn active_watermark(&self) -> Option<Timestamp> {
        let hub = self.0.borrow();
        let generators = hub.local.len();
        let mut least: Option<Timestamp> = None;
        for number in 0..generators {
            let row = hub.states.get(number);
            for worker in 0..hub.peers {
                let state = match worker == hub.me {
                    true => Some(hub.local[number].1),
                    false => row.and_then(|row| row.get(worker).copied().flatten()),
                };
                let state = state?;
                if !state.idle {
                    least = Some(least.map_or(state.watermark, |w| w.min(state.watermark)));
                }
            }
        }
        least
    }

    pub(crate) fn has_news(&self) -> bool {
        let hub = self.0.borrow();
        hub.wanted && hub.peers > 1 && !hub.changed.is_empty()
    }

    pub(crate) fn take_news(&self) -> Vec<(u32, GeneratorState)> {
        let mut hub = self.0.borrow_mut();
        if !hub.wanted {
            return Vec::new();
        }
        let changed = std::mem::take(&mut hub.changed);
        changed.into_iter().map(|number| hub.local[number as usize]).collect()
    }

    pub(crate) fn heard(&self, number: u32, worker: usize, state: GeneratorState) {
        let mut hub = self.0.borrow_mut();
        let (number, peers) = (number as usize, hub.peers);
        if hub.states.len() <= number {
            hub.states.resize(number + 1, Vec::new());
        }
        let row = &mut hub.states[number];
        row.resize(peers, None);
        row[worker] = Some(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_is_closed_at_its_limit_and_opens_with_the_credit() {
        let mut board = Board::new(0, 2, 3, 10);
        board.sent(1, 1, 10);
        assert!(!board.open(&[0, 1]));
        assert!(board.open(&[0, 2]), "only the edges that an emitter reaches count");
        board.credited(1, 1, 4);
        assert!(board.open(&[1]));
    }

    #[test]
    fn credits_to_oneself_need_no_message_and_few_credits_are_returned_too() {
        let mut board = Board::new(0, 2, 1, 1 << 20);
        board.sent(0, 0, 5);
        board.processed(0, 0, 5);
        assert_eq!((board.owed(), board.in_flight[0]), (0, 0));
        board.processed(0, 1, 1);
        let mut sent = Vec::new();
        board.take_owed(|to, edge, n| sent.push((to, edge, n)));
        assert_eq!(sent, [(1, 0, 1)]);
        assert_eq!(board.owed(), 0);
    }

    #[test]
    fn an_idle_source_follows_the_slowest_active_one() {
        let hub = WatermarkHub::new(0, 2);
        let (a, b) = (hub.register(true), hub.register(false));
        assert_eq!(hub.active_watermark(), None, "the other worker has not been heard of");
        let at = Timestamp::from_millis;
        hub.heard(a, 1, GeneratorState { watermark: at(50), idle: false });
        hub.heard(b, 1, GeneratorState { watermark: at(70), idle: false });
        hub.report(a, at(0), true);
        hub.report(b, at(60), false);
        assert_eq!(hub.active_watermark(), Some(at(50)));
        hub.heard(a, 1, GeneratorState { watermark: at(50), idle: true });
        assert_eq!(hub.active_watermark(), Some(at(60)));
    }
}
