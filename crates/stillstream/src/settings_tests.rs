use super::*;
use stillstream_types::{CheckpointingMode, ExternalizedCheckpointRetention, ProgressMode, RestartStrategy};

fn config(pairs: &[(&str, &str)]) -> Configuration {
    let mut config = Configuration::new();
    for (key, value) in pairs {
        config.set_text(key, value).unwrap();
    }
    config
}

fn settings(pairs: &[(&str, &str)]) -> JobSettings {
    job_settings("job", &config(pairs), &MemoryStateBackend::new()).unwrap()
}

#[test]
fn nothing_configured_gives_the_defaults_of_the_runtime() {
    let defaults = JobSettings { restart: Some(RestartStrategy::None), ..JobSettings::default() };
    assert_eq!(format!("{:?}", settings(&[])), format!("{defaults:?}"));
}

/// A key, a value that is not the default, and whether it arrived.
type Case = (&'static str, &'static str, fn(&JobSettings) -> bool);

#[test]
fn every_key_arrives() {
    let cases: &[Case] = &[
        ("execution.checkpointing.interval", "200 ms", |s| {
            s.checkpoint.interval == Some(Duration::from_millis(200))
        }),
        ("execution.checkpointing.mode", "AT_LEAST_ONCE", |s| {
            s.checkpoint.mode == CheckpointingMode::AtLeastOnce
        }),
        ("execution.checkpointing.timeout", "7 s", |s| s.checkpoint.timeout == Duration::from_secs(7)),
        ("execution.checkpointing.min-pause", "3 s", |s| s.checkpoint.min_pause == Duration::from_secs(3)),
        ("execution.checkpointing.max-concurrent-checkpoints", "2", |s| s.checkpoint.max_concurrent == 2),
        ("execution.checkpointing.tolerable-failed-checkpoints", "4", |s| {
            s.checkpoint.tolerable_failed_checkpoints == 4
        }),
        ("execution.checkpointing.num-retained", "5", |s| s.checkpoint.num_retained == 5),
        ("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION", |s| {
            s.checkpoint.retention == ExternalizedCheckpointRetention::RetainOnCancellation
        }),
        ("execution.checkpointing.externalized-checkpoint-retention", "DELETE_ON_CANCELLATION", |s| {
            s.checkpoint.retention == ExternalizedCheckpointRetention::DeleteOnCancellation
        }),
        ("execution.checkpointing.dir", "/c", |s| {
            s.backend == StateBackend::Fs { checkpoint_uri: "/c".into(), asynchronous: true }
        }),
        ("execution.checkpointing.data-inline-threshold", "1 kb", |s| s.inline_threshold == 1024),
        ("stillstream.files.access", "group", |s| s.file_access.file_mode() == 0o640),
        ("execution.state-recovery.path", "/s", |s| s.from_snapshot.as_deref() == Some("/s")),
        ("execution.state-recovery.ignore-unclaimed-state", "true", |s| s.allow_non_restored_state),
        ("stillstream.checkpoint.start-fresh", "true", |s| s.start_fresh),
        ("stillstream.job.processes", "3", |s| s.processes == 3),
        ("stillstream.flow.records-in-flight", "77", |s| s.records_in_flight == 77),
        ("stillstream.worker.longest-sleep", "7 min", |s| s.longest_sleep == Duration::from_secs(420)),
        ("execution.buffer-timeout.interval", "7 ms", |s| s.buffer_timeout == Some(Duration::from_millis(7))),
        ("execution.buffer-timeout", "0", |s| s.buffer_timeout == Some(Duration::ZERO)),
        ("execution.buffer-timeout.enabled", "false", |s| s.buffer_timeout.is_none()),
        ("stillstream.progress", "never", |s| s.progress == ProgressMode::Never),
        ("stillstream.progress", "always", |s| s.progress == ProgressMode::Always),
        ("parallelism.default", "6", |s| s.parallelism == 6),
        ("pipeline.operator-chaining.enabled", "false", |s| !s.chaining),
        ("pekko.framesize", "20 mb", |s| s.frame_size == 20 << 20),
        ("task.cancellation.timeout", "9 s", |s| s.cancellation_timeout == Duration::from_secs(9)),
        ("task.cancellation.timeout", "0", |s| s.cancellation_timeout == FOREVER),
        ("heartbeat.timeout", "20 s", |s| s.heartbeat_timeout == Duration::from_secs(20)),
        ("state.backend.type", "hashmap", |s| matches!(s.backend, StateBackend::Memory { .. })),
    ];
    for (key, value, arrived) in cases {
        assert!(arrived(&settings(&[(key, value)])), "{key}: {value}");
    }
}

