//! What is around the job: its input, and a reader of its output.

use std::time::{Duration, Instant};

use krafka::Kafka as Client;
use krafka::consumer::{AutoOffsetReset, IsolationLevel};
use krafka::producer::Record;
use stillstream_services::Kafka;
use tokio::runtime::Runtime;

#[expect(clippy::disallowed_methods, reason = "a deadline of a test")]
pub fn now() -> Instant {
    Instant::now()
}

/// Numbers that look like chance, the same for one seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

pub fn runtime() -> Runtime {
    Runtime::new().expect("a Tokio runtime")
}

/// Writes the numbers from 0 on.
pub struct Feed {
    runtime: Runtime,
    brokers: String,
    topic: String,
    next: u64,
    end: u64,
}

impl Feed {
    pub fn new(kafka: &Kafka, topic: &str, end: u64) -> Self {
        let brokers = kafka.bootstrap().to_string();
        Self { runtime: runtime(), brokers, topic: topic.into(), next: 0, end }
    }

    /// Writes the next `count` numbers, or as many as are left, and waits until all are there.
    pub fn write(&mut self, count: u64, partitions: u32) {
        let numbers = self.next..self.end.min(self.next.saturating_add(count));
        self.next = numbers.end;
        self.runtime.block_on(async {
            // a client that was there before does not know of new partitions at once
            let client = Client::builder(&self.brokers).connect().await.expect("a client");
            let producer = client.producer().build().await.expect("a producer");
            let mut sent = Vec::new();
            for number in numbers {
                let mut record = Record::new(self.topic.clone(), number.to_string());
                record.partition = Some((number % u64::from(partitions)) as i32);
                sent.push(producer.enqueue(record).await.expect("a record is taken"));
            }
            producer.flush().await.expect("records are sent");
            for record in sent {
                let _ = record.await.expect("a record is written");
            }
            let _ = producer.close().await;
        });
    }
}

/// How often a reader of committed records has seen each number.
pub struct Ledger {
    runtime: Runtime,
    topic: String,
    seen: Vec<u8>,
    count: u64,
    /// Where to go on in each partition.
    next: [i64; 3],
}

impl Ledger {
    pub fn new(topic: &str, records: u64) -> Self {
        Self {
            runtime: runtime(),
            topic: topic.into(),
            seen: vec![0; records as usize],
            count: 0,
            next: [0; 3],
        }
    }

    /// Reads on to the end, or to the first transaction that is open; how many different numbers there are
    /// now.
    pub fn read(&mut self, kafka: &Kafka) -> u64 {
        let Self { runtime, topic, seen, count, next } = self;
        runtime.block_on(async {
            let client = Client::builder(kafka.bootstrap()).connect().await.expect("a client");
            let consumer = client.consumer_without_group().isolation_level(IsolationLevel::ReadCommitted);
            let consumer =
                consumer.auto_offset_reset(AutoOffsetReset::Earliest).build().await.expect("a reader");
            for (partition, next) in next.iter_mut().enumerate() {
                let partition = partition as i32;
                let end = loop {
                    match consumer.fetch_watermarks(topic, partition).await {
                        Ok((_, end)) => break end,
                        // a broker that was started again has other leaders for a moment
                        Err(error) => eprintln!("asking for the end again: {error}"),
                    }
                    let _ = consumer.fetch_metadata(Some(topic)).await;
                };
                consumer.assign(topic, vec![partition]).await.expect("a partition");
                consumer.seek(topic, partition, *next).await.expect("an offset");
                loop {
                    // the client is ahead of what it has given out
                    let is_behind = consumer.fetch_position(topic, partition).await.unwrap_or(0) < end;
                    let wait = Duration::from_millis(if is_behind { 200 } else { 0 });
                    let records = consumer.poll(wait).await.expect("records");
                    if records.is_empty() && !is_behind {
                        break;
                    }
                    for record in records {
                        let text =
                            String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned();
                        let number: usize =
                            text.parse().unwrap_or_else(|_| panic!("`{text}` was never written"));
                        let seen =
                            seen.get_mut(number).unwrap_or_else(|| panic!("{number} was never written"));
                        *seen += 1;
                        let at = record.offset;
                        assert_eq!(*seen, 1, "{number} is there twice, now in {topic}-{partition} at {at}");
                        *count += 1;
                        *next = at + 1;
                    }
                }
            }
            let _ = consumer.close().await;
            *count
        })
    }

    pub fn check(&self) {
        let missing: Vec<usize> = (0..self.seen.len()).filter(|number| self.seen[*number] == 0).collect();
        assert!(
            missing.is_empty(),
            "{} records are missing, such as {:?}",
            missing.len(),
            &missing[..missing.len().min(10)]
        );
    }
}
