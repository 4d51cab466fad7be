//! The ids of checkpoints: which are used, and which are reserved.
//!
//! A checkpoint's directory carries its id, so an id must never be used twice, not even by a process that
//! crashed before anything was recorded. Ids are therefore reserved in the register *before* any task hears
//! of one: each record that is written (a claim, a completed checkpoint) also moves `last_checkpoint_id` to
//! [`ID_RESERVE`] beyond the highest id in use, so that in the steady state no extra write is needed; when
//! checkpoints fail in a row and the reserve is used up, the next trigger first writes a record that only
//! reserves. A new claim begins behind everything that was reserved. After a crash of the coordinator up to
//! `ID_RESERVE` numbers are left out; within one process ids grow by one, over all attempts.

use stillstream_types::CheckpointId;

/// So many ids are reserved beyond the highest one in use.
pub(super) const ID_RESERVE: u64 = 8;

/// Invariant: ids only grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckpointIds {
    // the highest id handed out
    used: CheckpointId,
    // ids below were all used before the present claim
    first_own: CheckpointId,
}

impl CheckpointIds {
    pub(super) fn new() -> Self {
        Self { used: CheckpointId(0), first_own: CheckpointId(0) }
    }

    /// Hands out the next one. Nobody may hear of it before a durable record reserves it.
    pub(super) fn hand_out(&mut self) -> CheckpointId {
        self.used = self.used.next();
        self.used
    }

    /// Whether it has been handed out, or may have been by an earlier leader.
    pub(super) fn is_used(&self, id: CheckpointId) -> bool {
        id <= self.used
    }

    /// The first id of the present claim.
    pub(super) fn first_own(&self) -> CheckpointId {
        self.first_own
    }

    /// The last id that the next record is to reserve.
    pub(super) fn last_to_reserve(&self) -> CheckpointId {
        CheckpointId(self.used.0 + ID_RESERVE)
    }

    /// A new claim begins. Somebody else may have used ids up to `used_by_others`, if there was somebody
    /// else.
    pub(super) fn begin_claim(&mut self, used_by_others: Option<CheckpointId>) {
        if let Some(others) = used_by_others {
            self.used = self.used.max(others);
        }
        self.first_own = self.used.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_after_another_leader_begins_behind_everything_that_leader_may_have_used() {
        let mut ids = CheckpointIds::new();
        ids.begin_claim(None);
        assert_eq!((ids.first_own(), ids.hand_out()), (CheckpointId(1), CheckpointId(1)));
        ids.begin_claim(Some(CheckpointId(20)));
        assert!(ids.is_used(CheckpointId(20)) && !ids.is_used(CheckpointId(21)));
        assert_eq!((ids.first_own(), ids.hand_out()), (CheckpointId(21), CheckpointId(21)));
        ids.begin_claim(Some(CheckpointId(5)));
        assert_eq!(ids.first_own(), CheckpointId(22), "what was used here stays used");
    }

    #[test]
    fn so_many_ids_are_reserved_beyond_the_last_one_in_use() {
        let mut ids = CheckpointIds::new();
        assert_eq!(ids.last_to_reserve(), CheckpointId(ID_RESERVE));
        ids.hand_out();
        assert_eq!(ids.last_to_reserve(), CheckpointId(1 + ID_RESERVE));
    }
}
