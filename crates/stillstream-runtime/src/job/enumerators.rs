//! The enumerators of an attempt: each source has one, on a thread of its own in the JobManager.
//!
//! A thread calls its enumerator, and hands on what came of the call as a whole: the state, and what was
//! assigned to come to it. The JobManager takes that in when it comes to it, and decides by this order which
//! checkpoint has it. A call that blocks holds nobody up but this enumerator.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use stillstream_jobmaster::{Assignment, AttemptSpec, Enumerated, JobEvent};
use stillstream_types::{Error, ErrorKind, Generation, OperatorId, Result, SubtaskId, SubtaskIndex};

use super::manager::Message;
use crate::catch::{catch_on_thread, spawn};
use crate::checkpoint::snapshot_pool::SnapshotStores;
use crate::clock::Clock;
use crate::metrics::Counters;
use crate::operator::enumeration::{
    Enumerate, EnumeratorContext, EnumeratorFactory, EnumeratorWaker, Found, RestoredSplits,
};
use crate::plan::{NodeBody, PhysicalPlan, Task};

/// What an enumerator's thread is told.
enum Call {
    /// It was woken.
    Discover,
    /// A reader has read all that it has.
    Requested(SubtaskIndex),
    /// The attempt is over.
    End,
}

/// The enumerator of one source, seen from the JobManager.
struct Running {
    calls: mpsc::Sender<Call>,
    over: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // a thread that is gone needs no word; one that is inside its enumerator ends when that returns
        let _ = self.calls.send(Call::End);
    }
}

/// The enumerators of the attempt that runs.
#[derive(Default)]
pub(crate) struct Enumerators {
    generation: Generation,
    /// By the vertex of the source.
    running: BTreeMap<u32, Running>,
}

impl fmt::Debug for Enumerators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Enumerators({} of generation {})", self.running.len(), self.generation)
    }
}

/// What all enumerators of a job need.
pub(crate) struct EnumeratorSetup<'a> {
    pub physical: &'a PhysicalPlan,
    pub stores: &'a Arc<dyn SnapshotStores>,
    pub clock: &'a Arc<dyn Clock>,
    pub counters: &'a Arc<Counters>,
    pub messages: mpsc::Sender<Message>,
}

impl Enumerators {
    /// Starts those of an attempt; those of the one before end.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(setup: &EnumeratorSetup<'_>, spec: &AttemptSpec) -> Result<Self> {
        let mut all = Self { generation: spec.generation, running: BTreeMap::new() };
        for task in &setup.physical.tasks {
            if let Some(NodeBody::SplitSource(_, factory)) = task.chain.first().map(|head| &head.body) {
                all.running.insert(task.vertex.0, start_one(setup, spec, task, factory)?);
            }
        }
        Ok(all)
    }

    /// A reader of this generation has read all that it has.
    pub fn request(&self, generation: Generation, reader: SubtaskId) {
        if let Some(running) = self.running.get(&reader.vertex.0).filter(|_| generation == self.generation) {
            // a thread that is gone has said that there are no more splits, or why it failed
            let _ = running.calls.send(Call::Requested(reader.index));
        }
    }

    /// Nothing that is found is wanted any more.
    pub fn end(&mut self) {
        self.running.clear();
    }
}

fn start_one(
    setup: &EnumeratorSetup<'_>,
    spec: &AttemptSpec,
    task: &Task,
    factory: &EnumeratorFactory,
) -> Result<Running> {
    let source = &task.chain[0];
    let (calls, received) = mpsc::channel();
    let (waker, woken) = waker(calls.clone());
    let context =
        EnumeratorContext::new(&source.name, source.id, task.parallelism, setup.counters.clone(), waker);
    let running = Running { calls, over: context.over.clone() };
    let (name, over) = (source.name.clone(), context.over.clone());
    let (spec, operator) = (spec.clone(), source.id);
    let (stores, factory, clock) = (setup.stores.clone(), factory.clone(), setup.clock.clone());
    let (messages, generation) = (setup.messages.clone(), spec.generation);
    let failed = move |messages: &mpsc::Sender<Message>, error: Error| {
        if !over.load(Ordering::Relaxed) {
            let error = error.context(format!("finding the splits of source `{name}`"));
            // the job has ended if nobody listens
            let _ = messages.send(Message::Event(JobEvent::EnumeratorFailed(generation, error)));
        }
    };
    let last_word = (failed.clone(), messages.clone());
    let run = move || {
        let ran = catch_on_thread(|| {
            let mut enumerator = factory.make(&context)?;
            enumerator.open(restored(&spec, operator, &*stores)?)?;
            let worker = Worker { operator, generation, enumerator, clock, messages: messages.clone() };
            worker.run(&received, &context, &woken)
        });
        if let Err(error) = ran {
            failed(&messages, error);
        }
    };
    spawn(format!("splits-of-{}", source.name), run, move |error| (last_word.0)(&last_word.1, error))?;
    Ok(running)
}

