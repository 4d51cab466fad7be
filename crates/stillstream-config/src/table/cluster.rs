//! State backend, parallelism, calls between processes, tasks, and the web interface.

use super::super::choice::StateBackendType;
use super::super::value::Kind;
use super::{Row, option};

const PAGE: &str = "there is no web page in this release: leave it out";
const FRESH: &str = "statistics are never older than a second: leave it out";
const SCHEDULER: &str = "the parallelism is the one that the job asks for: leave it out";

pub(super) const ROWS: &[Row] = &[
    option(
        "state.backend.type",
        Kind::Choice(StateBackendType::NAMES),
        "hashmap",
        "`hashmap`, `rocksdb` or `forst`; 1.x also `jobmanager` and `filesystem`, which choose the checkpoint storage too",
    )
    .older(&["state.backend"])
    .refuse(&["forst"], "write `hashmap` or `rocksdb`"),
    option(
        "jobmanager.execution.failover-strategy",
        Kind::Choice(&["region", "full"]),
        "region",
        "`region` or `full`",
    )
    .no_effect("the whole job is restarted: leave it out"),
    option(
        "jobmanager.scheduler",
        Kind::Choice(&["Default", "Adaptive", "AdaptiveBatch"]),
        "Default",
        "Default, Adaptive, AdaptiveBatch",
    )
    .no_effect("the parallelism is the one that the job asks for: leave it out"),
    option(
        "scheduler-mode",
        Kind::Choice(&["REACTIVE"]),
        "",
        "REACTIVE = use every slot there is",
    )
    .no_effect("the parallelism is the one that the job asks for: set `parallelism.default`"),
    option(
        "pekko.framesize",
        Kind::MemorySize,
        "10 mb",
        "largest RPC message; caps state in JobManager memory and the size of deploy messages",
    )
    .older(&["akka.framesize"])
    .at_least(1_024.0),
    option(
        "pekko.ask.timeout",
        Kind::Duration,
        "10 s",
        "RPC timeout",
    )
    .older(&["akka.ask.timeout"])
    .no_effect("the processes of a job talk by a protocol of their own: set `heartbeat.timeout`"),
    option(
        "heartbeat.interval",
        Kind::Duration,
        "10 s",
        "time between two signs of life of a process",
    )
    .no_effect("a process gives a sign of life at least once a second: leave it out"),
    option(
        "heartbeat.timeout",
        Kind::Duration,
        "50 s",
        "a process silent for so long is lost",
    )
    .at_least(1_000.0),
    option(
        "heartbeat.rpc-failure-threshold",
        Kind::Integer,
        "2",
        "failed calls in a row after which a process is lost",
    )
    .no_effect("a lost process is noticed by its closed connection in this release: leave it out"),
    option(
        "task.cancellation.interval",
        Kind::Duration,
        "30 s",
        "time between two attempts to stop a task",
    )
    .older(&["task.cancellation-interval"])
    .no_effect("a task is asked once to stop: set `task.cancellation.timeout`"),
    option(
        "task.cancellation.timeout",
        Kind::Duration,
        "3 min",
        "a task that has not stopped by then ends its process; 0 = wait for ever",
    ),
    option(
        "task.cancellation.timers.timeout",
        Kind::Duration,
        "7500 ms",
        "how long running timers may take when a task stops",
    )
    .older(&["timerservice.exceptional.shutdown.timeout"])
    .no_effect("timers stop with their task: set `task.cancellation.timeout`"),
    option(
        "pipeline.max-parallelism",
        Kind::Integer,
        "-1",
        "-1 = derive from parallelism",
    )
    .within(-1.0, 32_768.0),
    option(
        "pipeline.auto-watermark-interval",
        Kind::Duration,
        "200 ms",
        "how often generators of watermarks are asked for one; if it is set, also those that say after each batch how far \
         they are; 0 = never",
    ),
    option(
        "pipeline.auto-generate-uids",
        Kind::Boolean,
        "true",
        "operators without a uid get one from the graph; off = refuse them",
    ),
    option(
        "pipeline.operator-chaining.enabled",
        Kind::Boolean,
        "true",
        "run functions without an exchange between them as one operator",
    )
    .older(&["pipeline.operator-chaining"]),
    option(
        "parallelism.default",
        Kind::Integer,
        "1",
        "subtasks of an operator that does not say",
    )
    .within(1.0, 32_768.0),
    option(
        "taskmanager.numberOfTaskSlots",
        Kind::Integer,
        "1",
        "subtask slots of a TaskManager",
    )
    .at_least(1.0)
    .no_effect("a job starts as many workers as its parallelism: set `parallelism.default`"),
    option(
        "taskmanager.memory.managed.fraction",
        Kind::Double,
        "0.4",
        "share of a TaskManager's memory for state backends and operators",
    )
    .within(0.0, 1.0)
    .no_effect("memory and buffers are not divided up this way: set `stillstream.flow.records-in-flight` to bound the records in flight"),
    option(
        "taskmanager.memory.managed.consumer-weights",
        Kind::Map,
        "OPERATOR:70,STATE_BACKEND:70,PYTHON:30",
        "how managed memory is divided",
    )
    .no_effect("memory and buffers are not divided up this way: set `stillstream.flow.records-in-flight` to bound the records in flight"),
    option(
        "taskmanager.memory.segment-size",
        Kind::MemorySize,
        "32 kb",
        "size of a network buffer",
    )
    .no_effect("memory and buffers are not divided up this way: set `stillstream.flow.records-in-flight` to bound the records in flight"),
    option(
        "taskmanager.network.memory.buffer-debloat.enabled",
        Kind::Boolean,
        "false",
        "size the data in flight by throughput",
    )
    .no_effect("memory and buffers are not divided up this way: set `stillstream.flow.records-in-flight` to bound the records in flight"),
    option(
        "taskmanager.network.memory.buffer-debloat.target",
        Kind::Duration,
        "1 s",
        "time the data in flight should take to be consumed",
    )
    .no_effect("memory and buffers are not divided up this way: set `stillstream.flow.records-in-flight` to bound the records in flight"),
    option(
        "execution.buffer-timeout.enabled",
        Kind::Boolean,
        "true",
        "whether time matters to when a record is sent; `false` (-1 in Flink's code): after a batch, however long that takes",
    ),
    option(
        "execution.buffer-timeout.interval",
        Kind::Duration,
        "100 ms",
        "a record does not wait longer for others that are sent with it; 0: each record is sent by itself",
    )
    .older(&["execution.buffer-timeout"]),
    option(
        "sink.committer.retries",
        Kind::Integer,
        "10",
        "how often a commit is tried again before the job fails, with pauses that grow from 100 ms to 10 s",
    )
    .at_least(0.0),
    option(
        "rest.port",
        Kind::Integer,
        "8081",
        "port of the REST interface, where `rest.bind-port` is not set; 0: any. If neither is set and 8081 is taken, the next free \
         one of the hundred after it",
    )
    .older(&["web.port"])
    .within(0.0, 65_535.0),
    option(
        "rest.bind-port",
        Kind::Text,
        "",
        "port of the REST interface, such as `8081`, or a range, such as `50100-50200`, of which the first free one is taken; 0: any",
    ),
    option(
        "rest.bind-address",
        Kind::Text,
        "localhost",
        "address that the REST interface listens at: `localhost` or an IP address; any but a loopback address needs \
         `stillstream.rest.token`",
    ),
    option(
        "rest.address",
        Kind::Text,
        "",
        "name under which the REST interface is reached beside those of this machine; requests without a token may name it as \
         their host",
    ),
    option(
        "rest.async.store-duration",
        Kind::Duration,
        "5 min",
        "how long a finished async operation (checkpoint, savepoint, stop, disposal) can be asked for",
    ),
    option(
        "rest.cache.checkpoint-statistics.size",
        Kind::Integer,
        "1000",
        "checkpoints whose statistics are cached",
    )
    .no_effect(FRESH),
    option(
        "rest.cache.checkpoint-statistics.timeout",
        Kind::Duration,
        "3 s",
        "age at which cached statistics are read anew",
    )
    .no_effect(FRESH),
    option(
        "web.checkpoints.history",
        Kind::Integer,
        "10",
        "checkpoints in the UI history",
    )
    .older(&["jobmanager.web.checkpoints.history"])
    .no_effect(PAGE),
    option(
        "web.exception-history-size",
        Kind::Integer,
        "16",
        "failures kept for the exception history",
    )
    .no_effect(PAGE),
    option(
        "web.cancel.enable",
        Kind::Boolean,
        "true",
        "the web page may cancel jobs",
    )
    .no_effect(PAGE),
    option(
        "web.rescale.enable",
        Kind::Boolean,
        "true",
        "the web page may change the parallelism",
    )
    .no_effect(PAGE),
    option(
        "cluster.io-pool.size",
        Kind::Integer,
        "",
        "threads for blocking input and output",
    )
    .no_effect("the number of threads for input and output is fixed in this release: leave it out"),
    option(
        "client.timeout",
        Kind::Duration,
        "1 min",
        "how long a client waits for an answer",
    )
    .older(&["akka.client.timeout"])
    .no_effect("a job is started by running its program, which nobody submits: leave it out"),
    option(
        "state.backend.async",
        Kind::Boolean,
        "true",
        "Flink 1.x: write snapshots while processing goes on",
    )
    .no_effect("whether snapshots are asynchronous is said where the backend is made in code: leave it out"),
];

