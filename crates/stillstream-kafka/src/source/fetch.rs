//! The thread that reads a subtask's partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_runtime::Batch;
use stillstream_runtime::connect::{Chunk, ChunkSender, SourceContext};
use stillstream_state::Data;
use stillstream_types::Result;

use super::group::GroupOffsets;
use super::options::{OffsetReset, OnBadRecord};
use super::record::{ConsumerRecord, DeadLetter};
use super::settings::Settings;
use super::watch::Watch;
use super::{KafkaDeserializer, KafkaSplit, Refusal, SourceError};
use crate::KafkaError;
use crate::client::offsets::Partition;
use crate::client::partition_reader::{Fetched, PartitionReader, Polled};
use crate::client::{block_on, spawn};

/// How long a poll waits for records: what the reader orders is done after that.
const POLL: Duration = Duration::from_millis(200);

/// How often it is looked where partitions stand while records come.
const STANDINGS: Duration = Duration::from_secs(1);

/// The pause between tries of what may pass, and how often it is said that it does not.
const PAUSE: Duration = Duration::from_millis(200);
const SAY_AGAIN: Duration = Duration::from_secs(30);

/// A partition that is missing so many times in a row is gone.
const LOOKS: u32 = 3;

/// The start of a value that is shown in an error.
const SHOWN: usize = 200;

/// What the reader tells its thread.
#[derive(Debug, Default)]
pub(super) struct Orders {
    over: AtomicBool,
    /// The splits to leave out; taken when they have changed.
    paused: Mutex<Option<BTreeSet<usize>>>,
}

