//! The threads that all Kafka clients of a process share.
//!
//! The client is asynchronous; workers are not, and must never wait. So everything that talks to a broker
//! runs here, and workers hand over records and look at what has come.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::KafkaError;

/// How many threads do the input and output of all Kafka clients of the process.
const THREADS: usize = 2;

fn runtime() -> Result<&'static Runtime, KafkaError> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("kafka-client").enable_all();
        builder.build().map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|reason| KafkaError::NoThreads { reason: reason.clone() })
}

/// Runs a future on the shared threads, and does not wait for it.
///
/// # Errors
/// If the system gives no threads.
pub(crate) fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, KafkaError> {
    Ok(runtime()?.spawn(future))
}

/// Runs a future on the thread that calls, which may wait; input and output are done on the shared threads.
/// For threads of our own that are in no other Tokio runtime.
///
/// # Errors
/// If the system gives no threads.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, KafkaError> {
    Ok(runtime()?.block_on(future))
}

/// Runs a future on the shared threads and waits for it. For threads that may wait: those that commit, and
/// those that start a job; never a worker.
///
/// It may also be called from within another Tokio runtime, as `main` may be in one.
///
/// # Errors
/// What the future fails with, or if it panicked.
pub(crate) fn wait_for<T: Send + 'static>(
    future: impl Future<Output = Result<T, KafkaError>> + Send + 'static,
) -> Result<T, KafkaError> {
    let (done, result) = sync_channel(1);
    runtime()?.spawn(async move {
        // the other end is gone only if the waiting thread is
        let _ = done.send(future.await);
    });
    result.recv().unwrap_or_else(|_| Err(KafkaError::Panicked))
}
