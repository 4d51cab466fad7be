//! Operations: what takes longer than a request may. Each has an id, runs on a thread of its own, and its
//! outcome is kept for a while after its end (`rest.async.store-duration`).

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use stillstream_runtime::clock::Clock;
use stillstream_runtime::job::EndHold;
use stillstream_types::{Error, ErrorKind, JobId, OperatorId, Result};

use crate::reply::Refusal;

/// So many operations may be under way: each has a thread.
const UNDER_WAY: usize = 64;
/// So many are known, with those that have ended.
const KNOWN: usize = 2_000;
/// So long the end of a job waits for somebody to ask for the outcome of an operation on it.
const ASKED_WITHIN: Duration = Duration::from_secs(10);

/// What operations are asked about together, as in Flink: a stop is asked about where savepoints are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Group {
    Checkpoints,
    Savepoints,
    Disposals,
}

/// The id of an operation: 32 hexadecimal digits. Whoever asks may choose it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TriggerId([u8; 16]);

impl TriggerId {
    pub fn random() -> Self {
        let word = || RandomState::new().build_hasher().finish().to_be_bytes();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&word());
        bytes[8..].copy_from_slice(&word());
        Self(bytes)
    }
}

impl fmt::Display for TriggerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // another id with the same form
        OperatorId(self.0).fmt(f)
    }
}

impl FromStr for TriggerId {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        text.parse::<OperatorId>().map(|id| Self(id.0))
    }
}

/// Which operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub group: Group,
    /// `None` for a disposal, which belongs to no job.
    pub job: Option<JobId>,
    pub trigger: TriggerId,
}

/// What has become of an operation.
pub(crate) type Outcome = std::result::Result<Value, Arc<Error>>;

/// Where an operation stands.
#[derive(Clone, Debug)]
pub(crate) enum State {
    InProgress,
    /// What its answer has under `operation`, or why it failed.
    Completed(Outcome),
}

#[derive(Debug)]
struct Entry {
    /// What was asked for: the same id with another wish is a mistake.
    wish: String,
    state: State,
    ended: Option<Duration>,
    /// The job must not end the process before the outcome was asked for.
    hold: Option<Arc<EndHold>>,
}

/// The operations of a process.
#[derive(Debug)]
pub(crate) struct Operations(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn Clock>,
    keep: Duration,
    entries: Mutex<HashMap<Key, Entry>>,
    looked: Condvar,
}

impl Operations {
    pub fn new(clock: Arc<dyn Clock>, keep: Duration) -> Self {
        Self(Arc::new(Inner { clock, keep, entries: Mutex::default(), looked: Condvar::new() }))
    }

    /// Begins an operation, unless one with this id has begun: then it is the same.
    ///
    /// # Errors
    /// If the one with this id was to do something else, or too many are under way.
    pub fn begin(
        &self,
        key: Key,
        wish: String,
        hold: Option<EndHold>,
        run: impl FnOnce() -> Result<Value> + Send + 'static,
    ) -> std::result::Result<(), Refusal> {
        let mut entries = self.0.entries.lock();
        self.0.forget_old(&mut entries);
        if let Some(same) = entries.get(&key) {
            if same.wish == wish {
                return Ok(());
            }
            let message =
                format!("the operation {} is another one: {}, and not {wish}", key.trigger, same.wish);
            return Err(Refusal::new(StatusCode::CONFLICT, message));
        }
        let under_way = entries.values().filter(|entry| entry.ended.is_none()).count();
        if under_way >= UNDER_WAY || entries.len() >= KNOWN {
            let message = format!(
                "{under_way} operations are under way, and {} have ended of late: ask again in a while",
                entries.len() - under_way
            );
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message));
        }
        let inner = self.0.clone();
        let work = move || {
            let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
                Err(Error::new(
                    ErrorKind::Panic,
                    "the operation panicked; the log of the job's process says where",
                ))
            });
            inner.end(key, outcome);
        };
        let started = thread::Builder::new().name("rest-operation".into()).spawn(work);
        if let Err(error) = started {
            let message = format!("no thread could be started for the operation: {error}");
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message));
        }
        let hold = hold.map(Arc::new);
        entries.insert(key, Entry { wish, state: State::InProgress, ended: None, hold });
        Ok(())
    }

    /// Where an operation stands. With its outcome comes what holds the end of its job, which is to be kept
    /// until the outcome is sent.
    ///
    /// # Errors
    /// If there is none with this id, or its outcome has been forgotten.
    pub fn look(&self, key: &Key) -> std::result::Result<(State, Option<Arc<EndHold>>), Refusal> {
        let mut entries = self.0.entries.lock();
        self.0.forget_old(&mut entries);
        let Some(entry) = entries.get_mut(key) else {
            let seconds = self.0.keep.as_secs();
            return Err(Refusal::missing(format!(
                "there is no operation {} here: it was never asked for, or ended more than {seconds} s ago \
                 (rest.async.store-duration)",
                key.trigger
            )));
        };
        let hold = match entry.state {
            State::InProgress => None,
            State::Completed(_) => entry.hold.take(),
        };
        if hold.is_some() {
            self.0.looked.notify_all();
        }
        Ok((entry.state.clone(), hold))
    }
}

