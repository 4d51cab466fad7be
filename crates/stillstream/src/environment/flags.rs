//! The table of arguments that every job takes: what each sets, what it is like, and what `--help` says of
//! it.

use stillstream_config::nearest::distance;
use stillstream_config::{ConfigOption, options as o};

/// What an argument does.
#[derive(Clone, Copy)]
pub(super) enum Sets {
    /// Sets a key to its value.
    Key(&'static str),
    /// Sets a key to what stands for one of these names.
    Name(&'static str, &'static [(&'static str, &'static str)]),
    /// Sets a key to true.
    Switch(&'static str),
    /// Names the configuration file.
    File,
    /// Prints the help.
    Help,
}

/// An argument of every job.
pub(super) struct Flag {
    pub name: &'static str,
    pub sets: Sets,
    /// What its value is called; empty if it takes none.
    value: &'static str,
    pub example: &'static str,
    pub meaning: &'static str,
}

/// An argument of the program's own.
pub(super) struct Own<'a> {
    /// `--name VALUE`, or `--name`.
    pub usage: &'a str,
    pub meaning: &'a str,
}

impl Own<'_> {
    pub fn flag(&self) -> &str {
        self.usage.split([' ', '=']).next().unwrap_or_default()
    }
}

const fn key<T>(
    name: &'static str,
    option: ConfigOption<T>,
    value: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Flag {
    Flag { name, sets: Sets::Key(option.key()), value, example, meaning }
}

const fn named<T>(
    name: &'static str,
    option: ConfigOption<T>,
    names: &'static [(&'static str, &'static str)],
    example: &'static str,
    meaning: &'static str,
) -> Flag {
    Flag { name, sets: Sets::Name(option.key(), names), value: "NAME", example, meaning }
}

const fn switch(name: &'static str, option: ConfigOption<bool>, meaning: &'static str) -> Flag {
    Flag { name, sets: Sets::Switch(option.key()), value: "", example: "", meaning }
}

/// All of them, in the order in which they are shown.
pub(super) const ALL: &[Flag] = &[
    key("--parallelism", o::PARALLELISM, "N", "4", "subtasks of each operator that does not set its own"),
    key("--processes", o::PROCESSES, "N", "2", "processes that the job is spread over, on this machine"),
    key(
        "--checkpoint-dir",
        o::CHECKPOINTS_DIR,
        "URI",
        "/var/lib/job/checkpoints",
        "folder for checkpoints; a start finds those of the job there and goes on",
    ),
    key(
        "--checkpoint-interval",
        o::CHECKPOINTING_INTERVAL,
        "TIME",
        "10s",
        "takes a checkpoint this often, as in 10s or 500ms",
    ),
    key(
        "--savepoint-dir",
        o::SAVEPOINT_DIR,
        "URI",
        "/var/lib/job/savepoints",
        "folder for savepoints whose request names none",
    ),
    named(
        "--storage",
        o::CHECKPOINT_STORAGE,
        &[("memory", "jobmanager"), ("filesystem", "filesystem")],
        "filesystem",
        "where checkpoints are kept: memory or filesystem",
    ),
    named(
        "--backend",
        o::STATE_BACKEND,
        &[("heap", "hashmap"), ("rocksdb", "rocksdb")],
        "rocksdb",
        "where state lies while the job runs: heap or rocksdb",
    ),
    key("--from", o::RECOVERY_PATH, "PATH", "/backup/chk-7", "starts from this checkpoint or savepoint"),
    key("--from-savepoint", o::RECOVERY_PATH, "PATH", "/backup/chk-7", "the same as --from"),
    switch(
        "--allow-non-restored-state",
        o::RECOVERY_IGNORE_UNCLAIMED_STATE,
        "leaves state behind that no operator of the program claims",
    ),
    named(
        "--claim-mode",
        o::RECOVERY_CLAIM_MODE,
        &[("NO_CLAIM", "NO_CLAIM"), ("CLAIM", "CLAIM"), ("LEGACY", "LEGACY")],
        "CLAIM",
        "NO_CLAIM: the snapshot of --from stays yours; CLAIM: the job deletes it one day",
    ),
    key(
        "--from-checkpoint",
        o::FALL_BACK_TO,
        "N",
        "17",
        "goes on from this older checkpoint; output after it may appear twice",
    ),
    switch(
        "--allow-dropped-fields",
        o::ALLOW_DROPPED_FIELDS,
        "loses what fields hold that the program's types no longer have",
    ),
    switch("--start-fresh", o::START_FRESH, "starts empty although the job has checkpoints"),
    Flag {
        name: "--config",
        sets: Sets::File,
        value: "PATH",
        example: "conf/config.yaml",
        meaning: "configuration file, or the folder with config.yaml or flink-conf.yaml",
    },
    Flag { name: "--help", sets: Sets::Help, value: "", example: "", meaning: "prints this and ends" },
];

/// The name of the checkpoint storage that is meant by a value of `--storage`.
pub(super) fn storage(value: &str) -> Option<&'static str> {
    let same = |name: &str| value.eq_ignore_ascii_case(name);
    let Sets::Name(_, names) = find("--storage")?.sets else { return None };
    names.iter().find(|(name, of_key)| same(name) || same(of_key)).map(|(name, _)| *name)
}

