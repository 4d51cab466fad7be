//! The progress line on a terminal: records per second, last checkpoint, restarts.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use stillstream_jobmaster::{CheckpointStatistics, JobStatus};

use super::client::JobMetrics;
use super::settings::ProgressMode;

#[derive(Debug)]
pub(crate) struct Progress {
    on: bool,
    shown: Option<(Duration, u64)>,
    rate: f64,
    visible: bool,
}

fn short(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e4 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

impl Progress {
    pub fn new(mode: ProgressMode) -> Self {
        let on = match mode {
            ProgressMode::Auto => std::io::stderr().is_terminal(),
            ProgressMode::Always => true,
            ProgressMode::Never => false,
        };
        Self { on, shown: None, rate: 0.0, visible: false }
    }

    pub fn show(
        &mut self,
        now: Duration,
        status: JobStatus,
        metrics: &JobMetrics,
        checkpoints: &CheckpointStatistics,
        restarts: u64,
    ) {
        if !self.on {
            return;
        }
        if let Some((at, records)) = self.shown {
            let passed = now.saturating_sub(at).as_secs_f64();
            if passed < 0.25 {
                return;
            }
            self.rate = metrics.records_in.saturating_sub(records) as f64 / passed;
        }
        self.shown = Some((now, metrics.records_in));
        let last = match &checkpoints.last_completed {
            Some(last) => format!(
                "checkpoint {} ({:.0} ms, {}B)",
                last.id,
                last.duration.as_secs_f64() * 1e3,
                short(last.size_bytes as f64)
            ),
            None => "no checkpoint yet".into(),
        };
        let failed = match checkpoints.counts.failed_checkpoints() {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let line = format!(
            "{}  {} records in  {}/s  {last}{failed}  {restarts} restarts",
            status.name(),
            short(metrics.records_in as f64),
            short(self.rate)
        );
        // a terminal that is gone is no reason to fail
        let _ = write!(std::io::stderr(), "\r\x1b[2K{line}");
        let _ = std::io::stderr().flush();
        self.visible = true;
    }

    pub fn clear(&mut self) {
        if self.visible {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
            let _ = std::io::stderr().flush();
        }
    }
}
