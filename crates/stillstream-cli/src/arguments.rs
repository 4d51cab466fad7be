//! What the command takes.

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Watches and drives running Stillstream jobs, and looks at their checkpoints. What only looks changes
/// nothing and disturbs no job.
#[derive(Parser)]
#[command(name = "stillstream", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Answers in JSON, for scripts.
    #[arg(long, global = true)]
    pub json: bool,
    /// A setting of a store that is reached over the network, such as `-D s3.endpoint=http://minio:9000`.
    /// What is not given is taken from the environment, as a secret should be: AWS_SECRET_ACCESS_KEY and so
    /// on.
    #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = setting, global = true)]
    pub settings: Vec<(String, String)>,
    #[command(subcommand)]
    pub command: Command,
}

/// The settings that say how a store is reached.
const SETTINGS: [&str; 7] = [
    "s3.access-key",
    "s3.secret-key",
    "s3.session-token",
    "s3.endpoint",
    "s3.region",
    "s3.path.style.access",
    "env.hadoop.conf.dir",
];

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if SETTINGS.contains(&key) => Ok((key.into(), value.into())),
        Some((key, _)) => Err(format!("`{key}` is no setting of a store; there are {}", SETTINGS.join(", "))),
        None => Err("a key and a value are expected, with `=` between them".into()),
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// The jobs that run, as their REST interface says; or those of a checkpoint directory: name, outcome,
    /// newest checkpoint. Of a directory of savepoints, those.
    List {
        /// The checkpoint directory (`--checkpoint-dir` of the jobs), or one of savepoints. Without it the
        /// REST interface is asked.
        dir: Option<String>,
        #[command(flatten)]
        server: Server,
    },
    /// The checkpoints of a running job, with their durations; or of a folder, those that a job can be
    /// started from.
    Checkpoints {
        #[command(flatten)]
        job: JobArguments,
        #[command(flatten)]
        server: Server,
    },
    /// The failures of a running job.
    Exceptions {
        /// The job's name or id.
        job: String,
        #[command(flatten)]
        server: Server,
    },
    /// Takes a savepoint of a running job, which goes on, and prints its path.
    Savepoint {
        #[command(flatten)]
        wanted: SavepointArguments,
        #[command(flatten)]
        server: Server,
    },
    /// Stops a running job with a savepoint: all its output is committed, and it can go on from the path that
    /// is printed.
    Stop {
        #[command(flatten)]
        wanted: SavepointArguments,
        /// Ends event time first, so that every window and timer fires: for a job that is not to go on.
        #[arg(long)]
        drain: bool,
        #[command(flatten)]
        server: Server,
    },
    /// Ends a running job at once, without a last checkpoint.
    Cancel {
        /// The job's name or id.
        job: String,
        /// Does not wait for the job's end.
        #[arg(long)]
        detached: bool,
        #[command(flatten)]
        server: Server,
    },
    /// Takes a checkpoint of a running job now, and prints its number and path.
    Checkpoint {
        /// The job's name or id.
        job: String,
        /// Writes all state anew, also what earlier checkpoints hold. Later incremental checkpoints build on
        /// it, and the files of those before it go when they are subsumed.
        #[arg(long)]
        full: bool,
        /// Does not wait: prints the id of the request.
        #[arg(long)]
        detached: bool,
        #[command(flatten)]
        server: Server,
    },
    /// What is in a checkpoint: operators, states, their types and sizes, keys and values.
    Inspect {
        /// A checkpoint's directory, such as `/data/checkpoints/<job id>/chk-17`, or a savepoint's.
        path: String,
        #[command(flatten)]
        look: Look,
    },
    /// Reads every file that a checkpoint names and compares its checksum. Of a job's directory, all
    /// checkpoints.
    Verify {
        /// A checkpoint's or savepoint's directory, or a job's.
        path: String,
        /// Looks only whether each file is there with its length.
        #[arg(long)]
        lengths: bool,
    },
    /// What a snapshot would become in a program: which operator gets which state, what is left over, which
    /// types change, what each subtask gets. Nothing is started or changed. Exit code 3: it cannot be
    /// restored.
    RestorePlan(RestorePlan),
    /// What the files in a job's directory are for, and which of them nothing needs.
    Gc {
        #[command(flatten)]
        job: JobArguments,
        /// Deletes what nothing needs. Refused while a process runs the job.
        #[arg(long)]
        delete: bool,
        /// With `--delete`, of a job on a store that is reached over the network, where nobody sees whether a
        /// process runs it: takes the job away from a process that does, which then ends.
        #[arg(long, requires = "delete")]
        take_over: bool,
    },
    /// What jobs left on a Kafka cluster. Needs the cargo feature `kafka`.
    #[command(subcommand)]
    Kafka(KafkaCommand),
}

