//! The thread that writes a backend's entries to its database, in the order in which they were given to it.
//!
//! A barrier's checkpoint of the database is one more job in that order: it holds what was given before it,
//! and nothing that came after. So the worker goes on at once. What it writes past this thread has to wait
//! for the checkpoint ([`Writer::wait_for_barriers`]).
//!
//! When the disk is full, entries wait in memory and are tried again; checkpoints fail meanwhile, and the
//! worker goes on as long as it finds room in memory. After any other failure nothing is written any more.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use stillstream_state::StateError;

use crate::error::{full_disk, still_full};

/// Writes entries; may be tried again.
type Entries = Box<dyn FnMut() -> Result<(), StateError> + Send>;
/// Gets the reason why entries before it are not written, if there is one.
type Barrier = Box<dyn FnOnce(Option<StateError>) + Send>;

enum Job {
    Entries(Entries),
    Barrier(Barrier),
    /// Has nothing to do with what is written.
    Other(Box<dyn FnOnce() + Send>),
}

/// A full disk is tried again this often.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct Progress {
    /// Jobs that write entries.
    given: u64,
    done: u64,
    barriers_given: u64,
    barriers_done: u64,
    /// RocksDB's words, while the disk is full.
    full: Option<String>,
    /// The worker is gone: nobody needs what cannot be written.
    closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    progress: Mutex<Progress>,
    moved: Condvar,
    /// Why a job failed: nothing is written after that.
    failed: OnceLock<String>,
    /// For errors.
    path: String,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why entries cannot be written for good.
    fn check(&self) -> Result<(), StateError> {
        match self.failed.get() {
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

    /// Waits until `ready`; while the disk is full that may be never.
    fn wait(&self, mut ready: impl FnMut(&Progress) -> bool) -> Result<(), StateError> {
        let waits = |p: &mut Progress| !ready(p) && p.full.is_none();
        let progress = self.moved.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        match &progress.full {
            Some(why) if !ready(&progress) => Err(still_full(&self.path, why)),
            _ => self.check(),
        }
    }
}

/// What the thread does.
struct Thread {
    shared: Arc<Shared>,
    /// Entries for which the disk had no room, in their order.
    stuck: VecDeque<Entries>,
}

impl Thread {
    fn run(&mut self, todo: &Receiver<Job>) {
        loop {
            let job = match self.stuck.is_empty() {
                true => todo.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => todo.recv_timeout(PAUSE),
            };
            self.write_stuck();
            match job {
                Ok(job) => self.take(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Entries(entries) => {
                self.stuck.push_back(entries);
                if self.stuck.len() == 1 {
                    self.write_stuck();
                }
            }
            Job::Barrier(barrier) => {
                let full = self.shared.lock().full.as_ref().map(|why| still_full(&self.shared.path, why));
                let missing = full.or_else(|| self.shared.check().err());
                // after a panic whoever waits for the result learns that there is none
                let _ = catch_unwind(AssertUnwindSafe(|| barrier(missing)));
                self.shared.lock().barriers_done += 1;
            }
            Job::Other(other) => drop(catch_unwind(AssertUnwindSafe(other))),
        }
        self.shared.moved.notify_all();
    }

    fn write_stuck(&mut self) {
        while let Some(entries) = self.stuck.front_mut() {
            // after a failure the database lacks entries: a checkpoint of it must not succeed
            let closed = self.shared.lock().closed;
            let written = if self.shared.failed.get().is_none() { caught(entries) } else { Ok(()) };
            if let Err(error) = written {
                if let Some(why) = full_disk(&error)
                    && !closed
                {
                    self.shared.lock().full = Some(why.into());
                    self.shared.moved.notify_all();
                    return;
                }
                let _ = self.shared.failed.set(error.to_string());
            }
            self.stuck.pop_front();
            let mut progress = self.shared.lock();
            progress.done += 1;
            progress.full = None;
            drop(progress);
            self.shared.moved.notify_all();
        }
    }
}

/// Runs a job that encodes users' values: a panic there is a failure like another, and nobody waits for a
/// thread that is gone.
fn caught(job: &mut Entries) -> Result<(), StateError> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(StateError::Io {
            what: "encoding a value for RocksDB".into(),
            source: std::io::Error::other(format!("its code panicked: {text}")),
        })
    })
}

