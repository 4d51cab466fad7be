//! How fast a job reads a topic, beside the client alone; and what a source without input costs.
//!
//! ```sh
//! cargo run --release -p stillstream --features kafka --example kafka_throughput [RECORDS]
//! ```
//!
//! Both read the same topic of 4 partitions with 100-byte records in turns, with one reader each, and the
//! best of their rounds counts. The job makes a vector of bytes of each record and counts them.

use std::time::{Duration, Instant};

use krafka::consumer::{AutoOffsetReset, IsolationLevel};
use krafka::producer::Record;
use stillstream::prelude::*;
use stillstream_services::Kafka;

const PARTITIONS: u32 = 4;
const ROUNDS: usize = 3;

/// What the client has decoded is what a deserializer gets.
fn bytes(
    record: &ConsumerRecord<'_>,
    out: &mut Vec<Vec<u8>>,
) -> std::result::Result<(), stillstream::kafka::source::Refusal> {
    out.push(record.value.unwrap_or_default().to_vec());
    Ok(())
}

async fn fill(brokers: &str, records: u64) -> krafka::Result<()> {
    let producer = krafka::Kafka::builder(brokers).connect().await?.producer();
    let producer = producer.linger(Duration::from_millis(20)).build().await?;
    for n in 0..records {
        let value = format!("{n:0>100}");
        let record = Record::new("bench", value.into_bytes()).partition((n % u64::from(PARTITIONS)) as i32);
        drop(producer.enqueue(record).await?);
    }
    producer.flush().await?;
    producer.close().await
}

/// The client alone, with the settings that the source has.
async fn bare(brokers: &str, records: u64) -> krafka::Result<u64> {
    let consumer = krafka::Kafka::builder(brokers).connect().await?.consumer_without_group();
    let consumer = consumer
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .isolation_level(IsolationLevel::ReadCommitted)
        .max_poll_records(1000)
        .max_buffered_records(1000)
        .build()
        .await?;
    consumer.assign("bench", (0..PARTITIONS as i32).collect()).await?;
    let (mut read, mut bytes) = (0, 0);
    while read < records {
        for record in consumer.poll(Duration::from_secs(1)).await? {
            read += 1;
            bytes += record.value.map_or(0, |value| value.len() as u64);
        }
    }
    consumer.close().await?;
    Ok(bytes)
}

fn job(brokers: &str, records: u64) -> Result<()> {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(1);
    let source = KafkaSource::from_topic("bench").brokers(brokers).deserializer(bytes).stop(StopOffsets::Latest);
    env.from_source("in", source).uid("in").discard();
    let result = env.execute("read")?;
    assert_eq!(result.records_in, records, "the job has read another number of records");
    Ok(())
}

/// Processor time of this process.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // Linux tells them in hundredths of a second
    Some(Duration::from_millis(ticks * 10))
}

fn idle(brokers: &str) -> Result<()> {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(1);
    let source = KafkaSource::from_topic("empty").brokers(brokers).text();
    env.from_source("in", source).uid("in").discard();
    let job = env.execute_async("idle")?;
    job.wait_until(seconds(3), |_| false);
    let before = processor_time();
    let time = seconds(10);
    job.wait_until(time, |_| false);
    if let (Some(before), Some(after)) = (before, processor_time()) {
        let share = (after - before).as_secs_f64() / time.as_secs_f64();
        println!("a source without input uses {:.2} % of a core", share * 100.0);
    }
    job.cancel();
    job.wait().map(drop).or_else(|error| if error.kind() == ErrorKind::Cancelled { Ok(()) } else { Err(error) })
}

#[expect(clippy::disallowed_methods, reason = "it measures time, and reads its argument")]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let records = std::env::args().nth(1).map_or(Ok(1_000_000), |records| records.parse::<u64>())?;
    let kafka = Kafka::start()?;
    kafka.create_topic("bench", PARTITIONS)?;
    kafka.create_topic("empty", 1)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(fill(kafka.bootstrap(), records))?;
    let (mut best_bare, mut best_job) = (f64::MAX, f64::MAX);
    for round in 1..=ROUNDS {
        let start = Instant::now();
        runtime.block_on(bare(kafka.bootstrap(), records))?;
        let alone = start.elapsed().as_secs_f64();
        let start = Instant::now();
        job(kafka.bootstrap(), records)?;
        let ours = start.elapsed().as_secs_f64();
        println!(
            "round {round}: client {:.0} k/s, job {:.0} k/s",
            records as f64 / alone / 1000.0,
            records as f64 / ours / 1000.0
        );
        (best_bare, best_job) = (best_bare.min(alone), best_job.min(ours));
    }
    println!("the job reads at {:.2} of the speed of the client alone", best_bare / best_job);
    idle(kafka.bootstrap())?;
    Ok(())
}
