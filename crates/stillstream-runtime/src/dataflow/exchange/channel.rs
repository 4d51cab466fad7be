//! The channel of one edge: it splits batches over the workers, stamps them and counts them for flow control.

use std::rc::Rc;

use stillstream_types::Result;
use timely::communication::{Pull, Push};
use timely::dataflow::channels::Message;
use timely::dataflow::channels::pact::ParallelizationContract;
use timely::dataflow::channels::pushers::Exchange as ExchangePusher;
use timely::dataflow::channels::pushers::exchange::Distributor;
use timely::progress::Stamp;
use timely::worker::Worker;

use crate::dataflow::attempt::WorkerAttempt;
use crate::flow::credits::Amount;
use crate::operator::batch::AnyBatch;
use crate::panics::catch;
use crate::plan::{Placement, Splitter};

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

/// Batches between two measurements of how large their records are.
const MEASURE_EVERY: u32 = 4;

/// Stamps edge, sender and size on each batch, and counts it.
struct Stamping {
    edge: u32,
    attempt: Rc<WorkerAttempt>,
    /// Bytes of a record, as measured last.
    record_size: u64,
    until_measured: u32,
}

impl Stamping {
    fn new(edge: u32, attempt: Rc<WorkerAttempt>) -> Self {
        Self { edge, attempt, record_size: 0, until_measured: 0 }
    }

    #[inline]
    fn stamp(&mut self, target: usize, batch: &mut AnyBatch) {
        batch.from = self.attempt.worker as u32;
        batch.edge = self.edge;
        let records = batch.len();
        if records > 0 {
            if self.until_measured == 0 {
                self.until_measured = MEASURE_EVERY;
                self.record_size = batch.record_size() as u64;
            }
            self.until_measured -= 1;
        }
        batch.bytes = records as u64 * self.record_size;
        let amount = Amount { records: records as i64, bytes: batch.bytes as i64 };
        self.attempt.flow.credits.borrow_mut().sent(self.edge, target, amount);
    }
}

/// Pushes each part to its worker.
struct Distribution {
    splitter: Box<dyn Splitter>,
    stamping: Stamping,
    /// Where the subtasks of the consumer run.
    to: Placement,
}

impl Distributor<AnyBatch> for Distribution {
    fn partition<T: Clone, P: Push<Message<T, AnyBatch>>>(
        &mut self,
        container: &mut AnyBatch,
        stamp: &Stamp<T>,
        pushers: &mut [P],
    ) {
        let Self { splitter, stamping, to } = self;
        // the key selector is the user's code: a panic in it must not unwind through Timely
        let split = catch("the key selector", || {
            splitter.split(std::mem::take(container), &mut |target, mut batch| {
                let target = to.worker_of(target);
                stamping.stamp(target, &mut batch);
                Message::push_at(&mut batch, stamp.clone(), &mut pushers[target]);
            })
        });
        if let Err(error) = split {
            stamping.attempt.fail(None, error);
        }
    }

    fn flush<T: Clone, P: Push<Message<T, AnyBatch>>>(&mut self, stamp: &Stamp<T>, pushers: &mut [P]) {
        let Self { splitter, stamping, to } = self;
        splitter.flush(&mut |target, mut batch| {
            let target = to.worker_of(target);
            stamping.stamp(target, &mut batch);
            Message::push_at(&mut batch, stamp.clone(), &mut pushers[target]);
        });
    }
}

/// Within the worker: only stamps and counts.
struct Local<P> {
    inner: P,
    stamping: Stamping,
}

impl<P: Push<Message<u64, AnyBatch>>> Push<Message<u64, AnyBatch>> for Local<P> {
    fn push(&mut self, message: &mut Option<Message<u64, AnyBatch>>) {
        if let Some(message) = message {
            let own = self.stamping.attempt.worker;
            self.stamping.stamp(own, &mut message.data);
        }
        self.inner.push(message);
    }
}

/// To the only worker there is: Timely's exchange would pass the batch on as it is, but keys have to be
/// hashed.
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
    Local { edge: u32, attempt: Rc<WorkerAttempt> },
    /// To any worker.
    Exchange { edge: u32, attempt: Rc<WorkerAttempt>, splitter: Box<dyn Splitter>, to: Placement },
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
            Self::Local { edge, attempt } => {
                let (inner, puller) = worker.pipeline::<Message<u64, AnyBatch>>(identifier, address);
                (Box::new(Local { inner, stamping: Stamping::new(edge, attempt) }), Box::new(puller))
            }
            Self::Exchange { edge, attempt, splitter, to } => {
                let (mut pushers, puller) = worker.allocate::<Message<u64, AnyBatch>>(identifier, address);
                let distribution = Distribution { splitter, stamping: Stamping::new(edge, attempt), to };
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
