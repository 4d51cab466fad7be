//! SIGINT (Ctrl-C) and SIGTERM: the first one stops the job with a last checkpoint, the second ends the
//! process at once.
//!
//! One that comes within half a second of the first counts as the same: what starts a program often passes a
//! signal on that the program has had from its terminal or its group already.
//!
//! Handlers are installed when the main thread of a program executes its first job, and stay. While no job
//! runs, and after the first signal, a signal does what it does by default. Threads other than the main one
//! install nothing: a job that a library or a test runs has no say in what becomes of the process.

/// Whether this is the program's main thread.
pub(crate) fn is_main_thread() -> bool {
    std::thread::current().name() == Some("main")
}

#[cfg(unix)]
pub(crate) use unix::{leave_to_the_job_manager, refuse_after_signal, watch};

#[cfg(unix)]
mod unix {
    use std::io;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Arc, Mutex, OnceLock, PoisonError};
    use std::time::Duration;

    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;
    use signal_hook::iterator::Signals;
    use stillstream_runtime::job::JobClient;
    use stillstream_types::{Error, ErrorKind, Result};

    const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];
    /// A signal that comes so soon after the first one is the same, delivered twice.
    const SAME: Duration = Duration::from_millis(500);

    fn name(signal: i32) -> &'static str {
        if signal == SIGINT { "SIGINT (Ctrl-C)" } else { "SIGTERM" }
    }

    /// What the process knows of signals.
    struct Watch {
        /// The next signal ends the process: it is the second one, or nothing is to be stopped.
        at_once: Arc<AtomicBool>,
        jobs: Mutex<Vec<(u64, JobClient)>>,
        next: AtomicU64,
        /// The first signal that came while a job ran.
        received: OnceLock<i32>,
    }

    static WATCH: OnceLock<Option<Arc<Watch>>> = OnceLock::new();

    fn install() -> io::Result<Arc<Watch>> {
        let watch = Arc::new(Watch {
            at_once: Arc::new(AtomicBool::new(true)),
            jobs: Mutex::default(),
            next: AtomicU64::new(0),
            received: OnceLock::new(),
        });
        let mut signals = Signals::new(SIGNALS)?;
        for signal in SIGNALS {
            flag::register_conditional_default(signal, watch.at_once.clone())?;
        }
        let watching = watch.clone();
        let run = move || signals.forever().for_each(|signal| watching.on(signal));
        std::thread::Builder::new().name("signals".into()).spawn(run)?;
        Ok(watch)
    }

    impl Watch {
        fn on(self: &Arc<Self>, signal: i32) {
            if self.received.get().is_some() {
                return; // the first one, once more
            }
            let jobs: Vec<JobClient> = {
                let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
                jobs.iter().map(|(_, job)| job.clone()).collect()
            };
            if jobs.is_empty() {
                // the job ended at this very moment, and the signal was not for nothing
                let _ = signal_hook::low_level::emulate_default_handler(signal);
                return;
            }
            let _ = self.received.set(signal);
            let watch = self.clone();
            let arm = move || {
                std::thread::sleep(SAME);
                watch.at_once.store(true, Ordering::SeqCst);
            };
            if std::thread::Builder::new().name("second-signal".into()).spawn(arm).is_err() {
                self.at_once.store(true, Ordering::SeqCst);
            }
            for job in &jobs {
                self.stop(job, signal);
            }
        }

        fn stop(&self, job: &JobClient, signal: i32) {
            let (signal, name) = (name(signal), job.name());
            let again = "a second signal ends the process at once";
            if !job.takes_checkpoints() {
                let what = "is cancelled: it takes no checkpoints, and nothing of it is kept";
                tracing::warn!(job = %name, "{signal}: job `{name}` {what}; {again}");
                return job.cancel();
            }
            tracing::warn!(job = %name, "{signal}: job `{name}` stops with a last checkpoint; {again}");
            // how it ended, and how to go on, is said at its end
            if let Err(error) = job.stop() {
                tracing::warn!(job = %name, "{error}; {again}");
            }
        }
    }

    /// As long as this lives, a signal stops the job.
    pub(crate) struct Watched(Option<(Arc<Watch>, u64)>);

    impl Drop for Watched {
        fn drop(&mut self) {
            let Some((watch, own)) = self.0.take() else { return };
            let mut jobs = watch.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.retain(|(job, _)| *job != own);
            if jobs.is_empty() {
                watch.at_once.store(true, Ordering::SeqCst);
            }
        }
    }

    /// From here on signals stop this job.
    pub(crate) fn watch(job: &JobClient) -> Watched {
        let installed = WATCH.get_or_init(|| {
            install()
                .inspect_err(|error| {
                    tracing::warn!(
                        "SIGINT and SIGTERM end the process at once: no handler for them: {error}"
                    );
                })
                .ok()
        });
        let Some(watch) = installed else { return Watched(None) };
        let own = watch.next.fetch_add(1, Ordering::SeqCst);
        watch.jobs.lock().unwrap_or_else(PoisonError::into_inner).push((own, job.clone()));
        if watch.received.get().is_none() {
            watch.at_once.store(false, Ordering::SeqCst);
        }
        Watched(Some((watch.clone(), own)))
    }

    /// A program that was asked to end begins no other job.
    ///
    /// # Errors
    /// If it was.
    pub(crate) fn refuse_after_signal(job: &str) -> Result<()> {
        let received = WATCH.get().and_then(Option::as_ref).and_then(|watch| watch.received.get());
        let Some(signal) = received else { return Ok(()) };
        Err(Error::new(
            ErrorKind::Cancelled,
            format!("job `{job}` is not begun: the process was asked to end by {}", name(*signal)),
        ))
    }

    /// A worker process takes no notice of signals: those of a terminal, and those of a supervisor, go to all
    /// processes of a job, and the JobManager needs the workers to stop it in order. They end with the
    /// JobManager.
    pub(crate) fn leave_to_the_job_manager() {
        for signal in SIGNALS {
            if let Err(error) = flag::register(signal, Arc::default()) {
                tracing::warn!("{} ends this worker process: no handler for it: {error}", name(signal));
            }
        }
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use stillstream_runtime::job::JobClient;
    use stillstream_types::Result;

    pub(crate) fn watch(_: &JobClient) {}

    pub(crate) fn refuse_after_signal(_: &str) -> Result<()> {
        Ok(())
    }

    pub(crate) fn leave_to_the_job_manager() {}
}

#[cfg(not(unix))]
pub(crate) use elsewhere::{leave_to_the_job_manager, refuse_after_signal, watch};
