//! [`Opening`]: something that is got from the cluster in the background, while the worker goes on.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_runtime::waker::Waker;
use tokio::task::JoinHandle;

use crate::KafkaError;
use crate::client::spawn;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(250);

enum State<T> {
    Waiting,
    There(T),
    Failed(KafkaError),
}

/// Something that is on its way.
pub(super) struct Opening<T> {
    state: Arc<Mutex<Option<State<T>>>>,
    task: JoinHandle<()>,
}

impl<T> fmt::Debug for Opening<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self.state.lock() {
            Some(State::Waiting) => "Opening(waiting)",
            Some(State::There(_)) => "Opening(there)",
            Some(State::Failed(_)) => "Opening(failed)",
            None => "Opening(taken)",
        })
    }
}

impl<T: Send + 'static> Opening<T> {
    /// Tries to get it until that succeeds, fails for good, or has failed for as long as `patience`; then
    /// wakes the operator.
    pub fn start<F>(
        what: String,
        patience: Duration,
        waker: Waker,
        open: impl Fn() -> F + Send + 'static,
    ) -> Result<Self, KafkaError>
    where
        F: Future<Output = Result<T, KafkaError>> + Send,
    {
        let state = Arc::new(Mutex::new(Some(State::Waiting)));
        let place = state.clone();
        let task = spawn(async move {
            let begun = tokio::time::Instant::now();
            let end = loop {
                match open().await {
                    Ok(there) => break State::There(there),
                    Err(error) if error.may_pass() && begun.elapsed() < patience => {
                        tracing::warn!("{what} failed and is tried again: {error}");
                    }
                    Err(error) => break State::Failed(error),
                }
                tokio::time::sleep(PAUSE).await;
            };
            *place.lock() = Some(end);
            waker.wake();
        })?;
        Ok(Self { state, task })
    }

    /// What came, once; `None` if it has not come yet, and then the operator is woken when it comes.
    ///
    /// # Errors
    /// If it will not come.
    pub fn take(&self) -> Result<Option<T>, KafkaError> {
        let mut state = self.state.lock();
        match state.take() {
            Some(State::There(there)) => Ok(Some(there)),
            Some(State::Failed(error)) => Err(error),
            waiting => {
                *state = waiting;
                Ok(None)
            }
        }
    }

    /// Waits no longer; returns what came, if it did.
    pub fn cancel(self) -> Option<T> {
        self.task.abort();
        match self.state.lock().take() {
            Some(State::There(there)) => Some(there),
            _ => None,
        }
    }
}

impl<T> Drop for Opening<T> {
    /// Nobody waits for it any more, so it must not go on: what it does may be wrong in a later attempt.
    fn drop(&mut self) {
        self.task.abort();
    }
}
