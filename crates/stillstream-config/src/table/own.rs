//! Keys that Flink does not have.

use super::super::choice::{FileAccess, PendingTimers, ProgressMode};
use super::super::value::Kind;
use super::{Row, option};

pub(super) const ROWS: &[Row] = &[
    option(
        "stillstream.checkpoint.allow-dropped-fields",
        Kind::Boolean,
        "false",
        "whether fields of stored types that the program's types do not have may be lost; without it a start that would lose them is \
         refused",
    ),
    option(
        "stillstream.checkpoint.fall-back-to",
        Kind::Long,
        "-1",
        "the number of an older checkpoint of the job, from which it goes on although it has newer ones; output that was \
         committed after it may appear twice; -1: the newest",
    ),
    option(
        "stillstream.checkpoint.start-fresh",
        Kind::Boolean,
        "false",
        "ignore the checkpoints that the job already has and start empty; without it a job never starts empty by itself",
    ),
    option(
        "stillstream.flow.bytes-in-flight",
        Kind::MemorySize,
        "32mb",
        "bytes on their way between two operators, per edge and worker, above which sources wait; as measured on some records",
    ),
    option(
        "stillstream.files.access",
        Kind::Choice(FileAccess::NAMES),
        "owner",
        "who may read checkpoints, the register and the output of file sinks: owner (0600, folders 0700), group (0640, 0750), \
         everyone (0644, 0755), umask (what the umask leaves)",
    ),
    option(
        "stillstream.flow.records-in-flight",
        Kind::Integer,
        "65536",
        "records on their way between two operators, per edge and worker, above which sources wait; fewer, about a second of its \
         work, where the consumer is slow",
    )
    .at_least(1.0),
    option(
        "stillstream.job.processes",
        Kind::Integer,
        "1",
        "processes on this machine that the job's workers are spread over",
    )
    .within(1.0, 1_024.0),
    option(
        "stillstream.progress",
        Kind::Choice(ProgressMode::NAMES),
        "auto",
        "when a running job shows its progress on the terminal: auto, always, never",
    ),
    option(
        "stillstream.rest.enabled",
        Kind::Boolean,
        "",
        "whether the job can be watched and driven by REST; not set: if it was started with arguments (`from_args`), or a `rest.` key \
         is set",
    ),
    option(
        "stillstream.rest.token",
        Kind::Text,
        "",
        "what every REST request has to show (`Authorization: Bearer ..`); needed for any `rest.bind-address` but a loopback one. \
         Better in a file, or in the variable STILLSTREAM_REST_TOKEN",
    ),
    option(
        "stillstream.rest.token-file",
        Kind::Text,
        "",
        "file whose first line is the token",
    ),
    option(
        "stillstream.signals",
        Kind::Boolean,
        "true",
        "whether SIGINT (Ctrl-C) and SIGTERM stop a job that `main` executes with a last checkpoint; a second one ends the \
         process at once, as does the first where this is false",
    ),
    option(
        "stillstream.sink.commit-timeout",
        Kind::Duration,
        "10 min",
        "for how long a commit is tried again, with pauses that grow to 10 s; sink.committer.retries may end it before",
    )
    .at_least(1_000.0),
    option(
        "stillstream.state.rocksdb.write-back-ratio",
        Kind::Double,
        "0.5",
        "share of the memory of RocksDB databases that holds hot entries as native values, in front of RocksDB",
    )
    .within(0.0, 0.95),
    option(
        "stillstream.timers.at-end-of-input",
        Kind::Choice(PendingTimers::NAMES),
        "drop",
        "what becomes of timers of processing time that are still set when a bounded input ends: drop, fire (at once), await \
         (their time, and those that are set meanwhile)",
    ),
    option(
        "stillstream.user-keys",
        Kind::List,
        "",
        "how the keys begin that are the program's own, such as `[acme]` for `acme.threshold`: they are read by \
         `Configuration::user_key`, and any other unknown key is an error",
    ),
    option(
        "stillstream.worker.longest-sleep",
        Kind::Duration,
        "1 s",
        "how long a worker without work sleeps at most; whatever brings work wakes it sooner",
    )
    .at_least(1.0),
];
