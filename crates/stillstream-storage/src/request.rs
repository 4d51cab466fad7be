//! A request that runs on a runtime while a thread waits for it.

use std::future::Future;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Where requests run, and how long each may take.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    pub handle: Handle,
    pub deadline: Duration,
}

/// A request on its way.
pub(crate) struct Pending<T> {
    answers: Receiver<T>,
    pub task: JoinHandle<()>,
}

impl Requests {
    /// Starts the request. The caller waits on a channel of the standard library, not in the runtime, so that
    /// a call from within a runtime's thread is slow at worst and never a panic.
    pub fn spawn<T: Send + 'static>(&self, request: impl Future<Output = T> + Send + 'static) -> Pending<T> {
        let (answer, answers) = sync_channel(1);
        let task = self.handle.spawn(async move {
            // nobody may be waiting any more: then the answer is of no use
            let _ = answer.send(request.await);
        });
        Pending { answers, task }
    }

    /// Waits until the deadline. Without an answer: why there is none.
    pub fn receive<T>(&self, pending: &Pending<T>) -> Result<T, String> {
        match pending.answers.recv_timeout(self.deadline) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => Err(format!("no answer within {:?}", self.deadline)),
            Err(RecvTimeoutError::Disconnected) => Err("the runtime was shut down".into()),
        }
    }
}
