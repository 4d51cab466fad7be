//! Standby JobManagers, results of jobs, and cleaning up after them.

use super::super::foreign::HIGH_AVAILABILITY as STANDBY;
use super::super::value::Kind;
use super::{Row, option};

const STORE: &str = "nothing is kept in ZooKeeper, in Kubernetes or beside the checkpoints: the register in the job's checkpoint \
                     directory names the checkpoints and says how the job ended";
const CLEANUP: &str =
    "what a job leaves behind is deleted when it ends, and what that leaves at its next start: leave it out";

pub(super) const ROWS: &[Row] = &[
    option(
        "high-availability.cluster-id",
        Kind::Text,
        "/default",
        "name that separates clusters in one store",
    )
    .older(&["high-availability.zookeeper.path.namespace", "recovery.zookeeper.path.namespace"])
    .no_effect(STANDBY),
    option("high-availability.jobmanager.port", Kind::Text, "0", "port of the JobManager, or a range")
        .older(&["recovery.jobmanager.port"])
        .no_effect(STANDBY),
    option(
        "high-availability.kubernetes.leader-election.lease-duration",
        Kind::Duration,
        "15 s",
        "how long a leader's lease lasts",
    )
    .no_effect(STANDBY),
    option(
        "high-availability.kubernetes.leader-election.renew-deadline",
        Kind::Duration,
        "15 s",
        "a leader that could not renew by then steps down",
    )
    .no_effect(STANDBY),
    option(
        "high-availability.kubernetes.leader-election.retry-period",
        Kind::Duration,
        "5 s",
        "pause between tries to get or renew the lease",
    )
    .no_effect(STANDBY),
    option("high-availability.storageDir", Kind::Text, "", "where the metadata of jobs is kept")
        .older(&["high-availability.zookeeper.storageDir", "recovery.zookeeper.storageDir"])
        .no_effect(STORE),
    option(
        "high-availability.type",
        Kind::Choice(&["NONE", "zookeeper", "kubernetes"]),
        "NONE",
        "NONE, zookeeper or kubernetes",
    )
    .older(&["recovery.mode", "high-availability"])
    .no_effect(STANDBY),
    option("high-availability.zookeeper.client.acl", Kind::Text, "open", "`open` or `creator`")
        .no_effect(STORE),
    option("high-availability.zookeeper.client.authorization", Kind::Map, "", "schemes and credentials")
        .no_effect(STORE),
    option(
        "high-availability.zookeeper.client.connection-timeout",
        Kind::Duration,
        "15 s",
        "how long to wait for a connection",
    )
    .older(&["recovery.zookeeper.client.connection-timeout"])
    .no_effect(STORE),
    option(
        "high-availability.zookeeper.client.ensemble-tracker",
        Kind::Boolean,
        "true",
        "follow changes of the ensemble",
    )
    .no_effect(STORE),
    option(
        "high-availability.zookeeper.client.max-close-wait",
        Kind::Duration,
        "",
        "how long closing may take",
    )
    .no_effect(STORE),
    option("high-availability.zookeeper.client.max-retry-attempts", Kind::Integer, "3", "tries of a request")
        .older(&["recovery.zookeeper.client.max-retry-attempts"])
        .no_effect(STORE),
    option(
        "high-availability.zookeeper.client.max-retry-wait",
        Kind::Duration,
        "1 min",
        "longest pause between tries",
    )
    .no_effect(STORE),
    option("high-availability.zookeeper.client.retry-wait", Kind::Duration, "5 s", "pause between tries")
        .older(&["recovery.zookeeper.client.retry-wait"])
        .no_effect(STORE),
    option(
        "high-availability.zookeeper.client.session-timeout",
        Kind::Duration,
        "1 min",
        "a silent client loses its session",
    )
    .older(&["recovery.zookeeper.client.session-timeout"])
    .no_effect(STORE),
    option(
        "high-availability.zookeeper.client.simulated-session-expiration-percent",
        Kind::Integer,
        "",
        "for tests: share of sessions that expire",
    )
    .no_effect(STORE),
    option(
        "high-availability.zookeeper.client.tolerate-suspended-connections",
        Kind::Boolean,
        "false",
        "a suspended connection does not revoke leadership",
    )
    .no_effect(STORE),
    option(
        "high-availability.zookeeper.path.applications",
        Kind::Text,
        "/applications",
        "node below the root for applications",
    )
    .no_effect(STORE),
    option(
        "high-availability.zookeeper.path.execution-plans",
        Kind::Text,
        "/execution-plans",
        "node below the root for plans",
    )
    .older(&["recovery.zookeeper.path.jobgraphs", "high-availability.zookeeper.path.jobgraphs"])
    .no_effect(STORE),
    option("high-availability.zookeeper.path.root", Kind::Text, "/flink", "root node")
        .older(&["recovery.zookeeper.path.root"])
        .no_effect(STORE),
    option("high-availability.zookeeper.quorum", Kind::Text, "", "addresses of the ensemble")
        .older(&["recovery.zookeeper.quorum"])
        .no_effect(STORE),
    option(
        "job-result-store.delete-on-commit",
        Kind::Boolean,
        "true",
        "a result is deleted when its job is cleaned up",
    )
    .no_effect(STORE),
    option("job-result-store.storage-path", Kind::Text, "", "where results of jobs are kept")
        .no_effect(STORE),
    option(
        "cleanup-strategy.exponential-delay.attempts",
        Kind::Integer,
        "2147483647",
        "tries to clean up after a job",
    )
    .no_effect(CLEANUP),
    option("cleanup-strategy.exponential-delay.initial-backoff", Kind::Duration, "1 s", "first pause")
        .no_effect(CLEANUP),
    option("cleanup-strategy.exponential-delay.max-backoff", Kind::Duration, "1 h", "largest pause")
        .no_effect(CLEANUP),
    option(
        "cleanup-strategy.fixed-delay.attempts",
        Kind::Integer,
        "2147483647",
        "tries to clean up after a job",
    )
    .no_effect(CLEANUP),
    option("cleanup-strategy.fixed-delay.delay", Kind::Duration, "1 min", "pause before each")
        .no_effect(CLEANUP),
    option(
        "cleanup-strategy.type",
        Kind::Choice(&["none", "off", "disable", "fixed-delay", "exponential-delay"]),
        "exponential-delay",
        "none/off/disable, fixed-delay or exponential-delay",
    )
    .older(&["cleanup-strategy"])
    .no_effect(CLEANUP),
];