#[derive(Subcommand)]
#[cfg_attr(
    not(feature = "kafka"),
    allow(dead_code, reason = "without the feature there is no client that asks")
)]
pub(crate) enum KafkaCommand {
    /// The open transactions of sinks; commits or aborts those that a dead job left, for which readers of
    /// committed records wait. A job that starts again sees to its own.
    Transactions(TransactionsArguments),
}

#[derive(Args)]
#[cfg_attr(
    not(feature = "kafka"),
    allow(dead_code, reason = "without the feature there is no client that asks")
)]
pub(crate) struct TransactionsArguments {
    /// The brokers to begin with, as `host:port`, separated by commas.
    #[arg(long)]
    pub brokers: String,
    /// What the transactional ids begin with: `transactional_id_prefix` of the sinks. Required, but for
    /// `--commit` and `--abort`.
    #[arg(long, required_unless_present_any = ["commit", "abort"])]
    pub prefix: Option<String>,
    /// Commits the transaction that is open under this id: only where a completed checkpoint holds it and its
    /// job will never start again.
    #[arg(long, value_name = "ID", conflicts_with_all = ["abort", "abort_all"])]
    pub commit: Option<String>,
    /// Aborts the transaction that is open under this id; a job that still writes in it fails.
    #[arg(long, value_name = "ID", conflicts_with = "abort_all")]
    pub abort: Option<String>,
    /// Aborts all that are open under ids with the prefix. Stop the jobs first that use it.
    #[arg(long)]
    pub abort_all: bool,
    /// A file of properties of the client, such as those of TLS and SASL, as Kafka's own tools take it.
    #[arg(long, value_name = "FILE")]
    pub command_config: Option<std::path::PathBuf>,
}

/// Where a running job is asked.
#[derive(Args)]
pub(crate) struct Server {
    /// Where the REST interface answers, as the job's log says. Without it: the variable STILLSTREAM_REST, or
    /// http://127.0.0.1:8081.
    #[arg(long, value_name = "URL")]
    pub rest: Option<String>,
    /// A file whose first line is the token that the REST interface asks for. Without it: the variable
    /// STILLSTREAM_REST_TOKEN.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<String>,
}

#[derive(Args)]
pub(crate) struct SavepointArguments {
    /// The job's name or id.
    pub job: String,
    /// The directory in which the savepoint's own directory is made. Without it: the job's
    /// `execution.checkpointing.savepoint-dir`.
    pub dir: Option<String>,
    /// The form of keyed state: `canonical`, which every backend reads, or `native`, which is faster.
    #[arg(long = "type", value_name = "FORM", default_value = "canonical")]
    pub form: Form,
    /// Does not wait: prints the id of the request.
    #[arg(long)]
    pub detached: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Form {
    /// The same for all state backends.
    Canonical,
    /// The backend's own files.
    Native,
}

#[derive(Args)]
pub(crate) struct JobArguments {
    /// The job's directory, `<checkpoint directory>/<job id>`; or the checkpoint directory, if one job is in
    /// it or `--job` says which one. `checkpoints` takes a running job's name or id as well.
    pub dir: String,
    /// The job's name or id.
    #[arg(long)]
    pub job: Option<String>,
}

#[derive(Args)]
pub(crate) struct RestorePlan {
    /// A savepoint's directory, or that of a retained checkpoint.
    pub snapshot: String,
    /// The job's program, which is asked for its plan and does not run; or a plan file of `<program> plan
    /// --json`.
    #[arg(long)]
    pub job: String,
    /// Another parallelism for operators that do not set their own.
    #[arg(long)]
    pub parallelism: Option<u32>,
    /// State that no operator claims may be left behind.
    #[arg(long)]
    pub allow_non_restored_state: bool,
    /// What fields hold that the program's types no longer have may be lost.
    #[arg(long)]
    pub allow_dropped_fields: bool,
    /// Arguments of the program.
    #[arg(last = true)]
    pub arguments: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Look {
    /// Only this operator: its uid, name or id.
    #[arg(long)]
    pub operator: Option<String>,
    /// Shows the entries of this state.
    #[arg(long)]
    pub state: Option<String>,
    /// Shows all states of this key, given as JSON or as plain text.
    #[arg(long)]
    pub key: Option<String>,
    /// Entries that are shown at most.
    #[arg(long, default_value_t = 20)]
    pub limit: usize,
    /// Shows the bytes of each key group.
    #[arg(long)]
    pub groups: bool,
}
