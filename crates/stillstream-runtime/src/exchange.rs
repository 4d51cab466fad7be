//! How records get from the subtasks of one task to those of the next.

mod by_key;
mod hashing;
mod part;
#[cfg(test)]
mod tests;

pub use by_key::by_key;

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use stillstream_state::Key;
use stillstream_types::Result;
use timely::communication::{Pull, Push};
use timely::dataflow::channels::Message;
use timely::dataflow::channels::pact::ParallelizationContract;
use timely::dataflow::channels::pushers::Exchange as ExchangePusher;
use timely::dataflow::channels::pushers::exchange::Distributor;
use timely::progress::Stamp;
use timely::worker::Worker;

use crate::batch::AnyBatch;
use crate::catch::catch;
use crate::shared::WorkerShared;

/// Finds the key of a record, without a copy where the key is a part of the record.
pub trait KeySelector<T>: Send + Sync + 'static {
    /// The key's type.
    type Key: Key;
    /// Calls `f` with the key of `record`.
    fn with_key<R>(&self, record: &T, f: impl FnOnce(&Self::Key) -> R) -> R;
    /// Asks for the memory that comparing the key of `record` will read beside the record; a hint for keys that own memory.
    #[inline(always)]
    fn prefetch(&self, record: &T) {
        let _ = record;
    }
    /// The key of `record`, as a value of its own.
    #[inline(always)]
    fn key(&self, record: &T) -> Self::Key {
        self.with_key(record, Clone::clone)
    }
    /// The key of `record`, as a value of its own in `place`, whose memory is used again.
    #[inline(always)]
    fn key_in<'a>(&self, record: &T, place: &'a mut Option<Self::Key>) -> &'a Self::Key {
        self.with_key(record, |key| match place {
            Some(place) => place.clone_from(key),
            None => *place = Some(key.clone()),
        });
        place.get_or_insert_with(|| self.key(record))
    }
}

/// A closure that makes the key: `|flight| flight.carrier.clone()`.
#[derive(Debug, Clone)]
pub struct OwnedKey<F>(pub F);

impl<T, K: Key, F: Fn(&T) -> K + Send + Sync + 'static> KeySelector<T> for OwnedKey<F> {
    type Key = K;
    #[inline(always)]
    fn with_key<R>(&self, record: &T, f: impl FnOnce(&K) -> R) -> R {
        f(&(self.0)(record))
    }
    #[inline(always)]
    fn key(&self, record: &T) -> K {
        (self.0)(record)
    }
    #[inline(always)]
    fn key_in<'a>(&self, record: &T, place: &'a mut Option<K>) -> &'a K {
        place.insert((self.0)(record))
    }
}

/// A closure that points to the key inside the record: `|flight| &flight.carrier`.
pub struct BorrowedKey<F, K>(pub F, PhantomData<fn() -> K>);

impl<F, K> BorrowedKey<F, K> {
    /// Wraps the closure.
    pub fn new(f: F) -> Self {
        Self(f, PhantomData)
    }
}

impl<F, K> fmt::Debug for BorrowedKey<F, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BorrowedKey")
    }
}

impl<T, K: Key, F: Fn(&T) -> &K + Send + Sync + 'static> KeySelector<T> for BorrowedKey<F, K> {
    type Key = K;
    #[inline(always)]
    fn with_key<R>(&self, record: &T, f: impl FnOnce(&K) -> R) -> R {
        f((self.0)(record))
    }
    #[inline(always)]
    fn prefetch(&self, record: &T) {
        (self.0)(record).prefetch();
    }
}

/// Splits batches over the subtasks of the consumer: typed inside, erased outside. Each subtask gets its part of the records,
/// in order, and every mark at its place between them.
pub trait Splitter: 'static {
    /// Splits one batch; `send(target, batch)` takes each part that is full.
    fn split(&mut self, batch: AnyBatch, send: &mut dyn FnMut(usize, AnyBatch)) -> Result<()>;
    /// Sends what is left.
    fn flush(&mut self, send: &mut dyn FnMut(usize, AnyBatch));
}

/// Sends whole batches to the subtask that the producer wrote into them.
struct Directed;

impl Splitter for Directed {
    fn split(&mut self, batch: AnyBatch, send: &mut dyn FnMut(usize, AnyBatch)) -> Result<()> {
        send(batch.to as usize, batch);
        Ok(())
    }
    fn flush(&mut self, _: &mut dyn FnMut(usize, AnyBatch)) {}
}

