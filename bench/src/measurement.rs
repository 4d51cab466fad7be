//! [`Measurement`]: what one run of a scenario found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stillstream::CheckpointSummary;

use crate::machine::Span;
use crate::settings::Settings;

/// What one run of a scenario found; one line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The scenario, as in `COUNT`.
    pub name: String,
    /// The kind of the scenario where there are several, as in `at-least-once`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// Where state is kept while the job runs.
    pub backend: String,
    /// Number of different keys; 0 if there are none.
    pub keys: u64,
    /// Time between checkpoints; `null`: none are taken by themselves.
    pub checkpoint_interval_ms: Option<u64>,
    /// Records that went through while it was measured.
    pub records: u64,
    /// Wall-clock time.
    pub wall_s: f64,
    /// User and system time of the whole process.
    pub cpu_s: f64,
    /// Millions of records for each second of CPU time.
    pub m_records_per_cpu_s: f64,
    /// Other figures, where they apply; the unit is in the name.
    #[serde(flatten)]
    pub figures: BTreeMap<String, f64>,
}

impl Measurement {
    /// Of the records that went through in `span`.
    pub fn of(name: &str, settings: &Settings, span: Span) -> Self {
        Self {
            name: name.into(),
            variant: String::new(),
            backend: settings.backend.name().into(),
            keys: settings.keys,
            checkpoint_interval_ms: None,
            records: span.records,
            wall_s: span.wall.as_secs_f64(),
            cpu_s: span.cpu.as_secs_f64(),
            m_records_per_cpu_s: span.records as f64 / 1e6 / span.cpu.as_secs_f64().max(1e-9),
            figures: BTreeMap::new(),
        }
    }

    /// Of a scenario that does not measure throughput.
    pub fn without_span(name: &str, settings: &Settings) -> Self {
        let nothing = Span { wall: Default::default(), cpu: Default::default(), records: 0 };
        Self::of(name, settings, nothing)
    }

    /// Says which kind of the scenario it is.
    pub fn variant(mut self, variant: &str) -> Self {
        self.variant = variant.into();
        self
    }

    /// Adds a figure.
    pub fn figure(mut self, name: &str, value: f64) -> Self {
        self.figures.insert(name.into(), value);
        self
    }

    /// Adds what is to be said of completed checkpoints; nothing if there are none.
    pub fn checkpoints(self, completed: &[CheckpointSummary]) -> Self {
        let Some(last) = completed.last() else { return self };
        let of = |f: &dyn Fn(&CheckpointSummary) -> f64| sorted(completed.iter().map(f));
        let durations = of(&|checkpoint| checkpoint.duration.as_secs_f64() * 1e3);
        let sync = of(&|checkpoint| checkpoint.phases.synchronous.as_secs_f64() * 1e3);
        self.figure("sync_ms", quantile(&sync, 0.5))
            .figure("sync_ms_max", quantile(&sync, 1.0))
            .figure("checkpoints", completed.len() as f64)
            .figure("checkpoint_ms_p50", quantile(&durations, 0.5))
            .figure("checkpoint_ms_p99", quantile(&durations, 0.99))
            .figure("checkpoint_bytes", last.size_bytes as f64)
    }
}

/// The values in ascending order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The value that a share `q` of the sorted `values` does not exceed (nearest rank); 0 if there are none.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let rank = (q * values.len() as f64).ceil() as usize;
    values.get(rank.clamp(1, values.len().max(1)) - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values = sorted([5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!([0.0, 0.2, 0.5, 0.99, 1.0].map(|q| quantile(&values, q)), [1.0, 1.0, 3.0, 5.0, 5.0]);
        assert_eq!((quantile(&[7.0], 0.5), quantile(&[], 0.5)), (7.0, 0.0));
    }
}
