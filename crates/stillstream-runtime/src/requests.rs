//! [`Requests`]: futures that an operator waits for without blocking its worker.
//!
//! They run on one Tokio runtime for the whole process, which is started when the first operator needs it.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use stillstream_types::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

use crate::panics::catch;
use crate::waker::Waker;

/// Threads of the process's runtime: requests wait far more than they work.
const THREADS: usize = 2;

/// The process's runtime for requests.
///
/// # Errors
/// If the system gives it no threads. The next call tries again.
fn runtime() -> Result<Handle> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime.handle().clone());
    }
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime.handle().clone());
    }
    let mut builder = Builder::new_multi_thread();
    let started = builder.worker_threads(THREADS).thread_name("async-io").enable_all().build();
    let started = started.map_err(|error| {
        Error::new(
            ErrorKind::Connector,
            format!("the threads for asynchronous requests cannot be started: {error}"),
        )
    })?;
    Ok(RUNTIME.get_or_init(|| started).handle().clone())
}

/// Calls `f` within the process's runtime, for clients that are made within one.
///
/// # Errors
/// If the runtime cannot be started.
pub fn within<R>(f: impl FnOnce() -> R) -> Result<R> {
    let runtime = runtime()?;
    let _entered = runtime.enter();
    Ok(f())
}

/// How often a request that failed is made again, and after which time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryDelays {
    /// How often at most, the first time not counted.
    pub retries: u32,
    /// Before the first time that it is made again.
    pub first: Duration,
    /// The delay doubles up to this.
    pub longest: Duration,
}

impl RetryDelays {
    /// Never again.
    pub const NONE: Self = Self { retries: 0, first: Duration::ZERO, longest: Duration::ZERO };

    /// How long to wait after so many failures; `None`: it has failed for good.
    fn after(&self, failures: u32) -> Option<Duration> {
        let doubled = self.first.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)));
        (failures <= self.retries).then(|| doubled.min(self.longest))
    }
}

/// The future of one try.
pub type Attempt<R> = Pin<Box<dyn Future<Output = Result<R>> + Send>>;

/// How a request has ended.
#[derive(Debug)]
pub enum Outcome<R> {
    /// It has an answer, or has failed as often as it may.
    Done(Result<R>),
    /// There was no answer in the time that it had, all tries together.
    TimedOut,
}

/// Whether a request that failed with this error is worth another try.
pub type Retryable = Arc<dyn Fn(&Error) -> bool + Send + Sync>;

/// Tries until there is an answer.
async fn answer<R>(
    make: impl Fn() -> Attempt<R> + Send + Sync,
    delays: RetryDelays,
    retryable: Option<Retryable>,
) -> Result<R> {
    let mut failures = 0;
    loop {
        // the call itself may panic too, and so may every poll
        let error = match catch("the asynchronous function", || Ok(make())) {
            Ok(attempt) => match caught(attempt).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            },
            Err(error) => error,
        };
        failures += 1;
        let again = error.kind() != ErrorKind::Panic && retryable.as_ref().is_none_or(|is| is(&error));
        match delays.after(failures).filter(|_| again) {
            Some(delay) => tokio::time::sleep(delay).await,
            None if failures > 1 => return Err(error.context(format!("after {failures} tries"))),
            None => return Err(error),
        }
    }
}

/// A future whose panic is an error.
async fn caught<R>(mut attempt: Attempt<R>) -> Result<R> {
    poll_fn(|context| match catch("the asynchronous function", || Ok(attempt.as_mut().poll(context))) {
        Ok(poll) => poll,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

type Done<R> = Arc<Mutex<Vec<(u64, Outcome<R>)>>>;

/// The requests that one operator instance has under way, by numbers that it gives them. Dropped, it gives
/// all of them up.
pub struct Requests<R> {
    /// Once there was a request.
    runtime: Option<Handle>,
    waker: Waker,
    done: Done<R>,
    under_way: HashMap<u64, AbortHandle>,
    /// In all, tries included.
    pub timeout: Option<Duration>,
    /// How often and when a request is made again.
    pub delays: RetryDelays,
    /// Which failures are worth it; all of them, if there is none.
    pub retryable: Option<Retryable>,
}

impl<R> fmt::Debug for Requests<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Requests({} under way)", self.under_way.len())
    }
}

impl<R: Send + 'static> Requests<R> {
    /// None so far; `waker` schedules the operator whenever one has ended.
    pub fn new(waker: Waker) -> Self {
        Self {
            runtime: None,
            waker,
            done: Arc::default(),
            under_way: HashMap::new(),
            timeout: None,
            delays: RetryDelays::NONE,
            retryable: None,
        }
    }

    /// Begins a request; `make` makes the future of each try.
    ///
    /// # Errors
    /// If the process's runtime cannot be started.
    pub fn start(
        &mut self,
        number: u64,
        make: impl Fn() -> Attempt<R> + Send + Sync + 'static,
    ) -> Result<()> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => runtime()?,
        };
        let (timeout, delays, retryable) = (self.timeout, self.delays, self.retryable.clone());
        let (done, waker) = (self.done.clone(), self.waker.clone());
        let task = runtime.spawn(async move {
            let answer = pin!(answer(make, delays, retryable));
            let outcome = match timeout {
                None => Outcome::Done(answer.await),
                Some(timeout) => match tokio::time::timeout(timeout, answer).await {
                    Ok(answer) => Outcome::Done(answer),
                    Err(_) => Outcome::TimedOut,
                },
            };
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, outcome));
            waker.wake();
        });
        self.under_way.insert(number, task.abort_handle());
        self.runtime = Some(runtime);
        Ok(())
    }

    /// Takes those that have ended, in the order in which they have.
    pub fn take_done(&mut self) -> Vec<(u64, Outcome<R>)> {
        let done = std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner));
        for (number, _) in &done {
            self.under_way.remove(number);
        }
        done
    }
}

impl<R> Drop for Requests<R> {
    fn drop(&mut self) {
        self.under_way.values().for_each(AbortHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_end_with_the_retries() {
        let ms = Duration::from_millis;
        let delays = RetryDelays { retries: 4, first: ms(10), longest: ms(35) };
        let all: Vec<_> = (1..=5).map(|failures| delays.after(failures)).collect();
        assert_eq!(all, [Some(ms(10)), Some(ms(20)), Some(ms(35)), Some(ms(35)), None]);
        assert_eq!(RetryDelays::NONE.after(1), None);
    }
}
