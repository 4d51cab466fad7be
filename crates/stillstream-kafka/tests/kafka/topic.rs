//! A topic of one test, read as its readers would.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use krafka::Kafka as Client;
use krafka::admin::{
    DescribeFeaturesOptions, DescribeTransactionsOptions, FeatureUpdateKey, ListTransactionsOptions,
    TransactionDescription, UpdateFeaturesOptions,
};
use krafka::consumer::{AutoOffsetReset, ConsumerRecord, IsolationLevel};
use stillstream_services::Kafka;
use tokio::runtime::Runtime;

/// What a test waits for comes within this time, or not at all.
pub const DEADLINE: Duration = Duration::from_secs(180);

pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

/// A name that no other test of this program has.
pub fn fresh_name(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A topic of one test.
pub struct Topic {
    pub name: String,
    pub brokers: String,
    partitions: u32,
    client: Client,
}

impl Topic {
    pub fn fresh(kafka: &Kafka, partitions: u32) -> Self {
        let name = fresh_name("topic");
        kafka.create_topic(&name, partitions).unwrap();
        Self::of(kafka, name, partitions)
    }

    pub fn of(kafka: &Kafka, name: String, partitions: u32) -> Self {
        let client = runtime().block_on(Client::builder(kafka.bootstrap()).connect()).unwrap();
        Self { name, brokers: kafka.bootstrap().to_string(), partitions, client }
    }

    /// What a reader sees who sees committed records only, partition by partition, as text.
    pub fn committed(&self) -> Vec<String> {
        self.read(IsolationLevel::ReadCommitted)
    }

    /// What a reader sees who sees all records, also those of transactions that are open or were aborted.
    pub fn written(&self) -> Vec<String> {
        self.read(IsolationLevel::ReadUncommitted)
    }

    fn read(&self, isolation: IsolationLevel) -> Vec<String> {
        runtime().block_on(async {
            // one that has seen no earlier state of the broker
            let client = Client::builder(&self.brokers).connect().await.unwrap();
            let consumer = client.consumer_without_group().isolation_level(isolation);
            let consumer = consumer.auto_offset_reset(AutoOffsetReset::Earliest).build().await.unwrap();
            let mut found = Vec::new();
            for number in 0..self.partitions as i32 {
                // of a reader of committed records the end is where the first open transaction begins
                let end = loop {
                    match consumer.fetch_watermarks(&self.name, number).await {
                        Ok((_, end)) => break end,
                        // a broker that was started again has other leaders for a moment
                        Err(error) => eprintln!("asking for the end again: {error}"),
                    }
                    let _ = consumer.fetch_metadata(Some(&self.name)).await;
                };
                consumer.assign(&self.name, vec![number]).await.unwrap();
                consumer.seek(&self.name, number, 0).await.unwrap();
                loop {
                    // the client is ahead of what it has given out
                    let is_behind = consumer.fetch_position(&self.name, number).await.unwrap_or(0) < end;
                    let wait = Duration::from_millis(if is_behind { 200 } else { 0 });
                    let records = consumer.poll(wait).await.unwrap();
                    if records.is_empty() && !is_behind {
                        break;
                    }
                    let texts = records.iter().map(|record| record.value.as_deref().unwrap_or_default());
                    found.extend(texts.map(|text| String::from_utf8_lossy(text).into_owned()));
                }
            }
            let _ = consumer.close().await;
            found
        })
    }

    /// The first record of partition 0.
    pub fn first_record(&self) -> ConsumerRecord {
        runtime().block_on(async {
            let consumer = self.client.consumer_without_group().auto_offset_reset(AutoOffsetReset::Earliest);
            let consumer = consumer.build().await.unwrap();
            consumer.assign(&self.name, vec![0]).await.unwrap();
            loop {
                if let Some(record) =
                    consumer.poll(Duration::from_millis(200)).await.unwrap().into_iter().next()
                {
                    return record;
                }
            }
        })
    }

    /// The transactional ids that begin with `prefix`, with their states.
    pub fn transactions(&self, prefix: &str) -> Vec<(String, String)> {
        runtime().block_on(async {
            let options = ListTransactionsOptions::default();
            let brokers = self.client.admin().list_transactions(options).await.unwrap();
            let all = brokers.into_values().flat_map(Result::unwrap);
            let mut found: Vec<_> = all
                .filter(|found| found.transactional_id.starts_with(prefix))
                .map(|found| (found.transactional_id, found.state))
                .collect();
            found.sort();
            found
        })
    }

    /// Those of them that are in one of these states.
    pub fn in_state(&self, prefix: &str, states: &[&str]) -> Vec<String> {
        let all = self.transactions(prefix).into_iter();
        all.filter(|(_, state)| states.contains(&state.as_str())).map(|(id, _)| id).collect()
    }

    pub fn describe(&self, id: &str) -> TransactionDescription {
        runtime().block_on(async {
            let options = DescribeTransactionsOptions::default();
            let mut found = self.client.admin().describe_transactions([id], options).await.unwrap();
            found.remove(id).unwrap().unwrap()
        })
    }

    /// Waits until no transaction of `prefix` is on its way to its end.
    pub fn settle(&self, prefix: &str) {
        wait_until("transactions end that were committed", || {
            self.in_state(prefix, &["PrepareCommit", "PrepareAbort", "PrepareEpochFence"]).is_empty()
        });
    }

    /// Has all transactions that are begun from now on be those of another version of the protocol.
    pub fn set_transaction_version(&self, level: i16) {
        const FEATURE: &str = "transaction.version";
        let update = match level {
            1 => FeatureUpdateKey::safe_downgrade(FEATURE, level),
            _ => FeatureUpdateKey::upgrade(FEATURE, level),
        };
        runtime().block_on(async {
            let admin = self.client.admin();
            let answers =
                admin.update_features(vec![update], UpdateFeaturesOptions::default()).await.unwrap();
            answers.into_values().for_each(|answer| answer.unwrap());
            let is_set = async || {
                let features = admin.describe_features(DescribeFeaturesOptions::default()).await.unwrap();
                features
                    .finalized
                    .iter()
                    .any(|found| found.name == FEATURE && found.max_version_level == level)
            };
            while !is_set().await {}
        });
    }

    /// Somebody who takes a transactional id over.
    pub fn take_over(&self, id: &str) {
        runtime().block_on(async {
            let producer = self.client.producer().build_transactional(id).await.unwrap();
            let _ = producer.close().await;
        });
    }
}

/// Waits until something is the case.
#[expect(clippy::disallowed_methods, reason = "a deadline of a test")]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
