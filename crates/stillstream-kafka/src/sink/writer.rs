//! [`KafkaWriter`]: writes for one subtask.

use std::fmt;
use std::time::Duration;

use stillstream_runtime::Batch;
use stillstream_runtime::connect::{Prepared, SinkContext, SinkWriter};
use stillstream_types::{CheckpointId, Result};
use tokio::task::JoinHandle;

use super::Delivery;
use super::commit::Lanes;
use super::committable::KafkaCommittable;
use super::connection::Connection;
use super::flight::Flight;
use super::left_over::LeftOver;
use super::names::{Named, Names};
use super::opening::Opening;
use super::record::Encoder;
use crate::KafkaError;
use crate::client::{Cluster, Lane, spawn};

/// What the runtime prepares under when a job ends.
const AT_THE_END: CheckpointId = CheckpointId(u64::MAX);

/// How long transactions of earlier attempts are tried to be aborted. Readers wait for them, so the sink does
/// not go on without.
const PATIENCE_WITH_LEFT_OVERS: Duration = Duration::from_secs(600);

/// A producer that is on its way, and the checkpoint after which its transaction begins.
struct Coming {
    after: u64,
    lane: Opening<Lane>,
}

/// The writer of one subtask. With transactions there is a producer for each, which is got from the cluster
/// ahead of time; without them one producer does for all.
pub(super) struct KafkaWriter<T> {
    encoder: Encoder<T>,
    delivery: Delivery,
    connection: Connection,
    lanes: Lanes,
    names: Names,
    context: SinkContext,
    /// The last checkpoint that was prepared.
    prepared: u64,
    /// Where records go now.
    flight: Option<Flight>,
    /// Where they go next.
    coming: Option<Coming>,
    /// What was prepared and is not acknowledged by the brokers.
    settling: Vec<Flight>,
    /// Transactions of earlier attempts are being aborted.
    left_over: Option<Opening<(LeftOver, Cluster)>>,
    /// And are looked for as long as the attempt lives.
    looking: Option<JoinHandle<()>>,
}

impl<T> fmt::Debug for KafkaWriter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KafkaWriter({:?}, {:?})", self.context, self.flight)
    }
}

impl<T> KafkaWriter<T> {
    pub fn new(
        encoder: Encoder<T>,
        delivery: Delivery,
        connection: Connection,
        lanes: Lanes,
        names: Names,
        context: SinkContext,
    ) -> Self {
        Self {
            encoder,
            delivery,
            connection,
            lanes,
            names,
            prepared: context.restored_checkpoint.map_or(0, |restored| restored.0),
            context,
            flight: None,
            coming: None,
            settling: Vec::new(),
            left_over: None,
            looking: None,
        }
    }

    fn has_transactions(&self) -> bool {
        self.delivery == Delivery::ExactlyOnce
    }

    /// Begins to get a producer, whose transaction begins behind checkpoint `after`.
    fn begin_opening(&mut self, after: u64) -> Result<(), KafkaError> {
        let (connection, transactions) = (self.connection.clone(), self.has_transactions());
        let name = self.names.name(Named {
            subtask: self.context.subtask.0,
            generation: self.context.generation,
            after,
        });
        let what = format!("sink `{}`: getting a producer", self.context.name);
        let lane =
            Opening::start(what, self.connection.patience()?, self.context.waker.clone(), move || {
                let (connection, name) = (connection.clone(), name.clone());
                async move {
                    let cluster = connection.get().await?;
                    let properties = connection.properties();
                    if !transactions {
                        return Lane::plain(&cluster, properties).await;
                    }
                    let timeout = connection.transaction_timeout().await?;
                    Lane::transactional(&cluster, properties, &name, timeout).await
                }
            })?;
        self.coming = Some(Coming { after, lane });
        Ok(())
    }

    /// Throws a producer away that was got for a transaction that will not be begun.
    fn discard_coming(&mut self) {
        if let Some(lane) = self.coming.take().and_then(|coming| coming.lane.cancel()) {
            end(lane);
        }
    }

    fn is_ready(&mut self) -> Result<bool, KafkaError> {
        self.settling.retain(|flight| !flight.has_settled());
        self.settling.iter().try_for_each(Flight::check)?;
        if let Some(left_over) = &self.left_over {
            let Some((left, cluster)) = left_over.take()? else { return Ok(false) };
            self.left_over = None;
            if self.context.subtask.0 == 0 {
                self.looking = Some(spawn(left.keep_looking(cluster))?);
            }
        }
        if let Some(flight) = &self.flight {
            return flight.has_room();
        }
        if self.coming.as_ref().is_none_or(|coming| self.has_transactions() && coming.after != self.prepared)
        {
            self.discard_coming();
            self.begin_opening(self.prepared)?;
        }
        let Some(coming) = &self.coming else { return Ok(false) };
        let Some(lane) = coming.lane.take()? else { return Ok(false) };
        self.coming = None;
        self.flight = Some(Flight::start(lane, self.context.waker.clone())?);
        Ok(true)
    }

