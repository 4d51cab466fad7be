//! [`Flight`]: records on their way from a worker to one producer.
//!
//! The worker puts them into a queue and goes on; a task on the client's threads hands them to the producer,
//! which waits while its memory is full. The worker is told by its waker when the queue has room again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use stillstream_runtime::connect::MakeDurable;
use stillstream_runtime::waker::Waker;
use stillstream_types::{Error, ErrorKind};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::KafkaError;
use crate::client::{Lane, Outgoing, TransactionKey, spawn};

/// How many bytes may wait for the producer, beside those that it holds itself (`buffer.memory`).
const QUEUE_BYTES: usize = 4 << 20;

enum Order {
    Records(Vec<Outgoing>, usize),
    Flush,
}

#[derive(Default)]
struct State {
    /// How many flushes have come to their end.
    flushed: u64,
    /// What the first record that was not written failed with.
    failed: Option<String>,
    /// The writer is gone before everything was acknowledged: nobody may wait any more, or count on it.
    given_up: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    queued: AtomicUsize,
    /// The worker waits for room.
    waiting: AtomicBool,
    waker: Waker,
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
        if self.waiting.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}

/// Records on their way to one producer.
pub(super) struct Flight {
    orders: UnboundedSender<Order>,
    shared: Arc<Shared>,
    lane: Arc<Lane>,
    key: Option<TransactionKey>,
    flushes: u64,
    /// Records since the last flush.
    pub records: u64,
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flight({:?}, {} records)", self.key, self.records)
    }
}

impl Flight {
    pub fn start(lane: Lane, waker: Waker) -> Result<Self, KafkaError> {
        let lane = Arc::new(lane);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            queued: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
            waker,
        });
        let (orders, taken) = unbounded_channel();
        spawn(carry(taken, lane.clone(), shared.clone()))?;
        let key = lane.key();
        Ok(Self { orders, shared, lane, key, flushes: 0, records: 0 })
    }

    /// The producer, which commits what it has written.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// The numbers of its transaction.
    pub fn key(&self) -> Option<&TransactionKey> {
        self.key.as_ref()
    }

    /// Whether it takes records now; else it wakes the operator later.
    pub fn has_room(&self) -> Result<bool, KafkaError> {
        self.check()?;
        let full = || self.shared.queued.load(Ordering::SeqCst) >= QUEUE_BYTES;
        if !full() {
            return Ok(true);
        }
        // ask to be woken, then look again: the task may have made room in between
        self.shared.waiting.store(true, Ordering::SeqCst);
        Ok(!full())
    }

    /// Fails if a record could not be written.
    pub fn check(&self) -> Result<(), KafkaError> {
        let failed = self.shared.state.lock().failed.clone().or_else(|| self.lane.failure());
        failed.map_or(Ok(()), |reason| Err(KafkaError::Write { reason }))
    }

    pub fn write(&mut self, records: Vec<Outgoing>) {
        self.records += records.len() as u64;
        let bytes = records.iter().map(Outgoing::size).sum();
        self.shared.queued.fetch_add(bytes, Ordering::SeqCst);
        self.order(Order::Records(records, bytes));
    }

    fn order(&self, order: Order) {
        // the task ends only when this end is dropped
        let _ = self.orders.send(order);
    }

    /// Has everything that was written so far sent. What is returned waits until it is acknowledged, or fails
    /// with the first record that was not; it may be called again.
    pub fn flush(&mut self) -> MakeDurable {
        self.flushes += 1;
        self.records = 0;
        self.order(Order::Flush);
        let (shared, wanted) = (self.shared.clone(), self.flushes);
        Box::new(move || {
            let mut state = shared.state.lock();
            shared.changed.wait_while(&mut state, |state| {
                state.flushed < wanted && state.failed.is_none() && !state.given_up
            });
            match &state.failed {
                Some(reason) => Err(KafkaError::Write { reason: reason.clone() }.into_error()),
                None if state.flushed >= wanted && !state.given_up => Ok(()),
                None => {
                    let message = "the sink was closed before its records were acknowledged";
                    Err(Error::new(ErrorKind::Cancelled, message))
                }
            }
        })
    }

    /// Whether everything was flushed and is acknowledged.
    pub fn has_settled(&self) -> bool {
        self.records == 0 && self.shared.state.lock().flushed >= self.flushes
    }

    /// Lets nobody wait for it any more. Returns whether something was not acknowledged: then no checkpoint
    /// will hold what was written since the last flush that was, as waiting for it fails from now on.
    pub fn give_up(&self) -> bool {
        let mut lost = false;
        self.shared.change(|state| {
            lost = self.records > 0 || state.flushed < self.flushes;
            state.given_up = lost;
        });
        lost
    }
}

async fn carry(mut orders: UnboundedReceiver<Order>, lane: Arc<Lane>, shared: Arc<Shared>) {
    while let Some(order) = orders.recv().await {
        let done = match order {
            Order::Records(records, bytes) => {
                let done = lane.send(records).await;
                shared.queued.fetch_sub(bytes, Ordering::SeqCst);
                shared.change(|_| ());
                done
            }
            Order::Flush => {
                let done = lane.flush().await;
                if done.is_ok() {
                    shared.change(|state| state.flushed += 1);
                }
                done
            }
        };
        if let Err(error) = done {
            let reason = match error {
                KafkaError::Write { reason } => reason,
                other => other.to_string(),
            };
            shared.change(|state| state.failed = state.failed.take().or(Some(reason)));
            shared.waker.wake();
        }
    }
}
