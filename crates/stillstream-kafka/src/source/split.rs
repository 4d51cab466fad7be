//! [`KafkaSplit`]: a partition, and how far it was read.

use stillstream_state::Data;

use crate::client::offsets::Partition;

/// A partition of a topic, with the offset from which to go on. Kept in checkpoints.
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct KafkaSplit {
    /// The topic.
    pub topic: String,
    /// What Kafka knows the topic by: one that was deleted and created again has another.
    pub topic_id: [u8; 16],
    /// The number of the partition.
    pub partition: u32,
    /// The offset of the next record. Always a number: never "the end", which would be another one later.
    pub next: u64,
    /// The offset before which it ends, in a source that does.
    pub stop: Option<u64>,
}

impl KafkaSplit {
    /// Whether all of it was read.
    pub fn is_done(&self) -> bool {
        self.stop.is_some_and(|stop| self.next >= stop)
    }

    /// The same one, read up to here. What ends is not read past its end.
    pub(super) fn read_to(&self, next: u64) -> Self {
        Self { next: self.stop.map_or(next, |stop| next.min(stop)), ..self.clone() }
    }

    pub(super) fn key(&self) -> Partition {
        Partition::new(&self.topic, self.partition)
    }

    /// Which of so many readers reads it: the partitions of a topic are dealt out evenly, and those of
    /// different topics begin with different readers.
    pub(super) fn reader(&self, readers: u32) -> u32 {
        let fnv = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let first = self.topic.bytes().fold(0x811c_9dc5, fnv);
        let readers = readers.max(1);
        (first % readers + self.partition % readers) % readers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partitions_of_a_topic_are_dealt_out_evenly() {
        let split = |topic: &str, partition| KafkaSplit {
            topic: topic.to_string(),
            topic_id: [0; 16],
            partition,
            next: 0,
            stop: None,
        };
        for readers in 1..6 {
            for topic in ["in", "flights", "a.much-longer_name"] {
                let mut counts = vec![0; readers as usize];
                (0..readers * 2).for_each(|n| counts[split(topic, n).reader(readers) as usize] += 1);
                assert_eq!(counts, vec![2; readers as usize], "{topic} over {readers}");
            }
        }
    }
}
