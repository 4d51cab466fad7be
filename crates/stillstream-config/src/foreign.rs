//! Keys of Flink's that are not in the table: they mean nothing here, and a warning says what happens
//! instead. Also: which keys are secret.

/// Keys that begin alike, and what happens in their place.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// How they begin: a whole key, or up to a point.
    pub start: &'static str,
    /// What happens instead, as a sentence without its end.
    pub instead: &'static str,
}

const JAVA: &str = "there are no Java processes here: leave it out";
const CLASSES: &str = "no classes are loaded here, all code is in the program: leave it out";
const CLUSTER: &str =
    "a job is a program that starts its own workers, without a cluster to join: leave it out";
const SLOTS: &str = "a job starts as many workers as its parallelism, and none are shared: leave it out";
const MEMORY: &str = "memory is not divided up in advance: set `state.backend.rocksdb.memory.fixed-per-tm` for RocksDB, and \
                      `stillstream.flow.bytes-in-flight` for records between operators";
const NETWORK: &str = "records between workers go through Timely's channels: set `stillstream.flow.records-in-flight` or \
                       `stillstream.flow.bytes-in-flight`, which bound what is on its way";
const RPC: &str = "the processes of a job talk by a protocol of their own, on this machine: leave it out";
const BATCH: &str = "every job is a streaming job, and one with bounded input ends with it: leave it out";
const SUBMISSION: &str = "a job is started by running its program, which nobody submits: leave it out";
const PLATFORM: &str = "this platform is not asked for containers: start the program in one, and let the platform start it again when \
                        it ends with an error";
const REST: &str = "the REST interface has none of this: `rest.port`, `rest.bind-port`, `rest.bind-address` and `rest.address` are read";
const PAGE: &str =
    "there is no web page in this release: use the REST interface or the command `stillstream`";
const METRICS: &str =
    "nothing is reported to other systems in this release: ask the REST interface, or `JobClient::metrics`";
const STORE: &str = "stores that are reached over the network have other keys here (`s3.endpoint` .., in docs/configuration.md), and take the \
     rest from the environment variables of the cloud's own tools";
const SQL: &str = "there is no SQL and no Table API: write the job with the DataStream API";
const PYTHON: &str = "there are no Python functions: leave it out";
const SERIALIZERS: &str =
    "records are written by `derive(Data)`, not by a registered serializer: leave it out";
const FORST: &str =
    "the ForSt backend is not in this release: `state.backend.type: rocksdb` keeps state larger than memory";
const TLS: &str = "connections are not encrypted: workers and the REST interface listen on this machine only, unless \
                   `rest.bind-address` says otherwise, which needs `stillstream.rest.token`";
const TOKENS: &str = "no tokens are fetched or renewed: give the process what it needs from outside";
const SECURITY: &str = "the process runs as the user who started it: leave it out";
const HISTORY: &str = "there is no history server: the register in the job's checkpoint directory says how it ended (`stillstream inspect`)";
const ROCKSDB_METRICS: &str =
    "RocksDB's own figures are not reported: see its log (`state.backend.rocksdb.log.dir`)";
pub(super) const HIGH_AVAILABILITY: &str = "there is no standby JobManager: whatever starts the program again is what brings the job back, and it \
                                 goes on from its last checkpoint";

const ASYNC: &str = "functions read their state at once, without callbacks: leave it out";
const TMP: &str = "temporary files lie in the folder that the variable TMPDIR names: set `state.backend.rocksdb.localdir` for databases";
const PARAMETERS: &str =
    "settings of the program's own have a prefix of their own: name it in `stillstream.user-keys`";
const PARALLELISM: &str = "an operator has the parallelism that the program gives it: use `set_parallelism`";
const NAME: &str = "the job's name is the one that the program gives to `execute`";
const OBJECTS: &str = "records are moved from function to function and never copied in between: leave it out";
const CHAINS: &str = "operators with different greatest parallelisms are not run as one: leave it out";
const EVENT_TIME: &str = "event time is there as soon as a stream has a watermark strategy: leave it out";
const ALIGNMENT: &str = "alignment groups are named in the program, in the watermark strategy: leave it out";
const FETCH: &str = "a file is read in pieces whose size is fixed: leave it out";
const QUERIES: &str = "state cannot be queried from outside: write what you need to a sink";

const fn family(start: &'static str, instead: &'static str) -> Family {
    Family { start, instead }
}