#[test]
fn every_key_of_the_plan_arrives() {
    let of = |key, value| plan_settings(&config(&[(key, value)]));
    let commits = CommitPolicy::default();
    let with = |commits| PlanSettings { max_parallelism: None, require_uids: false, commits };
    let defaults = PlanSettings { max_parallelism: None, require_uids: false, commits };
    assert_eq!(plan_settings(&Configuration::new()), defaults);
    assert_eq!(of("pipeline.max-parallelism", "64"), PlanSettings { max_parallelism: Some(64), ..defaults });
    assert_eq!(of("pipeline.auto-generate-uids", "false"), PlanSettings { require_uids: true, ..defaults });
    assert_eq!(of("sink.committer.retries", "2"), with(CommitPolicy { retries: 2, ..commits }));
    let timeout = Duration::from_secs(90);
    assert_eq!(of("stillstream.sink.commit-timeout", "90 s"), with(CommitPolicy { timeout, ..commits }));
}

#[test]
fn storage_in_memory_with_a_directory_keeps_metadata_in_it() {
    let pairs = [("execution.checkpointing.storage", "jobmanager"), ("execution.checkpointing.dir", "/c")];
    let memory = MemoryStateBackend::new().max_state_size(99).asynchronous(false);
    let settings = job_settings("job", &config(&pairs), &memory).unwrap();
    let expected =
        StateBackend::Memory { max_state_size: 99, asynchronous: false, checkpoint_uri: Some("/c".into()) };
    assert_eq!(settings.backend, expected);
}

#[test]
fn every_restart_strategy_arrives_with_its_numbers() {
    let secs = Duration::from_secs;
    let of = |pairs: &[(&str, &str)]| settings(pairs).restart.unwrap();
    assert_eq!(
        of(&[("execution.checkpointing.interval", "1 s")]),
        RestartStrategy::default_for(true),
        "with checkpoints and nothing configured"
    );
    assert_eq!(of(&[("restart-strategy.type", "none")]), RestartStrategy::None);
    assert_eq!(
        of(&[
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "3"),
            ("restart-strategy.fixed-delay.delay", "2 s"),
        ]),
        RestartStrategy::FixedDelay { attempts: 3, delay: secs(2) }
    );
    assert_eq!(
        of(&[
            ("restart-strategy.type", "failure-rate"),
            ("restart-strategy.failure-rate.max-failures-per-interval", "4"),
            ("restart-strategy.failure-rate.failure-rate-interval", "5 s"),
            ("restart-strategy.failure-rate.delay", "6 s"),
        ]),
        RestartStrategy::FailureRate { max_failures_per_interval: 4, interval: secs(5), delay: secs(6) }
    );
    assert_eq!(
        of(&[
            ("restart-strategy.type", "exponential-delay"),
            ("restart-strategy.exponential-delay.attempts-before-reset-backoff", "7"),
            ("restart-strategy.exponential-delay.initial-backoff", "2 s"),
            ("restart-strategy.exponential-delay.max-backoff", "3 s"),
            ("restart-strategy.exponential-delay.backoff-multiplier", "2.5"),
            ("restart-strategy.exponential-delay.jitter-factor", "0.25"),
            ("restart-strategy.exponential-delay.reset-backoff-threshold", "4 s"),
        ]),
        RestartStrategy::ExponentialDelay {
            initial_backoff: secs(2),
            max_backoff: secs(3),
            backoff_multiplier: 2.5,
            reset_backoff_threshold: secs(4),
            jitter_factor: 0.25,
            attempts_before_reset_backoff: 7,
        }
    );
}

#[test]
fn files_without_a_directory_are_refused_with_both_keys() {
    let config = config(&[("execution.checkpointing.storage", "filesystem")]);
    let error = job_settings("job", &config, &MemoryStateBackend::new()).unwrap_err().to_string();
    assert!(
        error.contains("execution.checkpointing.storage") && error.contains("checkpointing.dir"),
        "{error}"
    );
}