/// What the attempt has of the source's state.
fn restored(
    spec: &AttemptSpec,
    operator: OperatorId,
    stores: &dyn SnapshotStores,
) -> Result<Option<RestoredSplits>> {
    let Some(restored) = &spec.restored else { return Ok(None) };
    let subtasks = restored.operators.get(&operator);
    Ok(Some(RestoredSplits {
        state: restored.enumerators.get(&operator).cloned(),
        // each subtask is told what all of them had
        readers: subtasks.and_then(|all| all.get(&SubtaskIndex(0)).cloned()).unwrap_or_default(),
        store: stores.reader(restored.location.as_deref())?,
    }))
}

/// A waker, and the mark that it has woken: ten wishes before the enumerator is called are one.
fn waker(calls: mpsc::Sender<Call>) -> (EnumeratorWaker, Arc<AtomicBool>) {
    let woken = Arc::new(AtomicBool::new(false));
    let mark = woken.clone();
    let waker = EnumeratorWaker::new(move || {
        if !mark.swap(true, Ordering::SeqCst) {
            let _ = calls.send(Call::Discover);
        }
    });
    (waker, woken)
}

/// An enumerator on its thread.
struct Worker {
    operator: OperatorId,
    generation: Generation,
    enumerator: Box<dyn Enumerate>,
    clock: Arc<dyn Clock>,
    messages: mpsc::Sender<Message>,
}

impl Worker {
    fn run(
        mut self,
        calls: &mpsc::Receiver<Call>,
        context: &EnumeratorContext,
        woken: &AtomicBool,
    ) -> Result<()> {
        let mut said: Option<Vec<u8>> = None;
        let mut next = Some(self.clock.elapsed());
        loop {
            let call = match next {
                None => calls.recv().unwrap_or(Call::End),
                Some(at) => match calls.recv_timeout(at.saturating_sub(self.clock.elapsed())) {
                    Ok(call) => call,
                    Err(mpsc::RecvTimeoutError::Timeout) => Call::Discover,
                    Err(mpsc::RecvTimeoutError::Disconnected) => Call::End,
                },
            };
            let (found, answers) = match call {
                Call::End => return Ok(()),
                Call::Discover => {
                    woken.store(false, Ordering::SeqCst);
                    let found = self.enumerator.discover()?;
                    next = found.again.map(|pause| self.clock.elapsed() + pause.max(SHORTEST_PAUSE));
                    (found, None)
                }
                Call::Requested(reader) => (self.enumerator.requested(reader)?, Some(reader)),
            };
            if context.is_over() {
                return Ok(());
            }
            let Found { splits, no_more, state, .. } = found;
            // the first answer is told in any case: readers wait for it
            let is_news = !splits.is_empty() || no_more || answers.is_some();
            if is_news || said.as_ref() != Some(&state) {
                let splits = splits.into();
                let assignment = Assignment { operator: self.operator, splits, answers, no_more };
                self.tell(Enumerated { state: state.as_slice().into(), assignment })?;
            }
            if no_more {
                return Ok(());
            }
            said = Some(state);
        }
    }

    fn tell(&self, enumerated: Enumerated) -> Result<()> {
        let event = JobEvent::Enumerated(self.generation, enumerated);
        let gone = |_| Error::new(ErrorKind::Cancelled, "the JobManager is gone");
        self.messages.send(Message::Event(event)).map_err(gone)
    }
}

/// An enumerator that wants to be called again at once is called so often: its thread is not to take a core.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
