//! Runs a [`Sink`] as an operator of the runtime.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_state::Data;
use stillstream_types::{CheckpointId, Error, ErrorKind, RedistributionMode, Result, SnapshotForm};

use super::commit_gate::CommitGate;
use super::commit_thread::CommitThread;
use super::list_state::StoredList;
use super::sink::{CommitPolicy, Committer, NO_CHECKPOINT, Sink, SinkContext, SinkWriter};
use super::transactions::Transactions;
use crate::operator::batch::AnyBatch;
use crate::operator::{AsyncSnapshot, OpenContext, Operator, Output};
use crate::plan::NodeBody;

/// The list state that holds what is prepared and not yet committed, each with its checkpoint.
const COMMITTABLES: &str = "committables";

/// The node body for a sink.
pub fn sink_body<T: Data, S: Sink<T>>(sink: Arc<S>, policy: CommitPolicy) -> NodeBody {
    let make = SinkOperator::<T, S>::factory(sink, move || policy);
    NodeBody::Operator(Arc::new(move || Ok(Box::new(make()))))
}

/// One subtask of a sink.
///
/// Pending transactions are list state, so a restore deals all of them out whatever the parallelism. Each
/// notice commits everything up to the announced checkpoint, as notices can be lost; each restore commits all
/// that it finds, and the sink takes no records before that is done.
///
/// Commits run in a thread of their own, which is started for the first of them.
pub struct SinkOperator<T: Data, S: Sink<T>> {
    sink: Arc<S>,
    policy: CommitPolicy,
    gate: Arc<CommitGate>,
    open: Option<Open<T, S>>,
    /// It was opened to see which state it has; a sink without transactions keeps none.
    dry: Option<Option<StoredTransactions<T, S>>>,
    items: PhantomData<fn(T)>,
}

/// Pending transactions as list state, each with its checkpoint.
type StoredTransactions<T, S> = StoredList<(u64, <S as Sink<T>>::Committable)>;

struct Open<T: Data, S: Sink<T>> {
    context: SinkContext,
    writer: Box<dyn SinkWriter<T, S::Committable>>,
    /// Until its thread is started.
    committer: Option<Box<dyn Committer<S::Committable>>>,
    thread: Option<CommitThread<S::Committable>>,
    policy: CommitPolicy,
    pass: super::commit_gate::Pass,
    transactions: Transactions<S::Committable>,
    stored: StoredList<(u64, S::Committable)>,
    phase: Phase,
    /// Whether the writer was given records since it last closed a transaction.
    written: bool,
    /// The last snapshot is a savepoint's.
    left_savepoint: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// What was restored is being committed, or a commit of an earlier attempt is under way. `ending`: the
    /// input is through, and all that is left is to commit.
    Recovering {
        wait: usize,
        ending: bool,
    },
    Recovered,
}

impl<T: Data, S: Sink<T>> fmt::Debug for SinkOperator<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SinkOperator({} pending)", self.open.as_ref().map_or(0, |open| open.transactions.len()))
    }
}

fn not_open() -> Error {
    Error::new(ErrorKind::Plan, "a sink was used before it was opened")
}

impl<T: Data, S: Sink<T>> SinkOperator<T, S> {
    /// One subtask of `sink`, alone.
    pub fn new(sink: Arc<S>, policy: CommitPolicy) -> Self {
        Self { sink, policy, gate: Arc::default(), open: None, dry: None, items: PhantomData }
    }

    /// Makes the subtasks of `sink` in this process, for one attempt after another. The policy is asked for
    /// when one is made.
    pub fn factory(
        sink: Arc<S>,
        policy: impl Fn() -> CommitPolicy + Send + Sync + 'static,
    ) -> impl Fn() -> Self + Send + Sync + 'static {
        let gate: Arc<CommitGate> = Arc::default();
        move || Self { gate: gate.clone(), ..Self::new(sink.clone(), policy()) }
    }

    fn opened(&mut self) -> Result<&mut Open<T, S>> {
        self.open.as_mut().ok_or_else(not_open)
    }
}

impl<T: Data, S: Sink<T>> Open<T, S> {
    fn thread(&mut self) -> Result<&CommitThread<S::Committable>> {
        if let Some(committer) = self.committer.take() {
            let thread = CommitThread::start(&self.context, self.policy, self.pass.clone(), committer)?;
            self.thread = Some(thread);
        }
        self.thread.as_ref().ok_or_else(not_open)
    }

    /// Has everything up to checkpoint `id` committed.
    fn commit_up_to(&mut self, id: CheckpointId) -> Result<usize> {
        let begun = self.transactions.begin_up_to(id);
        let count = begun.len();
        if count > 0 {
            self.thread()?.commit(begun);
        }
        Ok(count)
    }

    /// Closes the current transaction; says whether there was anything in it.
    fn prepare(&mut self, id: CheckpointId) -> Result<bool> {
        if self.phase != Phase::Recovered {
            return Ok(false); // nothing was written yet
        }
        let prepared = self.writer.prepare(id)?;
        self.written = false;
        Ok(prepared.map(|prepared| self.transactions.add(id, prepared)).is_some())
    }

