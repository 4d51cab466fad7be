//! What the figures should be, on two cores of a current server.

use super::row::Row;
use crate::settings::Backend;

/// Which side of the bound is good.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// One aim.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    scenario: &'static str,
    variant: &'static str,
    /// Number of keys, or of operators where there are no keys.
    size: u64,
    figure: &'static str,
    bound: Bound,
    /// In words, with the unit.
    pub what: &'static str,
}

const fn aim(
    (scenario, variant, size): (&'static str, &'static str, u64),
    figure: &'static str,
    bound: Bound,
    what: &'static str,
) -> Aim {
    Aim { scenario, variant, size, figure, bound, what }
}

const RATE: &str = "m_records_per_cpu_s";
const M_RECORDS: &str = "million records for each CPU second";
const EXACTLY_ONCE: (&str, &str, u64) = ("COUNT+ckpt", "exactly-once", 1_000_000);
const SNAPSHOT: (&str, &str, u64) = ("SNAPSHOT", "", 10_000_000);

/// All of them.
pub const ALL: [Aim; 18] = [
    aim(("COUNT", "", 1_000), RATE, Bound::AtLeast(50.0), M_RECORDS),
    aim(("COUNT", "", 1_000_000), RATE, Bound::AtLeast(25.0), M_RECORDS),
    aim(("COUNT", "", 10_000_000), RATE, Bound::AtLeast(12.0), M_RECORDS),
    aim(("COUNT", "", 1_000), "ratio_to_raw_timely", Bound::AtLeast(0.9), "of raw Timely"),
    aim(("COUNT", "", 1_000_000), "ratio_to_raw_timely", Bound::AtLeast(1.0), "of raw Timely"),
    aim(EXACTLY_ONCE, "ratio_to_count", Bound::AtLeast(0.95), "of COUNT"),
    aim(EXACTLY_ONCE, "checkpoint_ms_p50", Bound::AtMost(100.0), "ms from trigger to completion, median"),
    aim(SNAPSHOT, "sync_ms_max", Bound::AtMost(2.0), "ms, longest synchronous part"),
    aim(SNAPSHOT, "lost_ms_a_worker", Bound::AtMost(40.0), "ms of a worker's time lost to a snapshot"),
    aim(SNAPSHOT, "longest_busy_ms", Bound::AtMost(5.0), "ms that a batch was held up, of CPU time"),
    aim(SNAPSHOT, "bytes_per_key", Bound::AtMost(40.0), "bytes of memory a key"),
    aim(SNAPSHOT, "peak_bytes_per_key", Bound::AtMost(60.0), "bytes of memory a key at the peak"),
    aim(("WINDOW", "tumbling 1 s", 1_000), RATE, Bound::AtLeast(30.0), M_RECORDS),
    aim(("WINDOW", "tumbling 1 s", 1_000_000), RATE, Bound::AtLeast(4.0), M_RECORDS),
    aim(("WORDS", "", 50_000), "mb_per_cpu_s", Bound::AtLeast(100.0), "MB for each CPU second"),
    aim(
        ("RECOVER", "", 1_000_000),
        "recovery_ms",
        Bound::AtMost(100.0),
        "ms from the error to the first record",
    ),
    aim(("START", "", 1), "start_ms", Bound::AtMost(50.0), "ms to the first record"),
    aim(("START", "", 64), "start_ms", Bound::AtMost(50.0), "ms to the first record"),
];

impl Aim {
    /// The bound, as `>= 50`.
    pub fn bound(&self) -> String {
        match self.bound {
            Bound::AtLeast(bound) => format!(">= {bound}"),
            Bound::AtMost(bound) => format!("<= {bound}"),
        }
    }

    /// The row that it is about.
    pub fn row<'a>(&self, rows: &'a [Row]) -> Option<&'a Row> {
        rows.iter().find(|row| {
            let run = &row.run;
            let size = if run.keys == 0 { u64::from(run.operators) } else { run.keys };
            run.backend == Backend::Heap
                && (run.scenario, run.variant, size) == (self.scenario, self.variant, self.size)
        })
    }

    /// The median that was found in its row, and whether it is good.
    pub fn result(&self, row: &Row) -> Option<(f64, bool)> {
        let found = row.figure(self.figure)?.median;
        Some(match self.bound {
            Bound::AtLeast(bound) => (found, found >= bound),
            Bound::AtMost(bound) => (found, found <= bound),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn every_aim_is_about_a_row_of_the_suite() {
        let rows: Vec<Row> = plan::runs().into_iter().map(Row::of).collect();
        for aim in ALL {
            assert!(aim.row(&rows).is_some(), "{aim:?}");
        }
    }

    #[test]
    fn an_aim_is_reached_or_missed_by_the_median() {
        let fast = row("COUNT", &[49.0, 51.0, 60.0]);
        assert_eq!(ALL[0].result(&fast), Some((51.0, true)));
        let slow = row("COUNT", &[49.0, 49.5, 60.0]);
        assert_eq!(ALL[0].result(&slow), Some((49.5, false)));
    }
}
