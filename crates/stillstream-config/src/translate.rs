//! Values of Flink's that mean something here under another name: classes of backends and strategies, and
//! compressions that this build has not.

use stillstream_types::choice::same_name;

use super::options as o;
use super::value::ConfigValue;

/// A class by a part of its name, and the value that stands for it.
type Class = (&'static str, &'static str);

const BACKENDS: &[Class] = &[
    ("RocksDB", "rocksdb"),
    ("ForSt", "forst"),
    ("HashMap", "hashmap"),
    ("FsStateBackend", "filesystem"),
    ("MemoryStateBackend", "jobmanager"),
];
const STORAGES: &[Class] = &[("FileSystem", "filesystem"), ("JobManager", "jobmanager")];
const STRATEGIES: &[Class] = &[
    ("FixedDelay", "fixed-delay"),
    ("FailureRate", "failure-rate"),
    ("ExponentialDelay", "exponential-delay"),
    ("NoRestart", "none"),
];
const SERVICES: &[Class] = &[("ZooKeeper", "zookeeper"), ("Kubernetes", "kubernetes"), ("None", "NONE")];

/// Compressions of RocksDB's that are not built in, by Flink's names. LZ4 is as fast as Snappy; the others
/// write less and take longer.
const NOT_BUILT: &[&str] = &["SNAPPY", "ZSTD", "ZLIB", "BZLIB2", "LZ4HC", "XPRESS"];

/// What is used in their place.
const BUILT: &str = "LZ4_COMPRESSION";

/// The value that stands for this one, and what to say about it; `None` if it is read as it is written.
pub(super) fn translate(key: &str, value: &str) -> Option<(String, String)> {
    let classes = match key {
        _ if key == o::STATE_BACKEND.key() => BACKENDS,
        _ if key == o::CHECKPOINT_STORAGE.key() => STORAGES,
        _ if key == o::RESTART_STRATEGY.key() => STRATEGIES,
        "high-availability.type" => SERVICES,
        _ if key == o::ROCKSDB_COMPRESSION.key() => return compressions(value),
        _ => return None,
    };
    // a class has a package; no name of a choice has a point in it
    let (_, class) = value.rsplit_once('.')?;
    let (_, name) = classes.iter().find(|(part, _)| class.contains(part))?;
    Some((name.to_string(), format!("the class `{value}` has another name here: write `{name}`")))
}

fn compressions(value: &str) -> Option<(String, String)> {
    let missing = |name: &str| {
        NOT_BUILT
            .iter()
            .any(|other| same_name(name, other) || same_name(name, &format!("{other}_COMPRESSION")))
    };
    let mut names = Vec::<String>::parse(value).ok()?;
    let replaced: Vec<String> = names.iter().filter(|name| missing(name)).cloned().collect();
    if replaced.is_empty() {
        return None;
    }
    names.iter_mut().filter(|name| missing(name)).for_each(|name| *name = BUILT.to_string());
    let replaced = replaced.join(" and ");
    Some((names.to_text(), format!("{replaced} is not built in: {BUILT} is used in its place")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_of_flinks_is_read_as_the_name_that_stands_for_it() {
        for (key, class, name) in [
            (
                "state.backend.type",
                "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory",
                "rocksdb",
            ),
            (
                "state.backend.type",
                "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory",
                "hashmap",
            ),
            (
                "state.backend.type",
                "org.apache.flink.runtime.state.filesystem.FsStateBackendFactory",
                "filesystem",
            ),
            (
                "execution.checkpointing.storage",
                "org.apache.flink.runtime.state.storage.FileSystemCheckpointStorage",
                "filesystem",
            ),
            (
                "high-availability.type",
                "org.apache.flink.kubernetes.highavailability.KubernetesHaServicesFactory",
                "kubernetes",
            ),
            ("restart-strategy.type", "org.apache.flink.api.common.FixedDelayRestartStrategy", "fixed-delay"),
        ] {
            let (value, message) = translate(key, class).unwrap_or_else(|| panic!("{class}"));
            assert_eq!(value, name);
            assert!(message.contains(class) && message.ends_with(&format!("write `{name}`")), "{message}");
        }
        assert_eq!(translate("state.backend.type", "com.acme.Backend"), None);
        assert_eq!(translate("state.backend.type", "rocksdb"), None);
    }

    #[test]
    fn a_compression_that_is_not_built_becomes_lz4_and_the_others_stay() {
        let (value, message) =
            translate(o::ROCKSDB_COMPRESSION.key(), "NO_COMPRESSION;snappy_compression;ZSTD_COMPRESSION")
                .unwrap();
        assert_eq!(value, "NO_COMPRESSION;LZ4_COMPRESSION;LZ4_COMPRESSION");
        assert!(message.starts_with("snappy_compression and ZSTD_COMPRESSION is not built in"), "{message}");
        assert_eq!(translate(o::ROCKSDB_COMPRESSION.key(), "[NO_COMPRESSION, LZ4_COMPRESSION]"), None);
    }
}
