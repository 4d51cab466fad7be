//! The scenarios: what each is, one a file.

mod chain;
mod count;
mod filled;
mod join;
mod nexmark;
mod plain;
#[cfg(feature = "rocksdb")]
mod raw_rocksdb;
#[cfg(not(feature = "rocksdb"))]
#[path = "no_rocksdb.rs"]
mod raw_rocksdb;
mod raw_timely;
mod recover;
mod snapshot;
mod start;
mod steady;
mod window;
mod words;

use stillstream::{Error, ErrorKind, Result};

use crate::measurement::Measurement;
use crate::settings::Settings;

/// A scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// As it is written on the command line and in results.
    pub name: &'static str,
    /// What its jobs do, for the page of results.
    pub work: &'static str,
    run: fn(&Settings) -> Result<Measurement>,
}

/// All scenarios.
pub const ALL: [Scenario; 13] = [
    Scenario {
        name: "LOOP",
        work: "the roof: COUNT as a bare loop over a hash map, in one thread",
        run: plain::run,
    },
    Scenario {
        name: "TIMELY",
        work: "COUNT in raw Timely: exchange, a hash map in a `unary`; no state API, no barriers",
        run: raw_timely::run,
    },
    Scenario {
        name: "COUNT",
        work: "key = (splitmix64(seq) >> 1) % K, value = seq & 0xFF; running sum in value state, a result for each record",
        run: count::run,
    },
    Scenario {
        name: "COUNT+ckpt",
        work: "COUNT with a checkpoint every second to a local folder",
        run: count::run_with_checkpoints,
    },
    Scenario {
        name: "WINDOW",
        work: "count per key in windows of event time; a million records for each second of event time",
        run: window::run,
    },
    Scenario {
        name: "WORDS",
        work: "lines of a text file, `flat_map`, key by word, running count; a record is a word",
        run: words::run,
    },
    Scenario { name: "CHAIN", work: "map, filter, map; no exchange, no state", run: chain::run },
    Scenario { name: "JOIN", work: "two keyed inputs, `connect`, value state on each side", run: join::run },
    Scenario {
        name: "NEXMARK",
        work: "a query of Nexmark over two million events of the profile *fast*, in order; its result is compared with the known one where \
               there is one",
        run: nexmark::run,
    },
    Scenario {
        name: "RECOVER",
        work: "an operator fails; from its error to the first record out of the restarted job",
        run: recover::run,
    },
    Scenario {
        name: "SNAPSHOT",
        work: "COUNT with all keys in use, and checkpoints by request: what each costs the workers, and memory",
        run: snapshot::run,
    },
    Scenario {
        name: "START",
        work: "from the start of the process to the first record behind a row of operators, each a task of its own",
        run: start::run,
    },
    Scenario {
        name: "ROCKSRAW",
        work: "get and put of the same sums on plain RocksDB: one database and thread a worker, the same memory; by name only",
        run: raw_rocksdb::run,
    },
];

/// The scenario of this name.
///
/// # Errors
/// If there is none; the message lists those that there are.
pub fn named(name: &str) -> Result<Scenario> {
    ALL.into_iter().find(|scenario| scenario.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let names = ALL.map(|scenario| scenario.name).join(", ");
        Error::new(ErrorKind::Configuration, format!("there is no benchmark `{name}`; there is: {names}"))
    })
}

impl Scenario {
    /// Runs it once, in this process.
    ///
    /// # Errors
    /// If the job fails, or a figure cannot be measured here.
    pub fn run(&self, settings: &Settings) -> Result<Measurement> {
        (self.run)(settings)
    }
}
