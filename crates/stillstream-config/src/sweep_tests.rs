//! What becomes of every documented key of Flink's, present and older, in `flink_keys.txt`: it works, warns
//! or is refused, and why.

use std::collections::BTreeMap;

use super::options as o;
use super::{ConfigError, Configuration, StateBackendType};

/// Keys of Flink 2.3 and 1.20 with a value that is not the default, by what becomes of them.
const KEYS: &str = include_str!("flink_keys.txt");

/// The keys with their values, each with what is written above it.
fn written() -> Vec<(&'static str, &'static str)> {
    let mut above = "";
    let mut keys = Vec::new();
    for line in KEYS.lines() {
        match line.strip_prefix("    ") {
            Some(setting) => keys.push((setting, above)),
            None => above = line,
        }
    }
    keys
}

/// What becomes of a setting. That its key is an older name is left out.
fn outcome(setting: &str) -> String {
    let read = match Configuration::parse_flat("flink-conf.yaml", setting) {
        Ok(read) => read,
        Err(errors) => {
            let why: Vec<String> = errors
                .iter()
                .map(|error| match error {
                    ConfigError::NotSupported { advice, .. } => advice.clone(),
                    other => format!("an error: {other}"),
                })
                .collect();
            return format!("is refused: {}", why.join("; "));
        }
    };
    let older = "this is an older name";
    let why: Vec<&str> = read.warnings().iter().map(|warning| warning.message.as_str()).collect();
    let why: Vec<&str> = why.into_iter().filter(|message| !message.starts_with(older)).collect();
    match why.as_slice() {
        [] => "works".to_string(),
        why => format!("warns: {}", why.join("; ")),
    }
}

#[test]
fn every_key_of_flinks_works_or_warns_or_is_refused_and_says_why() {
    let keys = written();
    assert!(keys.len() > 1_200, "{} keys", keys.len());
    let mut found = BTreeMap::<String, Vec<&str>>::new();
    for (setting, above) in &keys {
        let outcome = outcome(setting);
        if outcome != *above {
            found.entry(outcome).or_default().push(setting);
        }
    }
    let page: String = found
        .iter()
        .map(|(outcome, settings)| format!("{outcome}\n    {}\n", settings.join("\n    ")))
        .collect();
    assert!(page.is_empty(), "these have another outcome than flink_keys.txt says:\n{page}");
}

#[test]
fn a_key_of_flinks_is_refused_only_where_another_would_change_what_the_job_does() {
    let refused: Vec<&str> = written()
        .iter()
        .filter(|(_, above)| above.starts_with("is refused"))
        .map(|(setting, _)| *setting)
        .collect();
    assert_eq!(refused, ["execution.state-recovery.claim-mode: LEGACY", "state.backend.type: forst"]);
}

/// What operators of clusters on Kubernetes write, with the names of Flink 1.20 and of 2.x side by side.
const PRODUCTION: &str = "
blob.server.port: 6124
jobmanager:
  rpc: {address: flights-jobmanager, port: 6123}
  memory: {process: {size: 4096m}}
taskmanager:
  numberOfTaskSlots: 4
  memory: {process: {size: 8192m}, managed: {fraction: 0.6}, network: {max: 1gb}}
parallelism.default: 8
high-availability:
  type: org.apache.flink.kubernetes.highavailability.KubernetesHaServicesFactory
  storageDir: s3://flights/ha
kubernetes:
  cluster-id: flights
  namespace: streaming
state:
  backend:
    type: org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory
    incremental: true
    rocksdb:
      compression.per.level: [SNAPPY_COMPRESSION, ZSTD_COMPRESSION]
      metrics: {block-cache-usage: true, estimate-num-keys: true}
      timer-service.factory: ROCKSDB
  checkpoints.dir: s3://flights/checkpoints
  savepoints.dir: s3://flights/savepoints
execution:
  checkpointing: {interval: 60s, mode: EXACTLY_ONCE, unaligned: {enabled: true}, timeout: 10min}
  target: kubernetes-application
  shutdown-on-attached-exit: true
restart-strategy:
  type: exponential-delay
  exponential-delay: {max-backoff: 2 min}
metrics:
  reporters: prom
  reporter.prom: {factory.class: org.apache.flink.metrics.prometheus.PrometheusReporterFactory, port: 9249}
env.java.opts.all: -XX:+UseG1GC
pipeline: {object-reuse: true, name: flights, generic-types: false}
web.upload.dir: /opt/flink/uploads
security.ssl.internal.enabled: true
";

#[test]
fn a_production_configuration_starts_and_says_what_happens_instead() {
    let config = Configuration::parse_yaml("config.yaml", PRODUCTION).unwrap();
    let warnings: Vec<String> = config.validate().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(config.get(o::STATE_BACKEND), StateBackendType::RocksDb);
    assert_eq!(config.get(o::ROCKSDB_COMPRESSION), ["LZ4_COMPRESSION", "LZ4_COMPRESSION"]);
    assert_eq!(config.get(o::CHECKPOINTS_DIR).as_deref(), Some("s3://flights/checkpoints"));
    assert_eq!((config.get(o::PARALLELISM), config.get(o::INCREMENTAL_CHECKPOINTS)), (8, true));
    for (key, instead) in [
        ("high-availability.type", "whatever starts the program again"),
        ("state.backend.type", "write `rocksdb`"),
        ("state.backend.rocksdb.metrics.block-cache-usage", "see its log"),
        ("state.backend.rocksdb.compression.per.level", "LZ4_COMPRESSION is used"),
        ("taskmanager.memory.process.size", "`state.backend.rocksdb.memory.fixed-per-tm`"),
        ("execution.target", "running its program"),
        ("pipeline.name", "`execute`"),
        ("security.ssl.internal.enabled", "not encrypted"),
    ] {
        let said = |warning: &&String| warning.contains(&format!("`{key}`")) && warning.contains(instead);
        assert!(warnings.iter().any(|warning| said(&warning)), "{key}: {warnings:#?}");
    }
}