/// The longest that fits counts. Families that the table holds in full (`execution.checkpointing.`,
/// `restart-strategy.` ..) are not here: an unknown key among them is a mistake.
pub const FAMILIES: &[Family] = &[
    family("akka.", RPC),
    family("application-result-store.", HISTORY),
    family("blob.", CLASSES),
    family("classloader.", CLASSES),
    family("client.", SUBMISSION),
    family("cluster.", CLUSTER),
    family("cluster.evenly-spread-out-slots", SLOTS),
    family("cluster.fine-grained-resource-management.", SLOTS),
    family("compiler.", BATCH),
    family("completed-application-store.", HISTORY),
    family("containerized.", PLATFORM),
    family("daemon.", JAVA),
    family("delegation.", TOKENS),
    family("deployment.", SUBMISSION),
    family("env.", JAVA),
    family("events.", METRICS),
    family("execution.allow-client-job-configurations", SUBMISSION),
    family("execution.async-state.", ASYNC),
    family("execution.attached", SUBMISSION),
    family("execution.batch", BATCH),
    family("execution.batch-shuffle-mode", BATCH),
    family("execution.job-listeners", CLASSES),
    family("execution.job-status-changed-listeners", CLASSES),
    family("execution.local-input", BATCH),
    family("execution.program-config", SUBMISSION),
    family("execution.runtime-mode", BATCH),
    family("execution.shutdown-on-application-finish", SUBMISSION),
    family("execution.shutdown-on-attached-exit", SUBMISSION),
    family("execution.sort", BATCH),
    family("execution.sort-keyed-partition", BATCH),
    family("execution.sort-partition", BATCH),
    family("execution.sorted-inputs", BATCH),
    family("execution.state-backend", BATCH),
    family("execution.submit-failed-job-on-application-error", SUBMISSION),
    family("execution.target", SUBMISSION),
    family("execution.terminate-application-on-any-job-terminated-exceptionally", SUBMISSION),
    family("external-resource", PLATFORM),
    family("external-resources", PLATFORM),
    family("fine-grained.", SLOTS),
    family("flink.hadoop.", STORE),
    family("flink.yarn.", PLATFORM),
    family("fs.", STORE),
    family("gs.", STORE),
    family("hadoop.", STORE),
    family("hidden.", JAVA),
    family("high-availability.", HIGH_AVAILABILITY),
    family("historyserver.", HISTORY),
    family("hive.s3.", STORE),
    family("internal.", JAVA),
    family("io.tmp.dirs", TMP),
    family("jmx.", JAVA),
    family("job-event.", BATCH),
    family("job-manager.", CLUSTER),
    family("jobmanager.", CLUSTER),
    family("jobmanager.adaptive-batch-scheduler.", BATCH),
    family("jobmanager.adaptive-scheduler.", SLOTS),
    family("jobmanager.archive.", HISTORY),
    family("jobmanager.heap.", MEMORY),
    family("jobmanager.memory.", MEMORY),
    family("jobmanager.partition.", BATCH),
    family("jobmanager.web.", PAGE),
    family("jobstore.", HISTORY),
    family("kubernetes.", PLATFORM),
    family("library-cache-manager.", CLASSES),
    family("local.", CLUSTER),
    family("materialized-table.", SQL),
    family("mesos.", PLATFORM),
    family("metrics.", METRICS),
    family("minicluster.", CLUSTER),
    family("parallelism.", SLOTS),
    family("pekko.", RPC),
    family("pipeline.", SERIALIZERS),
    family("pipeline.auto-type-registration", SERIALIZERS),
    family("pipeline.cached-files", SUBMISSION),
    family("pipeline.classpaths", CLASSES),
    family("pipeline.closure-cleaner-level", JAVA),
    family("pipeline.global-job-parameters", PARAMETERS),
    family("pipeline.jars", CLASSES),
    family("pipeline.jobvertex-parallelism-overrides", PARALLELISM),
    family("pipeline.name", NAME),
    family("pipeline.object-reuse", OBJECTS),
    family("pipeline.operator-chaining.chain-operators-with-different-max-parallelism", CHAINS),
    family("pipeline.time-characteristic", EVENT_TIME),
    family("pipeline.vertex-description-mode", PAGE),
    family("pipeline.vertex-name-include-index-prefix", PAGE),
    family("pipeline.watermark-alignment.", ALIGNMENT),
    family("plugin.", CLASSES),
    family("presto.s3.", STORE),
    family("process.", TMP),
    family("python.", PYTHON),
    family("query.", QUERIES),
    family("recovery.", HIGH_AVAILABILITY),
    family("resourcemanager.", SLOTS),
    family("rest.", REST),
    family("rpc.", RPC),
    family("s3.", STORE),
    family("s3a.", STORE),
    family("security.", SECURITY),
    family("security.delegation.", TOKENS),
    family("security.kerberos.", TOKENS),
    family("security.ssl.", TLS),
    family("shuffle-service-factory.", NETWORK),
    family("slot.", SLOTS),
    family("slotmanager.", SLOTS),
    family("slow-task-detector.", BATCH),
    family("source.file.", FETCH),
    family("sql-client.", SQL),
    family("sql-gateway.", SQL),
    family("state.backend.forst.", FORST),
    family("state.backend.rocksdb.metrics.", ROCKSDB_METRICS),
    family("table.", SQL),
    family("task.", CLUSTER),
    family("taskmanager.", CLUSTER),
    family("taskmanager.heap.", MEMORY),
    family("taskmanager.memory.", MEMORY),
    family("taskmanager.network.", NETWORK),
    family("taskmanager.numberOfTaskSlots", SLOTS),
    family("taskmanager.resource-id", SLOTS),
    family("traces.", METRICS),
    family("user.artifacts.", SUBMISSION),
    family("web.", PAGE),
    family("yarn.", PLATFORM),
    family("zookeeper.", HIGH_AVAILABILITY),
];

/// What happens in place of a key that is Flink's and means nothing here; `None` if it is none of Flink's.
pub(super) fn advice(key: &str) -> Option<&'static str> {
    let fits = FAMILIES.iter().filter(|Family { start, .. }| {
        key.strip_prefix(start)
            .is_some_and(|rest| rest.is_empty() || start.ends_with('.') || rest.starts_with(['.', '-']))
    });
    fits.max_by_key(|family| family.start.len()).map(|family| family.instead)
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