/// The argument of this name.
pub(super) fn find(name: &str) -> Option<&'static Flag> {
    let name = if name == "-h" { "--help" } else { name };
    ALL.iter().find(|flag| flag.name == name)
}

/// The argument that was probably meant: the same but for case, dashes and underscores; one of which this is
/// the beginning; or one that is a few letters away.
pub(super) fn nearest<'a>(written: &str, own: &[Own<'a>]) -> Option<&'a str> {
    let plain = |text: &str| text.trim_start_matches('-').to_lowercase().replace('_', "-");
    let written = plain(written);
    let own = own.iter().map(|own| own.usage.split([' ', '=']).next().unwrap_or_default());
    let near = |name: &&str| {
        let name = plain(name);
        let begins = written.len() >= 6 && name.starts_with(&written);
        begins || distance(&written, &name) <= name.len().div_ceil(6).max(1)
    };
    ALL.iter()
        .map(|flag| flag.name)
        .chain(own)
        .filter(near)
        .min_by_key(|name| distance(&written, &plain(name)))
}

/// Lines of help: what, and what it does, beside or below it.
fn lines<'a>(rows: impl Iterator<Item = (String, &'a str)>) -> String {
    const WIDTH: usize = 28;
    let row = |(what, meaning): (String, &str)| match what.len() {
        0..WIDTH => format!("  {what:WIDTH$}{meaning}\n"),
        _ => format!("  {what}\n  {:WIDTH$}{meaning}\n", ""),
    };
    rows.map(row).collect()
}

/// What `--help` prints.
pub(super) fn help(program: &str, own: &[Own<'_>]) -> String {
    let mut text = format!("Usage: {program} [run | plan] [ARGUMENTS]\n\n");
    text += &lines(
        [
            ("run", "runs the job; the same as neither"),
            ("plan [--json]", "prints the operators with their ids and states, and runs nothing"),
        ]
        .into_iter()
        .map(|(what, meaning)| (what.to_string(), meaning)),
    );
    if !own.is_empty() {
        text += "\nArguments of this program:\n";
        text += &lines(own.iter().map(|own| (own.usage.to_string(), own.meaning)));
    }
    text += "\nArguments of every Stillstream job:\n";
    text += &lines(
        ALL.iter().map(|flag| (format!("{} {}", flag.name, flag.value).trim_end().to_string(), flag.meaning)),
    );
    let more = [
        ("-D KEY=VALUE", "any key of the configuration (docs/configuration.md)"),
        ("-- ..", "all that follows is the program's"),
    ];
    text += &lines(more.into_iter().map(|(what, meaning)| (what.to_string(), meaning)));
    text += "\nEnvironment:\n";
    let variables = [
        ("STILLSTREAM_CONF_DIR", "folder with the configuration file, where --config is not given"),
        ("STILLSTREAM_LOG, RUST_LOG", "what is logged: warn, info, debug, or one of them by module"),
    ];
    text += &lines(variables.into_iter().map(|(what, meaning)| (what.to_string(), meaning)));
    text
}