    /// Takes note of what was committed, and goes on with what waited for it. Says whether records can be
    /// written.
    fn settle(&mut self) -> Result<bool> {
        let mut done = match &self.thread {
            Some(thread) => thread.take_done()?,
            None => 0,
        };
        if let Phase::Recovering { wait, ending } = &mut self.phase {
            let earlier = (*wait).min(done);
            // the first thing that the thread does, if it had to be asked
            *wait -= earlier;
            done -= earlier;
            let (wait, ending) = (*wait, *ending);
            self.transactions.confirm(done);
            if wait > 0 || self.transactions.oldest_under_way().is_some() {
                return Ok(false);
            }
            self.writer.recovered(self.context.restored_checkpoint)?;
            self.phase = Phase::Recovered;
            if ending {
                self.end()?;
            }
            return Ok(true);
        }
        self.transactions.confirm(done);
        Ok(true)
    }

    /// The input is through: commits what is there if there are no checkpoints.
    fn end(&mut self) -> Result<()> {
        if !self.context.checkpointing {
            self.prepare(NO_CHECKPOINT)?;
            return self.commit_up_to(NO_CHECKPOINT).map(drop);
        }
        let late = match self.written {
            true => self.prepare(NO_CHECKPOINT)?,
            false => {
                // flushes; a writer that closes a transaction with nothing in it has lost nothing
                self.writer.prepare(NO_CHECKPOINT)?;
                false
            }
        };
        if self.transactions.is_empty() {
            // a job that goes on from the savepoint needs what tells of the commits that it holds
            return if self.left_savepoint { Ok(()) } else { self.writer.finished() };
        }
        let what =
            if late { "records that no checkpoint holds" } else { "transactions that were never announced" };
        Err(Error::new(
            ErrorKind::Checkpoint,
            format!(
                "the sink ends with {} ({} uncommitted): the job's last checkpoint did not cover everything, start it \
                 again from that checkpoint",
                what,
                self.transactions.len()
            ),
        ))
    }
}

impl<T: Data, S: Sink<T>> Operator for SinkOperator<T, S> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        if context.dry {
            let has_transactions = std::any::TypeId::of::<S::Committable>() != std::any::TypeId::of::<()>();
            let open = || StoredList::open(context, COMMITTABLES, RedistributionMode::Split);
            self.dry = Some(has_transactions.then(open).transpose()?.map(|(stored, _)| stored));
            return Ok(());
        }
        let pass = self.gate.open(context.generation);
        let own = SinkContext::of(context);
        let (stored, restored) = StoredList::open(context, COMMITTABLES, RedistributionMode::Split)?;
        let mut items = restored.map_or_else(Vec::new, |restored| restored.items);
        items.sort_by_key(|(checkpoint, _)| *checkpoint);
        let committer = self.sink.committer(&own)?;
        let writer = self.sink.writer(&own)?;
        let mut open = Open {
            context: own,
            writer,
            committer: Some(committer),
            thread: None,
            policy: self.policy,
            pass,
            transactions: Transactions::default(),
            stored,
            phase: Phase::Recovered,
            written: false,
            left_savepoint: false,
        };
        for (checkpoint, committable) in items {
            open.transactions.add(CheckpointId(checkpoint), super::Prepared::done(committable));
        }
        let wait = usize::from(open.pass.has_to_wait());
        if wait > 0 {
            open.thread()?.await_earlier_attempts();
        }
        open.commit_up_to(NO_CHECKPOINT)?;
        open.phase = Phase::Recovering { wait, ending: false };
        open.settle()?;
        self.open = Some(open);
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, _: &mut Output) -> Result<()> {
        let open = self.opened()?;
        if open.phase != Phase::Recovered && !open.settle()? {
            let message = "a sink was written to before it was ready: it still commits what was restored";
            return Err(Error::new(ErrorKind::Plan, message));
        }
        open.written = true;
        open.writer.write(batch.take()?)
    }

    fn ready(&mut self, _: &mut Output) -> Result<bool> {
        let open = self.opened()?;
        if open.phase != Phase::Recovered && !open.settle()? {
            return Ok(false);
        }
        open.writer.ready()
    }

    fn snapshot(&mut self, id: CheckpointId, form: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        if let Some(stored) = &self.dry {
            let Some(stored) = stored else { return Ok(None) };
            return Ok(Some(Box::new(stored.snapshot(Vec::new())?)));
        }
        let open = self.opened()?;
        open.left_savepoint = matches!(form, SnapshotForm::Savepoint(_));
        open.settle()?;
        open.prepare(id)?;
        if open.transactions.is_empty() {
            return Ok(None);
        }
        let durabilities = open.transactions.durabilities();
        let list = open.stored.snapshot(open.transactions.items())?;
        Ok(Some(Box::new(move |store| {
            durabilities.iter().try_for_each(|durability| durability.ensure())?;
            list(store)
        })))
    }

    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        self.opened()?.commit_up_to(id).map(drop)
    }

    fn commits_under_way(&mut self) -> Result<Option<CheckpointId>> {
        let open = self.opened()?;
        let recovered = open.settle()?;
        Ok(open.transactions.oldest_under_way().or((!recovered).then_some(CheckpointId(0))))
    }

    fn finish(&mut self) -> Result<()> {
        let open = self.opened()?;
        if let Phase::Recovering { ending, .. } = &mut open.phase {
            *ending = true;
            return open.settle().map(drop);
        }
        open.end()
    }
}