    fn write_batch(&mut self, batch: Batch<T>) -> Result<(), KafkaError> {
        let Some(flight) = &mut self.flight else {
            return Err(KafkaError::Misuse("a Kafka sink was written to before it said that it is ready"));
        };
        let mut times = batch.times.into_iter();
        let records = batch.values.into_iter().map(|value| self.encoder.outgoing(value, times.next()));
        flight.write(records.collect::<Result<_, _>>()?);
        // the next transaction's producer comes while this one is being written
        if self.has_transactions() && self.context.checkpointing && self.coming.is_none() {
            self.begin_opening(self.prepared.saturating_add(1))?;
        }
        Ok(())
    }

    fn prepare_transaction(
        &mut self,
        checkpoint: CheckpointId,
    ) -> Result<Option<Prepared<KafkaCommittable>>, KafkaError> {
        if checkpoint != AT_THE_END {
            self.prepared = checkpoint.0;
        }
        if self.coming.as_ref().is_some_and(|coming| coming.after != self.prepared) {
            // checkpoints are not always numbered one after another
            self.discard_coming();
        }
        let Some(mut flight) = self.flight.take() else { return Ok(None) };
        flight.check()?;
        let (records, Some(key)) = (flight.records, flight.key().cloned()) else { return Ok(None) };
        if records == 0 {
            let lane = flight.lane().clone();
            spawn(async move { lane.abort().await })?;
            return Ok(None);
        }
        let make_durable = Some(flight.flush());
        self.lanes.add(key.transactional_id.clone(), flight.lane().clone());
        self.settling.push(flight);
        Ok(Some(Prepared { committable: KafkaCommittable::of(key, records), make_durable }))
    }

    fn prepare_flush(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<KafkaCommittable>>> {
        let Some(flight) = &mut self.flight else { return Ok(None) };
        flight.check().map_err(KafkaError::into_error)?;
        let records = flight.records;
        match self.delivery {
            Delivery::None if checkpoint != AT_THE_END => Ok(None),
            // nothing comes after it, and no checkpoint will wait
            Delivery::None => flight.flush()().map(|()| None),
            _ if records == 0 => Ok(None),
            _ => {
                let make_durable = Some(flight.flush());
                Ok(Some(Prepared { committable: KafkaCommittable::flushed(records), make_durable }))
            }
        }
    }
}

/// Ends a producer, and aborts its transaction, without waiting for it.
fn end(lane: Lane) {
    // without threads there is no producer either
    let _ = spawn(async move { lane.abort().await });
}

impl<T: 'static> SinkWriter<T, KafkaCommittable> for KafkaWriter<T> {
    fn write(&mut self, batch: Batch<T>) -> Result<()> {
        self.write_batch(batch).map_err(KafkaError::into_error)
    }

    fn ready(&mut self) -> Result<bool> {
        self.is_ready().map_err(KafkaError::into_error)
    }

    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<KafkaCommittable>>> {
        match self.delivery {
            Delivery::ExactlyOnce => self.prepare_transaction(checkpoint).map_err(KafkaError::into_error),
            _ => self.prepare_flush(checkpoint),
        }
    }

    fn recovered(&mut self, restored: Option<CheckpointId>) -> Result<()> {
        if !self.has_transactions() {
            return Ok(());
        }
        let (connection, names, lanes) = (self.connection.clone(), self.names.clone(), self.lanes.clone());
        let (generation, subtask) = (self.context.generation, self.context.subtask.0);
        let parallelism = self.context.parallelism;
        let what =
            format!("sink `{}`: aborting transactions that earlier attempts left open", self.context.name);
        let patience = PATIENCE_WITH_LEFT_OVERS;
        let left_over = Opening::start(what, patience, self.context.waker.clone(), move || {
            let (connection, names, lanes) = (connection.clone(), names.clone(), lanes.clone());
            async move {
                lanes.aborted().await;
                let cluster = connection.get().await?;
                let timeout = connection.transaction_timeout().await?;
                let left = LeftOver { names, generation, restored, subtask, parallelism, timeout };
                left.abort(&cluster).await?;
                Ok((left, cluster))
            }
        });
        self.left_over = Some(left_over.map_err(KafkaError::into_error)?);
        Ok(())
    }
}

impl<T> Drop for KafkaWriter<T> {
    /// What no checkpoint holds is aborted, so that readers need not wait for it. What was prepared and is
    /// acknowledged stays as it is: a checkpoint may hold it.
    fn drop(&mut self) {
        self.discard_coming();
        if let Some(looking) = self.looking.take() {
            looking.abort();
        }
        for flight in &self.settling {
            if let Some(key) = flight.key() {
                self.lanes.remove(&key.transactional_id);
            }
            if flight.give_up() {
                self.lanes.abort(flight.lane().clone());
            }
        }
        if let Some(flight) = self.flight.take() {
            flight.give_up();
            self.lanes.abort(flight.lane().clone());
        }
    }
}
