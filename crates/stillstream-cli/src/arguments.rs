//! What the command takes.

use clap::{Args, Parser, Subcommand};

/// Looks at the checkpoints of Stillstream jobs, verifies them and cleans up. Nothing is changed unless
/// `gc --delete` is asked for, and a running job is not disturbed.
#[derive(Parser)]
#[command(name = "stillstream", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Answers in JSON, for scripts.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// The jobs of a checkpoint directory: name, outcome, newest checkpoint. Of a directory of savepoints, those.
    List {
        /// The checkpoint directory (`--checkpoint-dir` of the jobs), or one of savepoints.
        dir: String,
    },
    /// The checkpoints that a job can be started from.
    Checkpoints {
        #[command(flatten)]
        job: JobArguments,
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
    /// What the files in a job's directory are for, and which of them nothing needs.
    Gc {
        #[command(flatten)]
        job: JobArguments,
        /// Deletes what nothing needs. Refused while a process runs the job.
        #[arg(long)]
        delete: bool,
    },
}

#[derive(Args)]
pub(crate) struct JobArguments {
    /// The job's directory, `<checkpoint directory>/<job id>`; or the checkpoint directory, if one job is in
    /// it or `--job` says which one.
    pub dir: String,
    /// The job's name or id.
    #[arg(long)]
    pub job: Option<String>,
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
