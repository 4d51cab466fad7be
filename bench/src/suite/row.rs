//! [`Row`]: several runs of the same, and what they say together.

use std::collections::BTreeMap;

use stillstream::{Result, ResultExt};

use super::plan::Run;
use crate::measurement::{Measurement, quantile, sorted};

/// Several runs of the same.
#[derive(Debug)]
pub struct Row {
    /// What was run.
    pub run: Run,
    /// What each round found.
    rounds: BTreeMap<usize, Measurement>,
    /// Medians of quotients with runs of other rows in the same round, by name.
    ratios: BTreeMap<String, f64>,
}

/// The least, the median and the largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The largest.
    pub most: f64,
}

impl Row {
    /// A row without runs.
    pub fn of(run: Run) -> Self {
        Self { run, rounds: BTreeMap::new(), ratios: BTreeMap::new() }
    }

    /// How many runs there were.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Adds what a round found.
    pub fn add(&mut self, round: usize, measurement: Measurement) {
        self.rounds.insert(round, measurement);
    }

    /// One figure over all rounds; `None` if no round has it.
    pub fn figure(&self, name: &str) -> Option<Spread> {
        if let Some(ratio) = self.ratios.get(name) {
            return Some(Spread { least: *ratio, median: *ratio, most: *ratio });
        }
        let of = |measurement: &Measurement| match name {
            "m_records_per_cpu_s" => Some(measurement.m_records_per_cpu_s),
            "m_records_per_s" => Some(measurement.records as f64 / 1e6 / measurement.wall_s),
            _ => measurement.figures.get(name).copied(),
        };
        let values = sorted(self.rounds.values().filter_map(of).filter(|value| value.is_finite()));
        (!values.is_empty()).then(|| Spread {
            least: quantile(&values, 0.0),
            median: quantile(&values, 0.5),
            most: quantile(&values, 1.0),
        })
    }

    /// The names of figures that only some scenarios have.
    pub fn figures(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.rounds.values().flat_map(|measurement| measurement.figures.keys().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether throughput was measured.
    pub fn has_throughput(&self) -> bool {
        self.rounds.values().any(|measurement| measurement.records > 0)
    }

    /// One line: the medians, how many runs there were, and how far they were apart. `None` without a run.
    pub fn json(&self) -> Option<Result<String>> {
        let middle = self.rounds.values().nth(self.rounds.len() / 2)?;
        let median = |of: fn(&Measurement) -> f64| quantile(&sorted(self.rounds.values().map(of)), 0.5);
        let rate = self.figure("m_records_per_cpu_s")?;
        let mut line = Measurement {
            records: median(|measurement| measurement.records as f64) as u64,
            wall_s: median(|measurement| measurement.wall_s),
            cpu_s: median(|measurement| measurement.cpu_s),
            m_records_per_cpu_s: rate.median,
            figures: self.ratios.clone(),
            ..middle.clone()
        }
        .figure("runs", self.rounds.len() as f64)
        .figure("m_records_per_cpu_s_least", rate.least)
        .figure("m_records_per_cpu_s_most", rate.most);
        for name in self.figures() {
            if let Some(spread) = self.figure(&name) {
                line = line.figure(&name, spread.median);
            }
        }
        Some(serde_json::to_string(&line).map(|line| line + "\n").context(|| "writing a result as JSON"))
    }

    /// The median of the quotient of throughputs over the rounds in which both ran.
    fn ratio_to(&self, other: &Row) -> Option<f64> {
        let ratios = self.rounds.iter().filter_map(|(round, measurement)| {
            let other = other.rounds.get(round)?.m_records_per_cpu_s;
            (other > 0.0).then(|| measurement.m_records_per_cpu_s / other)
        });
        let ratios = sorted(ratios);
        (!ratios.is_empty()).then(|| quantile(&ratios, 0.5))
    }
}

/// Compares COUNT with raw Timely and raw RocksDB, and with checkpoints against without, for each number of
/// keys.
pub fn compare(rows: &mut [Row]) {
    for (of, to, name) in [
        ("LOOP", "TIMELY", "ratio_to_raw_timely"),
        ("COUNT", "TIMELY", "ratio_to_raw_timely"),
        ("COUNT+ckpt", "TIMELY", "ratio_to_raw_timely"),
        ("COUNT", "ROCKSRAW", "ratio_to_raw_rocksdb"),
        ("COUNT+ckpt", "ROCKSRAW", "ratio_to_raw_rocksdb"),
        ("COUNT+ckpt", "COUNT", "ratio_to_count"),
    ] {
        for at in 0..rows.len() {
            let row = &rows[at];
            if row.run.scenario != of {
                continue;
            }
            let like = |other: &&Row| {
                let (one, other) = (&row.run, &other.run);
                other.scenario == to && (other.backend, other.keys) == (one.backend, one.keys)
            };
            let other = rows.iter().find(like);
            if let Some(ratio) = other.and_then(|other| row.ratio_to(other)) {
                rows[at].ratios.insert(name.to_string(), ratio);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::settings::{Backend, Settings};

    /// A row of runs with these throughputs.
    pub fn row(scenario: &'static str, rates: &[f64]) -> Row {
        let keys = 1_000;
        let mut row = Row::of(Run {
            scenario,
            variant: "",
            backend: Backend::Heap,
            keys,
            operators: 0,
            measure_ms: 0,
            memory_mb: 0,
        });
        for (round, rate) in rates.iter().enumerate() {
            let measurement = Measurement::without_span(scenario, &Settings::default());
            let measurement =
                Measurement { m_records_per_cpu_s: *rate, records: 1, wall_s: 1.0, ..measurement };
            row.add(round, measurement.figure("sync_ms", *rate / 10.0));
        }
        row
    }

    #[test]
    fn rows_are_compared_round_by_round() {
        // the machine was half as fast in the second round
        let mut rows = [row("TIMELY", &[40.0, 20.0, 40.0]), row("COUNT", &[30.0, 15.0, 36.0])];
        compare(&mut rows);
        assert_eq!(rows[1].figure("ratio_to_raw_timely").unwrap().median, 0.75);
        rows[1].run.backend = Backend::RocksDb;
        rows[1].ratios.clear();
        compare(&mut rows);
        assert_eq!(rows[1].figure("ratio_to_raw_timely"), None, "another backend is another matter");
        assert_eq!(rows[0].figure("ratio_to_raw_timely"), None);
    }

    #[test]
    fn a_line_of_json_has_the_medians_and_their_spread() {
        let line = row("COUNT", &[30.0, 10.0, 20.0]).json().unwrap().unwrap();
        let found: Measurement = serde_json::from_str(&line).unwrap();
        assert_eq!((found.name.as_str(), found.m_records_per_cpu_s, found.keys), ("COUNT", 20.0, 1_000));
        let figures = ["runs", "m_records_per_cpu_s_least", "m_records_per_cpu_s_most", "sync_ms"];
        assert_eq!(figures.map(|name| found.figures[name]), [3.0, 10.0, 30.0, 2.0]);
        assert!(line.ends_with("}\n") && line.contains("\"checkpoint_interval_ms\":null"), "{line}");
    }
}
