//! [`CommitThread`]: commits one transaction after another, off the worker, until each has succeeded.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use stillstream_types::{CheckpointId, Error, ErrorKind, Result, ResultExt};

use super::commit_gate::Pass;
use super::sink::{CommitPolicy, Committer, NO_CHECKPOINT, SinkContext};
use super::transactions::Transaction;
use crate::catch::catch;
use crate::clock::Clock;
use crate::waker::Waker;

/// What the thread is to do, in order.
enum Work<C> {
    Commit(Transaction<C>),
    /// Nothing of its own: to wait until calls of earlier attempts have returned.
    AwaitEarlierAttempts,
}

struct State<C> {
    work: VecDeque<Work<C>>,
    /// How much was done since the operator last asked.
    done: usize,
    /// What is being done, and since when.
    under_way: Option<(String, Duration)>,
    failed: Option<Error>,
    /// The operator is gone.
    stopped: bool,
    /// The thread is gone.
    ended: bool,
}

impl<C> Default for State<C> {
    fn default() -> Self {
        Self { work: VecDeque::new(), done: 0, under_way: None, failed: None, stopped: false, ended: false }
    }
}

struct Shared<C> {
    state: Mutex<State<C>>,
    changed: Condvar,
}

/// A thread that calls a sink's [`Committer`], one for each subtask that has something to commit.
///
/// A commit that fails is tried again after a pause that grows; those behind it wait, so that transactions
/// are committed in the order of their checkpoints. The operator is woken when one has succeeded, or has
/// failed for good.
pub(crate) struct CommitThread<C> {
    shared: Arc<Shared<C>>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
}

impl<C> fmt::Debug for CommitThread<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitThread")
    }
}

impl<C: Send + 'static> CommitThread<C> {
    /// Starts the thread of one subtask.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        context: &SinkContext,
        policy: CommitPolicy,
        pass: Pass,
        committer: Box<dyn Committer<C>>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::new(State::default()), changed: Condvar::new() });
        let name = format!("commit-{}-{}", context.name, context.subtask);
        let thread = Loop {
            shared: shared.clone(),
            sink: context.name.clone(),
            spread: u64::from(context.subtask.0),
            policy,
            pass,
            committer,
            clock: context.clock.clone(),
            waker: context.waker.clone(),
        };
        let end = AtEnd(shared.clone());
        let run = move || {
            let _end = end;
            thread.run();
        };
        std::thread::Builder::new()
            .name(name.clone())
            .spawn(run)
            .context(|| format!("starting the thread `{name}`"))
            .kind(ErrorKind::Connector)?;
        Ok(Self { shared, clock: context.clock.clone(), timeout: policy.timeout })
    }

    fn add(&self, work: impl IntoIterator<Item = Work<C>>) {
        self.shared.state.lock().work.extend(work);
        self.shared.changed.notify_all();
    }

    /// Commits these after everything that was given before.
    pub fn commit(&self, transactions: Vec<Transaction<C>>) {
        self.add(transactions.into_iter().map(Work::Commit));
    }

    /// Waits until calls of earlier attempts have returned; counts as one thing done.
    pub fn await_earlier_attempts(&self) {
        self.add([Work::AwaitEarlierAttempts]);
    }

    /// How much of what was given was done since the last call.
    ///
    /// # Errors
    /// If a commit has failed for good, or does not return.
    pub fn take_done(&self) -> Result<usize> {
        let mut state = self.shared.state.lock();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        if let Some((what, since)) = &state.under_way {
            let passed = self.clock.elapsed().saturating_sub(*since);
            // the thread itself gives up between two tries; this is about a call that does not come back
            if passed > self.timeout + self.timeout / 4 {
                let message = format!(
                    "{what} has not returned for {} s ({TIMEOUT_KEY}: {} s); see what the sink's target does",
                    passed.as_secs(),
                    self.timeout.as_secs()
                );
                return Err(Error::new(ErrorKind::Timeout, message));
            }
        }
        Ok(std::mem::take(&mut state.done))
    }
}

impl<C> Drop for CommitThread<C> {
    /// The thread ends after the call that is under way, so as a rule nothing is written after the job's end.
    /// A call that takes longer holds up nobody but the next attempt: see
    /// [`CommitGate`](super::commit_gate::CommitGate).
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.stopped = true;
        self.shared.changed.notify_all();
        self.shared.changed.wait_while_for(&mut state, |state| !state.ended, LAST_CALL);
    }
}

