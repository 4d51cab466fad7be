//! Requests for checkpoints in one ordered queue, and the decision which may start now (Flink's
//! `CheckpointRequestDecider`).

use std::collections::BTreeMap;
use std::time::Duration;

use stillstream_types::{CheckpointKind, SavepointTarget};

use crate::checkpoint::event::RequestId;

/// So many requests may wait.
pub const MAX_QUEUED: usize = 1000;

/// A wish for a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Whom to answer, if anybody.
    pub request: Option<RequestId>,
    /// What is wanted.
    pub kind: CheckpointKind,
    /// Where a savepoint goes, and in which form; `None` for a checkpoint.
    pub target: Option<SavepointTarget>,
    /// A checkpoint that names no file of an earlier one.
    pub full: bool,
    /// The job stops with it.
    pub last: bool,
    /// Goes even at the concurrency limit.
    pub forced: bool,
    /// Made by the timer, not by a person.
    pub periodic: bool,
    /// When it was made.
    pub at: Duration,
}

impl Request {
    /// A request of the timer.
    pub fn periodic(at: Duration) -> Self {
        let kind = CheckpointKind::Checkpoint;
        Self {
            request: None,
            kind,
            target: None,
            full: false,
            last: false,
            forced: false,
            periodic: true,
            at,
        }
    }

    /// A request of a person, for a savepoint or, without a target, a checkpoint. A savepoint waits for
    /// nobody.
    pub fn by_hand(request: RequestId, target: Option<SavepointTarget>, forced: bool, at: Duration) -> Self {
        let kind = match target {
            Some(_) => CheckpointKind::Savepoint,
            None => CheckpointKind::Checkpoint,
        };
        let forced = forced || target.is_some();
        Self { request: Some(request), kind, target, full: false, last: false, forced, periodic: false, at }
    }
}

// The order: savepoints, then forced ones, then by hand before periodic, then by time. The last part makes it
// total.
type Key = (bool, bool, bool, Duration, u64);

/// What became of a request that was handed in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// It waits.
    Queued,
    /// It waits, and this periodic one was thrown out for it.
    Displaced(Request),
    /// The queue is full of requests made by hand: this one was refused.
    Refused(Request),
}

/// What the decision depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Situation {
    /// The time.
    pub now: Duration,
    /// Checkpoints under way.
    pub pending: usize,
    /// Old checkpoints being deleted.
    pub cleaning: usize,
    /// The limit of both.
    pub max_concurrent: usize,
    /// Quiet time after a completed checkpoint.
    pub min_pause: Duration,
    /// When the last checkpoint completed.
    pub last_completed_at: Option<Duration>,
}

/// What may happen now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Nothing.
    Wait,
    /// Start this one.
    Start(Request),
    /// This periodic request came inside the minimum pause: drop it and set the timer to `retry_at`.
    TooEarly {
        /// The request.
        request: Request,
        /// When the pause is over.
        retry_at: Duration,
    },
}

/// The ordered queue.
#[derive(Clone, Debug, Default)]
pub struct RequestQueue {
    waiting: BTreeMap<Key, Request>,
    made: u64,
}

impl RequestQueue {
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a periodic one waits.
    pub fn has_periodic(&self) -> bool {
        self.waiting.values().any(|request| request.periodic)
    }

    /// Hands a request in.
    pub fn submit(&mut self, request: Request) -> Submitted {
        if self.waiting.len() >= MAX_QUEUED && self.waiting.keys().next_back().is_some_and(|key| !key.2) {
            return Submitted::Refused(request);
        }
        let (savepoint, forced) = (request.kind == CheckpointKind::Savepoint, request.forced);
        self.waiting.insert((!savepoint, !forced, request.periodic, request.at, self.made), request);
        self.made += 1;
        match self.waiting.len() > MAX_QUEUED {
            true => match self.waiting.pop_last() {
                Some((_, last)) if !last.periodic => Submitted::Refused(last),
                Some((_, last)) => Submitted::Displaced(last),
                None => Submitted::Queued,
            },
            false => Submitted::Queued,
        }
    }