impl Inner {
    fn forget_old(&self, entries: &mut HashMap<Key, Entry>) {
        let now = self.clock.elapsed();
        entries.retain(|_, entry| entry.ended.is_none_or(|ended| now.saturating_sub(ended) < self.keep));
    }

    fn end(&self, key: Key, outcome: Result<Value>) {
        // it waits here until the entry is there, however fast it was
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get_mut(&key) {
            entry.state = State::Completed(outcome.map_err(Arc::new));
            entry.ended = Some(self.clock.elapsed());
        }
        // nobody may ask, and the job's end must not wait for that
        let held =
            |entries: &mut HashMap<Key, Entry>| entries.get(&key).is_some_and(|entry| entry.hold.is_some());
        self.looked.wait_while_for(&mut entries, held, ASKED_WITHIN);
        if let Some(entry) = entries.get_mut(&key) {
            entry.hold = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use serde_json::json;
    use stillstream_runtime::clock::ManualClock;

    use super::*;

    fn key(trigger: TriggerId) -> Key {
        Key { group: Group::Savepoints, job: Some(JobId([1; 16])), trigger }
    }

    fn operations() -> (Operations, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        (Operations::new(clock.clone(), Duration::from_secs(300)), clock)
    }

    fn outcome(operations: &Operations, key: &Key) -> Outcome {
        loop {
            match operations.look(key).unwrap().0 {
                State::Completed(outcome) => return outcome,
                State::InProgress => thread::yield_now(),
            }
        }
    }

    #[test]
    fn the_same_id_is_the_same_operation_and_runs_once() {
        let (operations, _) = operations();
        let (runs, key) = (Arc::new(AtomicUsize::new(0)), key(TriggerId::random()));
        for _ in 0..3 {
            let runs = runs.clone();
            let run = move || Ok(json!(runs.fetch_add(1, Ordering::SeqCst)));
            operations.begin(key, "a savepoint".into(), None, run).unwrap();
        }
        assert_eq!(outcome(&operations, &key).unwrap(), json!(0));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        let other = operations.begin(key, "a stop".into(), None, || Ok(Value::Null)).unwrap_err();
        assert_eq!(other.status, StatusCode::CONFLICT);
        assert!(other.message.contains("a savepoint, and not a stop"), "{}", other.message);
    }

    #[test]
    fn an_outcome_is_forgotten_after_its_time_and_an_operation_under_way_never() {
        let (operations, clock) = operations();
        let (done, lasting) = (key(TriggerId::random()), key(TriggerId::random()));
        let (end, ended) = mpsc::channel::<()>();
        operations.begin(done, "one".into(), None, || Ok(json!({}))).unwrap();
        let wait =
            move || ended.recv().map(|()| json!(1)).map_err(|error| Error::wrap(ErrorKind::Peer, error));
        operations.begin(lasting, "another".into(), None, wait).unwrap();
        outcome(&operations, &done).unwrap();
        clock.advance(Duration::from_secs(299));
        assert!(operations.look(&done).is_ok());
        clock.advance(Duration::from_secs(1));
        let gone = operations.look(&done).unwrap_err();
        assert_eq!(gone.status, StatusCode::NOT_FOUND);
        assert!(gone.message.contains("300 s ago (rest.async.store-duration)"), "{}", gone.message);
        assert!(matches!(operations.look(&lasting).unwrap().0, State::InProgress));
        end.send(()).unwrap();
        assert_eq!(outcome(&operations, &lasting).unwrap(), json!(1));
    }

    #[test]
    fn too_many_operations_are_refused_and_a_panic_is_an_outcome() {
        let (operations, _) = operations();
        let broken = key(TriggerId::random());
        operations.begin(broken, "broken".into(), None, || panic!("no")).unwrap();
        assert_eq!(outcome(&operations, &broken).unwrap_err().kind(), ErrorKind::Panic);
        let mut ends = Vec::new();
        for _ in 0..UNDER_WAY {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            // it ends when the test does
            let wait = move || Ok(json!(ended.recv().is_ok()));
            operations.begin(key(TriggerId::random()), "wait".into(), None, wait).unwrap();
        }
        let refused = operations.begin(key(TriggerId::random()), "wait".into(), None, || Ok(Value::Null));
        assert_eq!(refused.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = TriggerId::random();
        assert_eq!(id.to_string().parse::<TriggerId>(), Ok(id));
        assert!("x".parse::<TriggerId>().is_err());
    }
}
