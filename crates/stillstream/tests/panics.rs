//! A thread of the runtime that panics is the job's error, and never a hang.

mod paced;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paced::Paced;

use stillstream::JobStatus;
use stillstream::prelude::*;
use stillstream_types::crash::{Crash, CrashHook, install};

/// Crash points are the process's: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Panics at a point, the first time or always.
#[derive(Debug)]
struct Panics {
    point: &'static str,
    always: bool,
    done: AtomicBool,
}

fn arm(point: &'static str, always: bool) {
    install(Some(Arc::new(Panics { point, always, done: AtomicBool::new(false) })));
}

impl CrashHook for Panics {
    fn pass(&self, point: &str) -> Result<(), Crash> {
        let now = point == self.point && (!self.done.swap(true, SeqCst) || self.always);
        assert!(!now, "a bug at `{point}`");
        Ok(())
    }
}

#[test]
fn a_panic_of_the_engine_on_a_worker_is_a_failed_attempt_and_the_next_one_has_new_threads() {
    const RECORDS: u64 = 1_000;
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = Arc::new(AtomicBool::new(false));
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(10))
        .set_parallelism(3)
        .set_restart_strategy(RestartStrategy::fixed_delay(2, Duration::ZERO));
    let out = env
        .from_source("numbers", Paced::new(Generator::new(RECORDS, |n| n), 200, 200))
        .uid("numbers")
        .key_by(|n| n % 10)
        .map_with_state("count", |count: &mut u64, n| {
            *count += 1;
            n
        })
        .uid("counts")
        .try_map(move |n| match n >= 600 && !failed.swap(true, SeqCst) {
            true => Err(Error::msg("told to")),
            false => Ok(n),
        })
        .collect();
    arm("during-restore", false);
    let result = env.execute("engine");
    install(None);
    let result = result.unwrap();
    assert_eq!(result.restarts, 2, "one for the function, one for the engine");
    assert_eq!(out.sorted(), (0..RECORDS).collect::<Vec<_>>());
}

#[test]
fn a_panic_of_any_thread_of_the_runtime_ends_the_job_with_the_name_of_the_thread() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (point, thread) in [
        ("before-notification", "`jobmanager`"),
        ("before-metadata", "`checkpoint-io-"),
        ("before-register", "`checkpoint-io-"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut env = StreamExecutionEnvironment::new();
        env.enable_checkpointing(millis(10))
            .set_parallelism(2)
            .set_state_backend(FsStateBackend::new(folder.path().to_string_lossy()));
        env.from_source("numbers", Generator::unbounded(|n| n).records_per_second(1_000.0))
            .uid("numbers")
            .key_by(|n| n % 10)
            .map_with_state("sum", |sum: &mut u64, n| *sum + n)
            .uid("sum")
            .discard();
        let job = env.execute_async("panics").unwrap();
        assert!(job.wait_until(Duration::from_secs(60), |job| job.status() == JobStatus::Running), "{point}");
        arm(point, true);
        assert!(
            job.wait_until(Duration::from_secs(60), |job| job.status().is_terminal()),
            "{point}: it hangs"
        );
        let error = job.wait().unwrap_err();
        install(None);
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Panic, "{text}");
        assert!(text.contains(thread) && text.contains(&format!("a bug at `{point}`")), "{point}: {text}");
    }
}
