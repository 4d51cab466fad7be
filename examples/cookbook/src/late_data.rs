//! Late data: sums by minute, with corrections for what comes a little late and a side output for the rest.
//!
//! A window fires when the watermark passes its end. Within the allowed lateness a further record makes it
//! fire again, with the new sum. What comes later still goes into a side output, where nothing is lost.
//!
//! ```text
//! sums> (1970-01-01T00:00:00Z, 5)
//! sums> (1970-01-01T00:00:00Z, 15)
//! sums> (1970-01-01T00:01:00Z, 1)
//! sums> (1970-01-01T00:02:00Z, 3)
//! too late> (30, 100)
//! ```

use stillstream::connectors::Print;
use stillstream::prelude::*;

/// The second and the amount of a sale.
type Sale = (i64, u64);

const TOO_LATE: OutputTag<Sale> = OutputTag::new("too late");

struct Total;

impl Aggregate for Total {
    type In = Sale;
    type Acc = u64;
    type Out = u64;
    fn create(&self) -> u64 {
        0
    }
    fn add(&self, sum: &mut u64, (_, amount): Sale) {
        *sum += amount;
    }
    fn merge(&self, sum: &mut u64, other: u64) {
        *sum += other;
    }
    fn result(&self, sum: &u64) -> u64 {
        *sum
    }
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    // a watermark behind each record; usual are monotonic() and bounded_out_of_orderness(..), with one behind
    // each batch
    let watermarks = WatermarkStrategy::punctuated(|_: &Sale, at| Some(at))
        .timestamp(|sale| Timestamp::from_millis(sale.0 * 1000));

    let sums = env
        .from_collection([(10, 5), (61, 1), (40, 10), (125, 3), (30, 100)])
        .watermarks(watermarks)
        .window_all(Tumbling::of(minutes(1)))
        .allowed_lateness(seconds(30))
        .late_output(&TOO_LATE)
        .aggregate_with(Total, |(), window, sum| (window.start, sum))
        .uid("sums");
    sums.side_output(&TOO_LATE).sink_to("too late", Print::with_prefix("too late"));
    sums.sink_to("sums", Print::with_prefix("sums"));

    env.execute("late data").map(drop)
}