pub(super) const ADAPTIVE: &[Row] = &[
    option(
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
        Kind::Duration,
        "30 s",
        "quiet time after a rescale",
    )
    .older(&["jobmanager.adaptive-scheduler.scaling-interval.min"])
    .no_effect(SCHEDULER),
    option(
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
        Kind::Duration,
        "1 min",
        "how long slots must be steady before a rescale",
    )
    .no_effect(SCHEDULER),
    option(
        "jobmanager.adaptive-scheduler.prefer-minimal-taskmanagers",
        Kind::Boolean,
        "true",
        "use as few TaskManagers as possible",
    )
    .no_effect(SCHEDULER),
    option(
        "jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures",
        Kind::Integer,
        "2",
        "failed checkpoints after which a rescale does not wait for one",
    )
    .no_effect(SCHEDULER),
    option(
        "jobmanager.adaptive-scheduler.rescale-trigger.max-delay",
        Kind::Duration,
        "",
        "longest wait for a checkpoint before a rescale",
    )
    .older(&["jobmanager.adaptive-scheduler.scaling-interval.max"])
    .no_effect(SCHEDULER),
    option(
        "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
        Kind::Duration,
        "10 s",
        "how long slots must be steady before a start",
    )
    .older(&["jobmanager.adaptive-scheduler.resource-stabilization-timeout"])
    .no_effect(SCHEDULER),
    option(
        "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
        Kind::Duration,
        "5 min",
        "how long a start waits for slots",
    )
    .older(&["jobmanager.adaptive-scheduler.resource-wait-timeout"])
    .no_effect(SCHEDULER),
];
