//! Flow control by credits.
//!
//! Timely's channels have no bound. So each edge counts the records that were sent to each worker and not yet processed
//! there. Credits flow back over a second, small dataflow. Only sources and bulk emitters look at the gate, each only at the
//! edges that its own output can reach: one that also looked at its own input would wait for itself, and one that looked
//! at the other input of a join below would wait for a barrier that it holds back itself.

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
}