impl Orders {
    pub(super) fn pause(&self, splits: BTreeSet<usize>) {
        *self.paused.lock() = Some(splits);
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn are_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Fetches, makes values of records, and hands them over.
pub(super) struct Fetcher<T> {
    settings: Settings,
    deserializer: Arc<dyn KafkaDeserializer<T>>,
    context: SourceContext,
    orders: Arc<Orders>,
    on_out_of_range: OffsetReset,
    group: Option<Arc<GroupOffsets>>,
    reader: Option<PartitionReader>,
    /// What is being read, by number, up to what was handed over.
    splits: BTreeMap<usize, KafkaSplit>,
    numbers: BTreeMap<String, BTreeMap<u32, usize>>,
    paused: BTreeSet<usize>,
    watch: Watch,
    looked: Duration,
}

impl<T: Data> Fetcher<T> {
    pub(super) fn new(
        settings: Settings,
        deserializer: Arc<dyn KafkaDeserializer<T>>,
        context: SourceContext,
        orders: Arc<Orders>,
        group: Option<Arc<GroupOffsets>>,
    ) -> Result<Self, SourceError> {
        let on_out_of_range = settings.on_out_of_range()?;
        Ok(Self {
            settings,
            deserializer,
            orders,
            on_out_of_range,
            group,
            reader: None,
            splits: BTreeMap::new(),
            numbers: BTreeMap::new(),
            paused: BTreeSet::new(),
            watch: Watch::new(context.clock.elapsed()),
            looked: Duration::ZERO,
            context,
        })
    }

    /// Reads until all splits have ended, or nobody wants more.
    pub(super) fn read(
        &mut self,
        splits: Vec<(usize, KafkaSplit)>,
        chunks: &ChunkSender<T, KafkaSplit>,
    ) -> Result<()> {
        self.read_on(splits, chunks).map_err(SourceError::into_error)
    }

    fn read_on(
        &mut self,
        splits: Vec<(usize, KafkaSplit)>,
        chunks: &ChunkSender<T, KafkaSplit>,
    ) -> Result<(), SourceError> {
        let mut new = splits;
        while !self.orders.are_over() {
            new.extend(chunks.assigned());
            if !new.is_empty() {
                self.begin(std::mem::take(&mut new))?;
            }
            if self.splits.is_empty() {
                return Ok(());
            }
            let Some(reader) = &self.reader else { return Ok(()) };
            if let Some(paused) = self.orders.paused.lock().take() {
                pause(reader, &self.splits, &mut self.paused, paused)?;
            }
            let mut quiet = false;
            match block_on(reader.poll(POLL))?? {
                Polled::Records(records) if records.is_empty() => quiet = true,
                Polled::Records(records) => {
                    if !self.hand_over(&records, chunks)? {
                        return Ok(());
                    }
                }
                Polled::OutOfRange(partitions) => {
                    for partition in partitions {
                        self.out_of_range(&partition)?;
                    }
                }
                Polled::Trouble(reason) => {
                    tracing::debug!("`{}` got no records: {reason}", self.context.name);
                    std::thread::sleep(PAUSE);
                    quiet = true;
                }
            }
            let now = self.context.clock.elapsed();
            if quiet || now.saturating_sub(self.looked) >= STANDINGS {
                self.looked = now;
                if !self.look_at_standings(chunks)? {
                    return Ok(());
                }
            }
            self.look_at_topics(now)?;
        }
        Ok(())
    }

    /// Takes splits up.
    fn begin(&mut self, new: Vec<(usize, KafkaSplit)>) -> Result<(), SourceError> {
        let new: Vec<_> = new.into_iter().filter(|(_, split)| !split.is_done()).collect();
        if self.reader.is_none() && !new.is_empty() {
            let properties = self.settings.properties.clone();
            let connect = || Ok(block_on(PartitionReader::connect(&properties))??);
            self.reader = self.until_it_works(connect)?;
            if let (Some(group), Some(reader)) = (&self.group, &self.reader) {
                group.connected(reader.cluster());
            }
        }
        let Some(reader) = &self.reader else { return Ok(()) };
        let topics: BTreeSet<String> = new.iter().map(|(_, split)| split.topic.clone()).collect();
        if !self.are_as_they_were(reader, &new)? {
            return Ok(());
        }
        for (number, split) in &new {
            self.numbers.entry(split.topic.clone()).or_default().insert(split.partition, *number);
        }
        for topic in topics {
            let partitions: Vec<u32> =
                self.numbers.get(&topic).into_iter().flat_map(BTreeMap::keys).copied().collect();
            let assign = || Ok(block_on(reader.assign(&topic, &partitions))??);
            if self.until_it_works(assign)?.is_none() {
                return Ok(());
            }
        }
        for (number, split) in new {
            block_on(reader.seek(&split.key(), split.next))??;
            self.splits.insert(number, split);
        }
        Ok(())
    }

    /// Whether the topics are those of which the splits are; an error if not, and `false` if nobody wants to
    /// know any more. One that was made again has other records at the same offsets.
    fn are_as_they_were(
        &self,
        reader: &PartitionReader,
        splits: &[(usize, KafkaSplit)],
    ) -> Result<bool, SourceError> {
        let names: BTreeSet<&String> = splits.iter().map(|(_, split)| &split.topic).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let mut looks = 0;
        loop {
            let look = || Ok(block_on(reader.cluster().topics(&names))??);
            let Some(found) = self.until_it_works(look)? else { return Ok(false) };
            let mistake =
                |(_, split): &(usize, KafkaSplit)| Watch::mistake(split, &found, reader.cluster().brokers());
            looks += 1;
            match splits.iter().find_map(mistake) {
                None => return Ok(true),
                // a broker that has just started may not know all of them yet
                Some(SourceError::Gone { .. }) if looks < LOOKS => std::thread::sleep(Duration::from_secs(1)),
                Some(mistake) => return Err(mistake),
            }
        }
    }

    /// Tries again until it works, or fails for good; `None`: nobody wants it any more.
    fn until_it_works<R>(&self, act: impl Fn() -> Result<R, SourceError>) -> Result<Option<R>, SourceError> {
        let (begun, mut said) = (self.context.clock.elapsed(), None);
        loop {
            match act() {
                Err(error) if error.may_pass() => {
                    let now = self.context.clock.elapsed();
                    if said.is_none_or(|said| now.saturating_sub(said) >= SAY_AGAIN) {
                        let waits = now.saturating_sub(begun).as_secs();
                        tracing::warn!("`{}` waits for Kafka ({waits} s): {error}", self.context.name);
                        said = Some(now);
                    }
                    if self.orders.are_over() {
                        return Ok(None);
                    }
                    std::thread::sleep(PAUSE);
                }
                done => return done.map(Some),
            }
        }
    }

    /// `false`: nobody takes records any more.
    fn hand_over(
        &mut self,
        records: &[Fetched],
        chunks: &ChunkSender<T, KafkaSplit>,
    ) -> Result<bool, SourceError> {
        let same = |a: &Fetched, b: &Fetched| a.partition == b.partition && a.topic == b.topic;
        for records in records.chunk_by(same) {
            let Some(first) = records.first() else { continue };
            let number = self.numbers.get(&*first.topic).and_then(|of| of.get(&(first.partition as u32)));
            let Some((number, split)) = number.and_then(|number| Some((*number, self.splits.get(number)?)))
            else {
                continue;
            };
            if (first.offset.max(0) as u64) < split.next {
                // the client went back by itself: the partition was cut before where we are
                let partition = split.key();
                self.out_of_range(&partition)?;
                continue;
            }
            let chunk = self.chunk(number, split, records)?;
            if !self.send(chunk, chunks)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn chunk(
        &self,
        number: usize,
        split: &KafkaSplit,
        records: &[Fetched],
    ) -> Result<Chunk<T, KafkaSplit>, SourceError> {
        let (mut values, mut times) = (Vec::with_capacity(records.len()), Vec::with_capacity(records.len()));
        let (mut dead, mut skipped) = (Vec::new(), 0);
        let mut next = split.next;
        for record in records.iter().map(ConsumerRecord::of) {
            if split.stop.is_some_and(|stop| record.offset >= stop) {
                next = record.offset;
                break;
            }
            let before = values.len();
            if let Err(reason) = self.deserializer.deserialize(&record, &mut values) {
                values.truncate(before);
                skipped += 1;
                match self.settings.on_bad_record {
                    OnBadRecord::Fail => return Err(bad(&record, &reason)),
                    OnBadRecord::SkipAndCount => {}
                    OnBadRecord::DeadLetter => {
                        dead.push(DeadLetter { record: record.to_raw(), reason: reason.to_string() });
                    }
                }
            }
            times.resize(values.len(), record.timestamp.as_millis());
            next = record.offset + 1;
        }
        Ok(Chunk {
            split: number,
            position: split.read_to(next),
            weight: values.len() as u64,
            records: Batch::timed(values, times),
            side: (!dead.is_empty()).then(|| Batch::new(dead).into()),
            skipped,
        })
    }

    fn send(
        &mut self,
        chunk: Chunk<T, KafkaSplit>,
        chunks: &ChunkSender<T, KafkaSplit>,
    ) -> Result<bool, SourceError> {
        let (number, split) = (chunk.split, chunk.position.clone());
        if split.is_done() {
            self.splits.remove(&number);
            self.count_lag(&split.key(), 0);
            if let (Some(reader), Some(of)) = (&self.reader, self.numbers.get_mut(&split.topic)) {
                of.remove(&split.partition);
                let rest: Vec<u32> = of.keys().copied().collect();
                // what it reads beyond the end is left out
                let _ = block_on(reader.assign(&split.topic, &rest))?;
            }
        } else {
            self.splits.insert(number, split);
        }
        Ok(chunks.send(chunk))
    }

    /// Counts lag, and moves positions past what is no record: a source that ends behind such marks would
    /// wait for ever otherwise.
    fn look_at_standings(&mut self, chunks: &ChunkSender<T, KafkaSplit>) -> Result<bool, SourceError> {
        let Some(reader) = &self.reader else { return Ok(true) };
        for standing in block_on(reader.standings())? {
            let Partition { topic, number } = &standing.partition;
            let number = self.numbers.get(topic).and_then(|of| of.get(number)).copied();
            let Some((number, split)) = number.and_then(|number| Some((number, self.splits.get(&number)?)))
            else {
                continue;
            };
            let Some(position) = standing.position else { continue };
            if let Some(lag) = standing.lag {
                self.count_lag(&standing.partition, lag);
            }
            if position < split.next {
                self.out_of_range(&standing.partition)?;
            } else if position > split.next {
                let (position, records) = (split.read_to(position), Batch::default());
                let chunk = Chunk { split: number, position, records, side: None, skipped: 0, weight: 0 };
                if !self.send(chunk, chunks)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn look_at_topics(&mut self, now: Duration) -> Result<(), SourceError> {
        let Some(reader) = &self.reader else { return Ok(()) };
        let names = || self.numbers.keys().cloned().collect();
        let back = self.watch.look(now, reader.cluster(), names, self.splits.values(), &self.context.name)?;
        if back {
            // the client waits longer and longer between its tries: now it need not
            for split in self.splits.values() {
                block_on(reader.seek(&split.key(), split.next))??;
            }
        }
        Ok(())
    }

    /// The records from which to go on are not there.
    fn out_of_range(&mut self, partition: &Partition) -> Result<(), SourceError> {
        let number = self.numbers.get(&partition.topic).and_then(|of| of.get(&partition.number)).copied();
        let Some((number, split)) =
            number.and_then(|number| Some((number, self.splits.get(&number)?.clone())))
        else {
            return Ok(());
        };
        let Some(reader) = &self.reader else { return Ok(()) };
        let range = || Ok(block_on(reader.range(partition))??);
        let Some((first, end)) = self.until_it_works(range)? else { return Ok(()) };
        let wanted = split.next;
        if (first..=end).contains(&wanted) {
            // it has grown meanwhile, or a new leader had not caught up
            std::thread::sleep(PAUSE);
            return Ok(block_on(reader.seek(partition, wanted))??);
        }
        let why = match wanted < first {
            true => "retention has deleted what lies between",
            false => "the partition was cut, or its topic was created again",
        };
        let to = match self.on_out_of_range {
            OffsetReset::Fail => {
                let partition = partition.to_string();
                return Err(SourceError::OutOfRange { partition, wanted, first, end, why });
            }
            OffsetReset::Earliest => first,
            OffsetReset::Latest => end,
        };
        tracing::warn!(
            "`{}`: {partition} has the offsets from {first} to {end}, and was to be read from {wanted} on ({why}): it goes \
             on with {to}",
            self.context.name
        );
        self.context.counters.add(&format!("{}.out-of-range", self.context.name), 1);
        block_on(reader.seek(partition, to))??;
        self.splits.insert(number, KafkaSplit { next: to, ..split });
        Ok(())
    }

    fn count_lag(&self, partition: &Partition, lag: u64) {
        self.context.counters.set(&format!("{}.lag.{partition}", self.context.name), lag);
    }
}

impl<T> Drop for Fetcher<T> {
    fn drop(&mut self) {
        for split in self.splits.values() {
            self.context.counters.set(&format!("{}.lag.{}", self.context.name, split.key()), 0);
        }
        if let Some(reader) = self.reader.take() {
            // without it the brokers keep what they know of the fetches for a while
            let _ = spawn(async move { reader.close().await });
        }
    }
}

fn pause(
    reader: &PartitionReader,
    splits: &BTreeMap<usize, KafkaSplit>,
    before: &mut BTreeSet<usize>,
    now: BTreeSet<usize>,
) -> Result<(), KafkaError> {
    for number in before.symmetric_difference(&now) {
        if let Some(split) = splits.get(number) {
            block_on(reader.pause(&split.key(), now.contains(number)))?;
        }
    }
    *before = now;
    Ok(())
}

fn bad(record: &ConsumerRecord<'_>, reason: &Refusal) -> SourceError {
    let value = record.value.unwrap_or_default();
    let shown = String::from_utf8_lossy(&value[..value.len().min(SHOWN)]);
    SourceError::BadRecord {
        partition: Partition::new(record.topic, record.partition).to_string(),
        offset: record.offset,
        reason: reason.to_string(),
        value: format!("{shown}{}", if value.len() > SHOWN { ".." } else { "" }),
    }
}
