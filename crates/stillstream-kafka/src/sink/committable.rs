//! [`KafkaCommittable`]: what a checkpoint holds of a transaction.

use stillstream_state::Data;

use crate::client::TransactionKey;

/// What is needed to commit a transaction, also from another process: the numbers that its coordinator knows
/// it by. Without a transactional id it is a flush of an at-least-once sink, and there is nothing to commit.
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct KafkaCommittable {
    /// The transactional id; empty if the records were written without a transaction.
    pub transactional_id: String,
    /// The producer id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub epoch: i16,
    /// How it must be ended: 2 as of KIP-890 (`transaction.version` 2 or later), else 1.
    pub transaction_version: u8,
    /// How many records it holds.
    pub records: u64,
}

impl KafkaCommittable {
    pub(super) fn of(key: TransactionKey, records: u64) -> Self {
        Self {
            transactional_id: key.transactional_id,
            producer_id: key.producer_id,
            epoch: key.epoch,
            transaction_version: if key.v2 { 2 } else { 1 },
            records,
        }
    }

    /// Records that are written, and visible, as soon as they are flushed.
    pub(super) fn flushed(records: u64) -> Self {
        Self { transactional_id: String::new(), producer_id: -1, epoch: -1, transaction_version: 0, records }
    }

    /// The transaction, if there is one.
    pub(super) fn key(&self) -> Option<TransactionKey> {
        (!self.transactional_id.is_empty()).then(|| TransactionKey {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.producer_id,
            epoch: self.epoch,
            v2: self.transaction_version >= 2,
        })
    }
}
