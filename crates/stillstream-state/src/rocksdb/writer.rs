//! The thread that writes a backend's entries to its database, in the order in which they were given to it.
//!
//! A barrier's checkpoint of the database is one more job in that order: it holds what was given before it, and nothing
//! that came after. So the worker goes on at once. What it writes past this thread has to wait for the checkpoint
//! ([`Writer::wait_for_barriers`]).

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::StateError;

type Job = Box<dyn FnOnce() -> Result<(), StateError> + Send>;

#[derive(Debug, Default)]
struct Progress {
    /// Jobs given, done, and how many of the given ones up to the last barrier.
    given: u64,
    done: u64,
    last_barrier: u64,
}

#[derive(Debug, Default)]
struct Shared {
    progress: Mutex<Progress>,
    moved: Condvar,
    /// Why a job failed: nothing is written after that.
    failed: OnceLock<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes jobs.
pub(crate) struct Writer {
    jobs: Sender<Job>,
    shared: Arc<Shared>,
    path: String,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl Writer {
    /// Starts the thread; it ends with the last handle. `path` is for errors.
    pub fn start(path: String) -> Result<Self, StateError> {
        let (jobs, todo) = channel::<Job>();
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let run = move || {
            for job in todo {
                // after a failure the database lacks entries: a checkpoint of it must not succeed
                if of_thread.failed.get().is_none()
                    && let Err(error) = job()
                {
                    let _ = of_thread.failed.set(error.to_string());
                }
                of_thread.lock().done += 1;
                of_thread.moved.notify_all();
            }
        };
        let thread = std::thread::Builder::new().name("rocksdb-writer".into()).spawn(run);
        thread.map_err(|source| StateError::Io {
            what: "starting the thread that writes to RocksDB".into(),
            source,
        })?;
        Ok(Self { jobs, shared, path })
    }

    /// Fails if a job has failed.
    fn check(&self) -> Result<(), StateError> {
        match self.shared.failed.get() {
            None => Ok(()),
            Some(why) => Err(StateError::Database {
                name: String::new(),
                path: self.path.clone(),
                what: "writing entries in the background",
                why: why.clone(),
                advice: "the job's restart takes the state from the last completed checkpoint",
            }),
        }
    }

    /// Adds a job.
    pub fn submit(
        &self,
        job: impl FnOnce() -> Result<(), StateError> + Send + 'static,
    ) -> Result<(), StateError> {
        self.check()?;
        self.shared.lock().given += 1;
        // the thread lives as long as this sender
        let _ = self.jobs.send(Box::new(job));
        Ok(())
    }

    /// Adds a job whose result somebody waits for, and which the worker's own writes must not overtake.
    pub fn barrier<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<R, StateError> + Send + 'static,
    ) -> Result<Pending<R>, StateError> {
        let pending = self.ask(job)?;
        let mut progress = self.shared.lock();
        progress.last_barrier = progress.given;
        drop(progress);
        Ok(pending)
    }

    /// Adds a job whose result somebody waits for.
    pub fn ask<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<R, StateError> + Send + 'static,
    ) -> Result<Pending<R>, StateError> {
        let (sender, result) = channel();
        self.submit(move || {
            // whoever asked may have given up, and learns of an error by himself
            let _ = sender.send(job());
            Ok(())
        })?;
        Ok(Pending { result, shared: self.shared.clone() })
    }

    /// Waits until all barriers so far are done.
    #[inline]
    pub fn wait_for_barriers(&self) {
        let progress = self.shared.lock();
        if progress.done < progress.last_barrier {
            drop(self.shared.moved.wait_while(progress, |p| p.done < p.last_barrier));
        }
    }

    /// Waits until all jobs so far are done.
    pub fn wait_for_all(&self) -> Result<(), StateError> {
        let progress = self.shared.lock();
        let given = progress.given;
        drop(self.shared.moved.wait_while(progress, |p| p.done < given));
        self.check()
    }

    /// Waits until one more job is done, if there is one.
    pub fn wait_for_next(&self) -> Result<(), StateError> {
        let progress = self.shared.lock();
        let (given, done) = (progress.given, progress.done);
        drop(self.shared.moved.wait_while(progress, |p| p.done == done && done < given));
        self.check()
    }
}

/// What a barrier's job will give.
#[derive(Debug)]
pub(crate) struct Pending<R> {
    result: Receiver<Result<R, StateError>>,
    shared: Arc<Shared>,
}

impl<R> Pending<R> {
    /// The result, if it is there.
    pub fn now(&self) -> Option<Result<R, StateError>> {
        self.result.try_recv().ok()
    }

    /// Waits for it.
    pub fn wait(&self) -> Result<R, StateError> {
        self.result.recv().unwrap_or_else(|_| {
            let why = self.shared.failed.get().cloned();
            Err(StateError::Io {
                what: "writing entries to RocksDB before a checkpoint".into(),
                source: std::io::Error::other(why.unwrap_or_else(|| "the backend was closed".into())),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> StateError {
        StateError::InUse { name: "broken".into() }
    }

    #[test]
    fn jobs_run_in_order_and_a_barrier_sees_what_came_before_it() -> Result<(), StateError> {
        let (writer, log) = (Writer::start("db".into())?, Arc::new(Mutex::new(Vec::new())));
        let push = |n: u32| {
            let log = log.clone();
            move || {
                log.lock().unwrap_or_else(PoisonError::into_inner).push(n);
                Ok(())
            }
        };
        writer.submit(push(1))?;
        let seen = log.clone();
        let barrier =
            writer.barrier(move || Ok(seen.lock().unwrap_or_else(PoisonError::into_inner).clone()))?;
        writer.submit(push(2))?;
        assert_eq!(barrier.wait()?, [1]);
        writer.wait_for_barriers();
        writer.wait_for_all()?;
        assert_eq!(*log.lock().unwrap_or_else(PoisonError::into_inner), [1, 2]);
        Ok(())
    }

    #[test]
    fn after_a_failed_job_no_checkpoint_succeeds_and_the_worker_is_told() -> Result<(), StateError> {
        let writer = Writer::start("db".into())?;
        writer.submit(|| Err(failure()))?;
        let told = match writer.barrier(|| Ok(())) {
            Ok(barrier) => barrier.wait().err(),
            Err(error) => Some(error),
        };
        assert!(told.is_some_and(|error| error.to_string().contains("broken")));
        assert!(writer.wait_for_all().is_err());
        assert!(writer.submit(|| Ok(())).is_err());
        Ok(())
    }
}
