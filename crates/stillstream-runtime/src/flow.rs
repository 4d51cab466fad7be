//! Flow control by credits, and the exchange of watermarks between sources.
//!
//! Timely's channels have no bound. So each edge counts the records that were sent to each worker and not yet processed
//! there. Credits flow back over a second, small dataflow. Only sources and bulk emitters look at the gate, each only at the
//! edges that its own output can reach: one that also looked at its own input would wait for itself, and one that looked
//! at the other input of a join below would wait for a barrier that it holds back itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
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

/// The subtasks of one generator: what each worker last said.
struct Row {
    /// The first so many workers run a subtask of it.
    parallelism: usize,
    states: Vec<Option<GeneratorState>>,
}

#[derive(Default)]
struct Hub {
    /// By generator.
    rows: BTreeMap<u64, Row>,
    /// Generators of this worker.
    local: Vec<u64>,
    /// Of these, the ones whose state changed since it was last sent.
    changed: Vec<u64>,
    wanted: bool,
    me: usize,
    peers: usize,
}

impl Hub {
    fn row(&mut self, generator: u64, parallelism: usize) -> &mut Row {
        let peers = self.peers;
        let make = || Row { parallelism: parallelism.min(peers), states: vec![None; peers] };
        self.rows.entry(generator).or_insert_with(make)
    }

    fn change(&mut self, generator: u64) {
        if !self.changed.contains(&generator) {
            self.changed.push(generator);
        }
    }
}

/// Where subtasks of sources tell one another their watermarks: a capability cannot go back, so an idle source must follow
/// the active ones and not run ahead of them.
#[derive(Clone, Default)]
pub struct WatermarkHub {
    hub: Rc<RefCell<Hub>>,
    /// The generator that registers through this handle: the same number on every worker.
    generator: u64,
    parallelism: usize,
}

impl fmt::Debug for WatermarkHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatermarkHub")
    }
}

impl WatermarkHub {
    pub(crate) fn new(me: usize, peers: usize) -> Self {
        let hub = Hub { me, peers, ..Hub::default() };
        Self { hub: Rc::new(RefCell::new(hub)), generator: 0, parallelism: peers }
    }

    /// The handle for one generator, which has `parallelism` subtasks on the first workers.
    pub fn of_generator(&self, generator: u64, parallelism: usize) -> Self {
        Self { hub: self.hub.clone(), generator, parallelism }
    }

    /// Registers this worker's subtask of the generator; returns its number for [`report`](Self::report). `idleness`:
    /// whether it can go idle.
    pub fn register(&self, idleness: bool) -> u32 {
        let mut hub = self.hub.borrow_mut();
        let (me, number) = (hub.me, hub.local.len() as u32);
        let start = GeneratorState { watermark: Timestamp::MIN, idle: false };
        hub.row(self.generator, self.parallelism).states[me] = Some(start);
        hub.local.push(self.generator);
        hub.change(self.generator);
        hub.wanted |= idleness;
        number
    }

    /// Says how far generator `number` is. Nothing is sent unless some generator of the job can go idle.
    pub fn report(&self, number: u32, watermark: Timestamp, idle: bool) {
        let mut hub = self.hub.borrow_mut();
        let Some(generator) = hub.local.get(number as usize).copied().filter(|_| hub.wanted) else { return };
        let (me, state) = (hub.me, Some(GeneratorState { watermark, idle }));
        let slot = &mut hub.row(generator, 0).states[me];
        if *slot != state {
            *slot = state;
            hub.change(generator);
        }
    }

    /// The least watermark over all generators that are not idle; `None` if all are idle or one has not been heard of.
    pub fn active_watermark(&self) -> Option<Timestamp> {
        let hub = self.hub.borrow();
        let mut least: Option<Timestamp> = None;
        for row in hub.rows.values() {
            for state in &row.states[..row.parallelism] {
                let state = (*state)?;
                if !state.idle {
                    least = Some(least.map_or(state.watermark, |w| w.min(state.watermark)));
                }
            }
        }
        least
    }

    pub(crate) fn has_news(&self) -> bool {
        let hub = self.hub.borrow();
        hub.wanted && hub.peers > 1 && !hub.changed.is_empty()
    }

    /// What changed here: generator, parallelism, state.
    pub(crate) fn take_news(&self) -> Vec<(u64, u32, GeneratorState)> {
        let mut hub = self.hub.borrow_mut();
        if !hub.wanted {
            return Vec::new();
        }
        let changed = std::mem::take(&mut hub.changed);
        let of = |generator: u64| {
            let row = hub.rows.get(&generator)?;
            Some((generator, row.parallelism as u32, row.states[hub.me]?))
        };
        changed.into_iter().filter_map(of).collect()
    }

    pub(crate) fn heard(&self, generator: u64, parallelism: u32, worker: usize, state: GeneratorState) {
        let mut hub = self.hub.borrow_mut();
        if let Some(slot) = hub.row(generator, parallelism as usize).states.get_mut(worker) {
            *slot = Some(state);
        }
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
        let (a, b) = (hub.of_generator(7, 2).register(true), hub.of_generator(9, 2).register(false));
        assert_eq!(hub.active_watermark(), None, "the other worker has not been heard of");
        let at = Timestamp::from_millis;
        hub.heard(7, 2, 1, GeneratorState { watermark: at(50), idle: false });
        hub.heard(9, 2, 1, GeneratorState { watermark: at(70), idle: false });
        hub.report(a, at(0), true);
        hub.report(b, at(60), false);
        assert_eq!(hub.active_watermark(), Some(at(50)));
        hub.heard(7, 2, 1, GeneratorState { watermark: at(50), idle: true });
        assert_eq!(hub.active_watermark(), Some(at(60)));
    }

    #[test]
    fn a_generator_with_fewer_subtasks_than_workers_keeps_nobody_waiting() {
        let hub = WatermarkHub::new(1, 3);
        let own = hub.of_generator(7, 2).register(true);
        let at = Timestamp::from_millis;
        hub.report(own, at(0), true);
        // generator 5 runs on the first worker alone, and this worker has never opened it
        hub.heard(5, 1, 0, GeneratorState { watermark: at(30), idle: false });
        hub.heard(7, 2, 0, GeneratorState { watermark: at(40), idle: false });
        assert_eq!(hub.active_watermark(), Some(at(30)));
    }
}
