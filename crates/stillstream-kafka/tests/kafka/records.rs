//! Records of a test, written by the client itself.

use krafka::Kafka;
use krafka::error::KrafkaError;
use krafka::producer::{Record, TransactionalProducer};

use crate::topic::runtime;

/// Runs what the client does.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

pub async fn connect(brokers: &str) -> Kafka {
    Kafka::builder(brokers).connect().await.unwrap()
}

/// Writes values to a partition, in order, and waits until they are there.
pub fn write(
    brokers: &str,
    topic: &str,
    partition: u32,
    values: impl IntoIterator<Item = impl Into<String>>,
) {
    let values = values.into_iter().map(|value| Record::new(topic, value.into().into_bytes()));
    send(brokers, values.map(|record| record.partition(partition as i32)).collect());
}

/// Writes records and waits until they are there.
pub fn send(brokers: &str, records: Vec<Record>) {
    block_on(async {
        let producer = connect(brokers).await.producer().build().await.unwrap();
        let mut sent = Vec::new();
        for record in records {
            sent.push(producer.enqueue(record).await.unwrap());
        }
        producer.flush().await.unwrap();
        for handle in sent {
            let _ = handle.await.unwrap();
        }
        producer.close().await.unwrap();
    });
}

/// A transaction that has begun and has written values.
pub fn begin(brokers: &str, id: &str, topic: &str, values: &[&str]) -> TransactionalProducer {
    block_on(async {
        let producer = connect(brokers).await.producer().build_transactional(id).await.unwrap();
        producer.begin().unwrap();
        for value in values {
            let record = Record::new(topic, value.as_bytes().to_vec()).partition(0);
            let _ = producer.send(record).await.unwrap();
        }
        producer.flush().await.unwrap();
        producer
    })
}

pub fn commit(producer: &TransactionalProducer) -> Result<(), KrafkaError> {
    block_on(producer.commit())
}

pub fn abort(producer: &TransactionalProducer) -> Result<(), KrafkaError> {
    block_on(producer.abort())
}