pub(crate) fn directed() -> Box<dyn Splitter> {
    Box::new(Directed)
}

/// Stamps edge and sender on each part, counts it, and pushes it to its worker.
struct Distribution {
    splitter: Box<dyn Splitter>,
    edge: u32,
    shared: Rc<WorkerShared>,
}

impl Distribution {
    fn stamp(shared: &WorkerShared, edge: u32, target: usize, batch: &mut AnyBatch) {
        batch.from = shared.index as u32;
        batch.edge = edge;
        shared.board.borrow_mut().sent(edge, target, batch.len() as u32);
    }
}

impl Distributor<AnyBatch> for Distribution {
    fn partition<T: Clone, P: Push<Message<T, AnyBatch>>>(
        &mut self,
        container: &mut AnyBatch,
        stamp: &Stamp<T>,
        pushers: &mut [P],
    ) {
        let (edge, shared) = (self.edge, &self.shared);
        // the key selector is the user's code: a panic in it must not unwind through Timely
        let split = catch("the key selector", || {
            self.splitter.split(std::mem::take(container), &mut |target, mut batch| {
                Self::stamp(shared, edge, target, &mut batch);
                Message::push_at(&mut batch, stamp.clone(), &mut pushers[target]);
            })
        });
        if let Err(error) = split {
            shared.fail(None, error);
        }
    }

    fn flush<T: Clone, P: Push<Message<T, AnyBatch>>>(&mut self, stamp: &Stamp<T>, pushers: &mut [P]) {
        let (edge, shared) = (self.edge, &self.shared);
        self.splitter.flush(&mut |target, mut batch| {
            Self::stamp(shared, edge, target, &mut batch);
            Message::push_at(&mut batch, stamp.clone(), &mut pushers[target]);
        });
    }
}

/// Within the worker: only stamps and counts.
struct Local<P> {
    inner: P,
    edge: u32,
    shared: Rc<WorkerShared>,
}

impl<P: Push<Message<u64, AnyBatch>>> Push<Message<u64, AnyBatch>> for Local<P> {
    fn push(&mut self, message: &mut Option<Message<u64, AnyBatch>>) {
        if let Some(message) = message {
            Distribution::stamp(&self.shared, self.edge, self.shared.index, &mut message.data);
        }
        self.inner.push(message);
    }
}

/// To the only worker there is: Timely's exchange would pass the batch on as it is, but keys have to be hashed.
struct OnlyWorker<P> {
    pushers: [P; 1],
    distribution: Distribution,
}

impl<P: Push<Message<u64, AnyBatch>>> Push<Message<u64, AnyBatch>> for OnlyWorker<P> {
    fn push(&mut self, message: &mut Option<Message<u64, AnyBatch>>) {
        match message {
            Some(message) => {
                self.distribution.partition(&mut message.data, &message.stamp, &mut self.pushers);
                self.distribution.flush(&message.stamp, &mut self.pushers);
            }
            None => self.pushers[0].push(&mut None),
        }
    }
}

/// The channel of one edge.
pub(crate) enum Channel {
    /// To the same worker.
    Local { edge: u32, shared: Rc<WorkerShared> },
    /// To any worker.
    Exchange { edge: u32, shared: Rc<WorkerShared>, splitter: Box<dyn Splitter> },
}

impl ParallelizationContract<u64, AnyBatch> for Channel {
    type Pusher = Box<dyn Push<Message<u64, AnyBatch>>>;
    type Puller = Box<dyn Pull<Message<u64, AnyBatch>>>;

    fn connect(
        self,
        worker: &Worker,
        identifier: usize,
        address: Rc<[usize]>,
        _: Option<timely::logging::TimelyLogger>,
    ) -> (Self::Pusher, Self::Puller) {
        match self {
            Self::Local { edge, shared } => {
                let (inner, puller) = worker.pipeline::<Message<u64, AnyBatch>>(identifier, address);
                (Box::new(Local { inner, edge, shared }), Box::new(puller))
            }
            Self::Exchange { edge, shared, splitter } => {
                let (mut pushers, puller) = worker.allocate::<Message<u64, AnyBatch>>(identifier, address);
                let distribution = Distribution { splitter, edge, shared };
                match pushers.pop() {
                    Some(only) if pushers.is_empty() => {
                        (Box::new(OnlyWorker { pushers: [only], distribution }), puller)
                    }
                    last => {
                        pushers.extend(last);
                        (Box::new(ExchangePusher::new(pushers, distribution)), puller)
                    }
                }
            }
        }
    }
}
