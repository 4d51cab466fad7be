//! A thread of the runtime that panics is the job's error, and never a hang.

use std::sync::Arc;
use std::time::Duration;

use stillstream::prelude::*;
use stillstream_types::crash::{Crash, CrashHook, install};

#[derive(Debug)]
struct Panics(&'static str);

impl CrashHook for Panics {
    fn pass(&self, point: &str) -> Result<(), Crash> {
        assert!(point != self.0, "a bug at `{point}`");
        Ok(())
    }
}

/// One test for all, since crash points are the process's.
#[test]
fn a_panic_of_any_thread_of_the_runtime_ends_the_job_with_the_name_of_the_thread() {
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
        install(Some(Arc::new(Panics(point))));
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