/// Says that the thread has ended, however it did.
struct AtEnd<C>(Arc<Shared<C>>);

impl<C> Drop for AtEnd<C> {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.changed.notify_all();
    }
}

/// How long the end of an attempt waits for a call that is under way.
const LAST_CALL: Duration = Duration::from_secs(1);

const TIMEOUT_KEY: &str = "stillstream.sink.commit-timeout";

struct Loop<C> {
    shared: Arc<Shared<C>>,
    sink: Arc<str>,
    /// Makes the pauses of subtasks differ, so that they do not all come back to a target at once.
    spread: u64,
    policy: CommitPolicy,
    pass: Pass,
    committer: Box<dyn Committer<C>>,
    clock: Arc<dyn Clock>,
    waker: Waker,
}

fn what(checkpoint: CheckpointId) -> String {
    match checkpoint {
        NO_CHECKPOINT => "committing what was written".into(),
        checkpoint => format!("committing what was written for checkpoint {checkpoint}"),
    }
}

impl<C: Send + 'static> Loop<C> {
    fn run(mut self) {
        while let Some(work) = self.next() {
            // `None`: the attempt is over
            let Some(done) = self.carry_out(work) else { return };
            let failed = done.is_err();
            let mut state = self.shared.state.lock();
            state.under_way = None;
            match done {
                Ok(()) => state.done += 1,
                Err(error) => state.failed = Some(error),
            }
            drop(state);
            self.waker.wake();
            if failed {
                return;
            }
        }
    }

    fn next(&self) -> Option<Work<C>> {
        let mut state = self.shared.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(work) = state.work.pop_front() {
                let what = match &work {
                    Work::Commit(transaction) => what(transaction.checkpoint),
                    Work::AwaitEarlierAttempts => "a commit of an earlier attempt".into(),
                };
                state.under_way = Some((what, self.clock.elapsed()));
                return Some(work);
            }
            self.shared.changed.wait(&mut state);
        }
    }

    fn is_wanted(&self) -> bool {
        !self.shared.state.lock().stopped
    }

    /// Waits; `false` if the attempt ended meanwhile.
    fn pause(&self, pause: Duration) -> bool {
        let mut state = self.shared.state.lock();
        self.shared.changed.wait_while_for(&mut state, |state| !state.stopped, pause);
        !state.stopped
    }

    fn carry_out(&mut self, work: Work<C>) -> Option<Result<()>> {
        let Work::Commit(transaction) = work else {
            return self.pass.enter(|| self.is_wanted()).map(|_| Ok(()));
        };
        let (begun, mut tries) = (self.clock.elapsed(), 0);
        loop {
            let call = self.pass.enter(|| self.is_wanted())?;
            let result = catch("its commit", || {
                // without checkpoints nobody has done this yet
                transaction.durability.ensure()?;
                self.committer.commit(&transaction.committable)
            });
            drop(call);
            let Err(error) = result else { return Some(Ok(())) };
            tries += 1;
            let passed = self.clock.elapsed().saturating_sub(begun);
            let hopeless = error.kind() == ErrorKind::Panic || error.is_fatal();
            if hopeless || tries > self.policy.retries || passed >= self.policy.timeout {
                let times = if tries == 1 { "once".into() } else { format!("{tries} times") };
                return Some(Err(error.context(format!(
                    "{} failed {times} within {:.1} s (sink.committer.retries: {}, {TIMEOUT_KEY}: {} s)",
                    what(transaction.checkpoint),
                    passed.as_secs_f64(),
                    self.policy.retries,
                    self.policy.timeout.as_secs()
                ))));
            }
            let pause = self.policy.pause(tries, self.spread ^ transaction.checkpoint.0);
            let pause = pause.min(self.policy.timeout.saturating_sub(passed));
            tracing::warn!(
                sink = %self.sink,
                "{} failed (try {tries} of {}); the next try is in {:.1} s: {error}",
                what(transaction.checkpoint),
                self.policy.retries.saturating_add(1),
                pause.as_secs_f64()
            );
            if !self.pause(pause) {
                return None;
            }
        }
    }
}
