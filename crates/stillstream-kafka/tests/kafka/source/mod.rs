//! The source: one subtask at a time, and in the suites that every source should pass.

mod access;
mod missing;
mod policies;
mod starts;
mod suites;

use std::sync::Arc;

use stillstream_kafka::source::{KafkaSource, KafkaSplit};
use stillstream_runtime::clock::SystemClock;
use stillstream_runtime::connect::{SourceContext, SplitReader, SplitSource};
use stillstream_runtime::metrics::Counters;
use stillstream_runtime::{Batch, SourceStatus};
use stillstream_services::Kafka;
use stillstream_state::Data;
use stillstream_types::Result;

use crate::topic::wait_until;

/// The only reader of a source.
struct Driver<T> {
    reader: Box<dyn SplitReader<T, KafkaSplit>>,
    counters: Arc<Counters>,
    side: Vec<stillstream_runtime::AnyBatch>,
}

impl<T: Data> Driver<T> {
    /// Reads what a fresh start would.
    fn begin(source: &KafkaSource<T>) -> Result<Self> {
        Self::with(source, source.splits()?)
    }

    fn with(source: &KafkaSource<T>, splits: Vec<KafkaSplit>) -> Result<Self> {
        // whether topics are still there is looked at now and then
        let clock = Arc::new(SystemClock::default());
        let context = SourceContext { clock, ..SourceContext::for_test("source", 0, 1) };
        let (counters, mut reader) = (context.counters.clone(), source.reader(&context)?);
        reader.assign(splits)?;
        Ok(Self { reader, counters, side: Vec::new() })
    }

    /// Waits until there are records, or the end (`None`).
    fn next(&mut self) -> Result<Option<Vec<T>>> {
        let mut came = Ok(None);
        wait_until("the source gives records", || {
            let mut out = Batch::default();
            let status = self.reader.poll(1, &mut out);
            while let Some(side) = self.reader.side_output() {
                self.side.push(side);
            }
            let goes_on = matches!(status, Ok(SourceStatus::More | SourceStatus::Idle { .. }));
            let none = out.is_empty();
            came = status.map(|_| (!none).then_some(out.values));
            !(none && goes_on)
        });
        came
    }

    fn rest(&mut self) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while let Some(records) = self.next()? {
            all.extend(records);
        }
        Ok(all)
    }

    fn side<U: Data>(&mut self) -> Vec<U> {
        let batches = std::mem::take(&mut self.side).into_iter();
        batches.flat_map(|batch| batch.take::<U>().unwrap().values).collect()
    }

    fn snapshot(&self) -> Vec<KafkaSplit> {
        self.reader.positions()
    }
}

fn texts(kafka: &Kafka, topic: &str) -> KafkaSource<String> {
    KafkaSource::from_topic(topic).brokers(kafka.bootstrap()).text()
}

fn open<T: Data>(source: KafkaSource<T>) -> Driver<T> {
    Driver::begin(&source).unwrap()
}

fn restore(source: KafkaSource<String>, splits: Vec<KafkaSplit>) -> Driver<String> {
    Driver::with(&source, splits).unwrap()
}

/// The next `n` records.
fn take(driver: &mut Driver<String>, n: usize) -> Vec<String> {
    let mut taken = Vec::new();
    while taken.len() < n {
        taken.extend(driver.next().unwrap().expect("the source has ended"));
    }
    taken
}