    /// Takes out the request that may start, if one may.
    pub fn decide(&mut self, situation: &Situation) -> Decision {
        let s = situation;
        let Some(first) = self.waiting.values().next() else { return Decision::Wait };
        if s.cleaning > s.max_concurrent {
            return Decision::Wait;
        }
        if s.pending >= s.max_concurrent && !first.forced {
            return Decision::Wait;
        }
        let retry_at = s.last_completed_at.map(|at| at + s.min_pause).filter(|at| *at > s.now);
        let early = !first.forced && first.periodic;
        let Some((_, request)) = self.waiting.pop_first() else { return Decision::Wait };
        match retry_at {
            Some(retry_at) if early => Decision::TooEarly { request, retry_at },
            _ => Decision::Start(request),
        }
    }

    /// Takes out all.
    pub fn drain(&mut self) -> impl Iterator<Item = Request> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(n: u64, kind: CheckpointKind, forced: bool, periodic: bool) -> Request {
        let request = (!periodic).then_some(RequestId(n));
        let at = Duration::from_millis(n);
        Request { request, kind, target: None, full: false, last: false, forced, periodic, at }
    }

    fn by_hand(n: u64) -> Request {
        request(n, CheckpointKind::Checkpoint, false, false)
    }

    fn periodic(n: u64) -> Request {
        request(n, CheckpointKind::Checkpoint, false, true)
    }

    fn free() -> Situation {
        Situation {
            now: Duration::from_secs(10),
            pending: 0,
            cleaning: 0,
            max_concurrent: 1,
            min_pause: Duration::ZERO,
            last_completed_at: None,
        }
    }

    #[test]
    fn savepoints_go_first_then_forced_then_by_hand_then_periodic_then_by_time() {
        let wanted = [
            request(9, CheckpointKind::Savepoint, false, false),
            request(8, CheckpointKind::Final, true, false),
            by_hand(3),
            by_hand(7),
            periodic(1),
        ];
        let mut queue = RequestQueue::default();
        for at in [4, 2, 0, 3, 1] {
            assert_eq!(queue.submit(wanted[at].clone()), Submitted::Queued);
        }
        for next in wanted {
            assert_eq!(queue.decide(&free()), Decision::Start(next));
        }
        assert_eq!(queue.decide(&free()), Decision::Wait);
    }

    #[test]
    fn a_full_queue_throws_out_a_periodic_request_and_refuses_one_by_hand() {
        let mut queue = RequestQueue::default();
        assert_eq!(queue.submit(periodic(0)), Submitted::Queued);
        for n in 1..MAX_QUEUED as u64 {
            assert_eq!(queue.submit(by_hand(n)), Submitted::Queued);
        }
        assert_eq!(queue.submit(by_hand(2000)), Submitted::Displaced(periodic(0)));
        assert_eq!(queue.submit(by_hand(2001)), Submitted::Refused(by_hand(2001)));
        assert_eq!(queue.submit(periodic(2002)), Submitted::Refused(periodic(2002)));
        assert_eq!(queue.waiting.len(), MAX_QUEUED);
    }

    #[test]
    fn nothing_starts_while_deletions_pile_up() {
        let mut queue = RequestQueue::default();
        queue.submit(request(1, CheckpointKind::Savepoint, true, false));
        assert_eq!(queue.decide(&Situation { cleaning: 2, ..free() }), Decision::Wait);
        assert!(matches!(queue.decide(&Situation { cleaning: 1, ..free() }), Decision::Start(_)));
    }

    #[test]
    fn at_the_concurrency_limit_only_a_forced_request_goes() {
        let mut queue = RequestQueue::default();
        queue.submit(by_hand(1));
        assert_eq!(queue.decide(&Situation { pending: 1, ..free() }), Decision::Wait);
        let forced = request(2, CheckpointKind::Checkpoint, true, false);
        queue.submit(forced.clone());
        assert_eq!(queue.decide(&Situation { pending: 1, ..free() }), Decision::Start(forced));
        assert_eq!(queue.waiting.len(), 1);
    }

    #[test]
    fn only_a_periodic_request_minds_the_pause() {
        let pause = Situation {
            min_pause: Duration::from_secs(5),
            last_completed_at: Some(Duration::from_secs(7)),
            ..free()
        };
        let mut queue = RequestQueue::default();
        queue.submit(periodic(1));
        let retry_at = Duration::from_secs(12);
        assert_eq!(queue.decide(&pause), Decision::TooEarly { request: periodic(1), retry_at });
        queue.submit(by_hand(2));
        assert_eq!(queue.decide(&pause), Decision::Start(by_hand(2)));
        queue.submit(periodic(3));
        assert_eq!(queue.decide(&Situation { now: retry_at, ..pause }), Decision::Start(periodic(3)));
    }
}
