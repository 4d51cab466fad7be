//! What a whole suite consists of.

use std::fmt;

use crate::settings::Backend;

/// One row of the table: a scenario with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its scenario.
    pub scenario: &'static str,
    /// A kind of it, or "".
    pub variant: &'static str,
    /// Where state is kept.
    pub backend: Backend,
    /// Number of keys, or 0.
    pub keys: u64,
    /// Number of operators in a row, where that matters.
    pub operators: u32,
    /// How long to measure, in milliseconds.
    pub measure_ms: u64,
    /// Memory of RocksDB in MiB; 0: as much as a job has that sets nothing.
    pub memory_mb: u64,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scenario)?;
        if !self.variant.is_empty() {
            write!(f, ", {}", self.variant)?;
        }
        if self.backend == Backend::RocksDb {
            f.write_str(", RocksDB")?;
        }
        if self.memory_mb > 0 {
            write!(f, " with {} MiB", self.memory_mb)?;
        }
        match (self.keys, self.operators) {
            (0, 0) => Ok(()),
            (0, 1) => f.write_str(", 1 operator"),
            (0, operators) => write!(f, ", {operators} operators"),
            (keys, _) => write!(f, ", K = {}", power_of_ten(keys)),
        }
    }
}

/// 10^6 for 1000000, as it is easier to read; other numbers as they are.
pub fn power_of_ten(n: u64) -> String {
    match n.checked_ilog10() {
        Some(exponent) if exponent > 2 && 10u64.pow(exponent) == n => format!("10^{exponent}"),
        _ => n.to_string(),
    }
}

fn run(scenario: &'static str, variant: &'static str, keys: u64, measure_ms: u64) -> Run {
    Run { scenario, variant, backend: Backend::Heap, keys, operators: 0, measure_ms, memory_mb: 0 }
}

/// COUNT on RocksDB, beside the heap and plain RocksDB, with as much memory as a job has that sets nothing
/// and with a tenth of the state. These rows run only when they are asked for.
pub fn rocksdb_runs() -> Vec<Run> {
    let mut runs = Vec::new();
    // a tenth of what 10^7 keys take in the database
    for (keys, memory_mb) in [(1_000_000, 0), (10_000_000, 24)] {
        runs.push(run("COUNT", "", keys, 2_000));
        runs.push(run("COUNT+ckpt", "exactly-once", keys, 4_000));
        for run in [
            run("ROCKSRAW", "", keys, 4_000),
            run("COUNT", "", keys, 4_000),
            run("COUNT+ckpt", "exactly-once", keys, 6_000),
        ] {
            runs.push(Run { backend: Backend::RocksDb, memory_mb, ..run });
        }
    }
    runs
}

/// The queries of Nexmark.
const NEXMARK: [&str; 11] = ["q0", "q1", "q2", "q3", "q4", "q5", "q7", "q8", "q11", "q18", "q20"];

/// All rows of the default run. Neighbours are compared with one another.
pub fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for keys in [1_000, 1_000_000, 10_000_000] {
        runs.push(run("LOOP", "", keys, 1_000));
        runs.push(run("TIMELY", "", keys, 2_000));
        runs.push(run("COUNT", "", keys, 2_000));
        runs.push(run("COUNT+ckpt", "exactly-once", keys, 4_000));
        if keys == 1_000_000 {
            runs.push(run("COUNT+ckpt", "at-least-once", keys, 4_000));
        }
    }
    runs.extend([
        run("WINDOW", "tumbling 1 s", 1_000, 2_000),
        run("WINDOW", "tumbling 1 s", 1_000_000, 3_000),
        run("WINDOW", "sliding 10 s by 1 s", 1_000, 2_000),
        run("WINDOW", "session, gap 1 s", 1_000_000, 3_000),
        run("WORDS", "", 50_000, 1_000),
        run("CHAIN", "", 0, 1_000),
        run("JOIN", "", 1_000_000, 2_000),
    ]);
    runs.extend(NEXMARK.map(|query| run("NEXMARK", query, 0, 0)));
    runs.extend([run("RECOVER", "", 1_000_000, 0), run("SNAPSHOT", "", 10_000_000, 1_500)]);
    let start = |operators| Run { operators, ..run("START", "", 0, 0) };
    runs.extend([1, 8, 64].map(start));
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn every_scenario_is_in_the_suite() {
        for scenario in scenario::ALL {
            let mut all = runs().into_iter().chain(rocksdb_runs());
            assert!(all.any(|run| run.scenario == scenario.name), "{}", scenario.name);
        }
        let mut all = runs().into_iter().chain(rocksdb_runs());
        assert!(all.all(|run| scenario::named(run.scenario).is_ok()));
        assert!(runs().iter().all(|run| run.backend == Backend::Heap), "the default run stays short");
    }
}
