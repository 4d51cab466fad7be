//! Keys of Flink's that are not in the table: they mean nothing here, and a warning says so. Also: which keys
//! are secret.

const JVM: &str = "this key is about Flink's Java processes and has no effect: leave it out";
const REMOTE: &str =
    "this key is about Flink's cluster processes and has no effect in this release: leave it out";
const SURFACE: &str = "there is no such interface in this release, the key has no effect: leave it out";
const STORE: &str =
    "access to this store is not configured here in this release, the key has no effect: leave it out";
const PLATFORM: &str = "this platform is not driven by Stillstream, the key has no effect: leave it out";
const OTHER: &str = "this key of Flink's has no meaning here and no effect: leave it out";
const FORST: &str = "the ForSt backend is not in this release, the key has no effect: leave it out";

/// The longest that fits counts. Families that the table holds in full (`execution.checkpointing.`,
/// `restart-strategy.` ..) are not here: an unknown key among them is a mistake.
const FAMILIES: &[(&str, &str)] = &[
    ("akka.", REMOTE),
    ("blob.", REMOTE),
    ("classloader.", JVM),
    ("client.", SURFACE),
    ("cluster.", REMOTE),
    ("compiler.", OTHER),
    ("daemon.", JVM),
    ("delegation.", PLATFORM),
    ("deployment.", PLATFORM),
    ("env.", JVM),
    ("execution.attached", SURFACE),
    ("execution.batch", OTHER),
    ("execution.job-listeners", JVM),
    ("execution.job-status-changed-listeners", JVM),
    ("execution.runtime-mode", OTHER),
    ("execution.shutdown-on-attached-exit", SURFACE),
    ("execution.sort", OTHER),
    ("execution.sorted-inputs", OTHER),
    ("execution.target", PLATFORM),
    ("external-resource", PLATFORM),
    ("fs.", STORE),
    ("gs.", STORE),
    ("hadoop.", STORE),
    ("historyserver.", SURFACE),
    ("internal.", JVM),
    ("io.tmp.dirs", REMOTE),
    ("jobmanager.", REMOTE),
    ("jobstore.", SURFACE),
    ("kubernetes.", PLATFORM),
    ("local.", REMOTE),
    ("mesos.", PLATFORM),
    ("metrics.", SURFACE),
    ("minicluster.", JVM),
    ("parallelism.", OTHER),
    ("pekko.", REMOTE),
    ("pipeline.", OTHER),
    ("plugin.", JVM),
    ("process.", REMOTE),
    ("python.", OTHER),
    ("resourcemanager.", REMOTE),
    ("rest.", SURFACE),
    ("rpc.", REMOTE),
    ("s3.", STORE),
    ("s3a.", STORE),
    ("security.", REMOTE),
    ("slot.", REMOTE),
    ("slotmanager.", REMOTE),
    ("sql-client.", SURFACE),
    ("sql-gateway.", SURFACE),
    ("state.backend.forst.", FORST),
    ("table.", OTHER),
    ("task.", REMOTE),
    ("taskmanager.", REMOTE),
    ("traces.", SURFACE),
    ("user.artifacts.", JVM),
    ("web.", SURFACE),
    ("yarn.", PLATFORM),
    ("zookeeper.", PLATFORM),
];

/// The advice for a key that is Flink's and means nothing here; `None` if it is none of Flink's.
pub(super) fn advice(key: &str) -> Option<&'static str> {
    let fits = FAMILIES.iter().filter(|(start, _)| {
        key.strip_prefix(start)
            .is_some_and(|rest| rest.is_empty() || start.ends_with('.') || rest.starts_with(['.', '-']))
    });
    fits.max_by_key(|(start, _)| start.len()).map(|(_, advice)| *advice)
}

/// The parts of a key by which Flink knows a secret.
const SECRET: &[&str] = &[
    "password",
    "secret",
    "access-key",
    "access.key",
    "account.key",
    "apikey",
    "api-key",
    "auth-params",
    "service-key",
    "token",
    "basic-auth",
    "jaas.config",
    "http-headers",
    "authorization",
];

/// The value, or stars in its place if the key looks like that of a secret.
pub(super) fn shown<'a>(key: &str, value: &'a str) -> &'a str {
    let key = key.to_ascii_lowercase();
    if SECRET.iter().any(|part| key.contains(part)) { "******" } else { value }
}