/// Takes jobs.
pub(crate) struct Writer {
    jobs: Sender<Job>,
    shared: Arc<Shared>,
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
        let shared = Arc::new(Shared { path, ..Shared::default() });
        let mut of_thread = Thread { shared: shared.clone(), stuck: VecDeque::new() };
        let run = move || of_thread.run(&todo);
        let thread = std::thread::Builder::new().name("rocksdb-writer".into()).spawn(run);
        thread.map_err(|source| StateError::Io {
            what: "starting the thread that writes to RocksDB".into(),
            source,
        })?;
        Ok(Self { jobs, shared })
    }

    fn send(&self, job: Job) {
        // the thread lives as long as this sender
        let _ = self.jobs.send(job);
    }

    /// Adds entries to be written. The job is called again if the disk was full.
    pub fn submit(
        &self,
        job: impl FnMut() -> Result<(), StateError> + Send + 'static,
    ) -> Result<(), StateError> {
        self.shared.check()?;
        self.shared.lock().given += 1;
        self.send(Job::Entries(Box::new(job)));
        Ok(())
    }

    /// Adds a job whose result somebody waits for, and which the worker's own writes must not overtake. It
    /// fails if entries before it are not written.
    pub fn barrier<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<R, StateError> + Send + 'static,
    ) -> Result<Pending<R>, StateError> {
        self.shared.check()?;
        let (sender, result) = channel();
        self.shared.lock().barriers_given += 1;
        self.send(Job::Barrier(Box::new(move |missing| {
            // whoever asked may have given up
            let _ = sender.send(match missing {
                None => job(),
                Some(why) => Err(why),
            });
        })));
        Ok(Pending(result))
    }

    /// Adds a job that does not need the database, and whose result somebody waits for.
    pub fn ask<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> Pending<R> {
        let (sender, result) = channel();
        self.send(Job::Other(Box::new(move || drop(sender.send(Ok(job()))))));
        Pending(result)
    }

    /// Waits until all barriers so far are done.
    #[inline]
    pub fn wait_for_barriers(&self) {
        let progress = self.shared.lock();
        let given = progress.barriers_given;
        if progress.barriers_done < given {
            drop(self.shared.moved.wait_while(progress, |p| p.barriers_done < given));
        }
    }

    /// Waits until all entries so far are written.
    pub fn wait_for_all(&self) -> Result<(), StateError> {
        let given = self.shared.lock().given;
        self.shared.wait(|p| p.done >= given)
    }

    /// Waits until some more entries are written, if there are any to write.
    pub fn wait_for_next(&self) -> Result<(), StateError> {
        let (given, done) = {
            let progress = self.shared.lock();
            (progress.given, progress.done)
        };
        self.shared.wait(|p| p.done > done || p.done >= given)
    }

    /// Nobody needs entries any more that cannot be written.
    pub fn close(&self) {
        self.shared.lock().closed = true;
    }
}

/// What a barrier's job will give.
#[derive(Debug)]
pub(crate) struct Pending<R>(Receiver<Result<R, StateError>>);

impl<R> Pending<R> {
    /// The result, if it is there.
    pub fn now(&self) -> Option<Result<R, StateError>> {
        self.0.try_recv().ok()
    }

    /// Waits for it.
    pub fn wait(&self) -> Result<R, StateError> {
        self.0.recv().unwrap_or_else(|_| {
            Err(StateError::Io {
                what: "writing entries to RocksDB before a checkpoint".into(),
                source: std::io::Error::other("the backend was closed"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

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

    #[test]
    fn a_value_whose_encoding_panics_fails_the_checkpoint_and_nobody_waits_for_ever() -> Result<(), StateError>
    {
        let writer = Writer::start("db".into())?;
        writer.submit(|| panic!("of a value"))?;
        let told = match writer.barrier(|| Ok(())) {
            Ok(barrier) => barrier.wait().err(),
            Err(error) => Some(error),
        };
        assert!(told.is_some_and(|error| error.to_string().contains("panicked: of a value")));
        writer.wait_for_barriers();
        let writer = Writer::start("db".into())?;
        assert!(writer.barrier(|| -> Result<(), StateError> { panic!("of a barrier") })?.wait().is_err());
        writer.wait_for_barriers();
        assert!(writer.ask(|| panic!("of another")).wait().is_err());
        writer.wait_for_all()
    }

    #[test]
    fn while_the_disk_is_full_checkpoints_fail_and_entries_are_kept_and_written_in_order_later()
    -> Result<(), StateError> {
        let (writer, log) = (Writer::start("db".into())?, Arc::new(Mutex::new(Vec::new())));
        let full = Arc::new(AtomicBool::new(true));
        let write = |n: u32| {
            let (log, full) = (log.clone(), full.clone());
            move || match full.load(Ordering::Relaxed) {
                true => {
                    Err(crate::error::disk("db".as_ref(), "writing", &std::io::Error::from_raw_os_error(28)))
                }
                false => {
                    log.lock().unwrap_or_else(PoisonError::into_inner).push(n);
                    Ok(())
                }
            }
        };
        writer.submit(write(1))?;
        writer.submit(write(2))?;
        let Err(error) = writer.barrier(|| Ok(()))?.wait() else { panic!("entries are missing") };
        assert!(error.to_string().contains("No space left"), "{error}");
        writer.wait_for_barriers();
        assert!(writer.wait_for_next().is_err() && writer.wait_for_all().is_err(), "nobody waits for ever");
        assert_eq!(writer.ask(|| 7).wait()?, 7);
        full.store(false, Ordering::Relaxed);
        writer.submit(write(3))?;
        writer.barrier(|| Ok(()))?.wait()?;
        assert_eq!(*log.lock().unwrap_or_else(PoisonError::into_inner), [1, 2, 3]);
        writer.wait_for_all()
    }
}
