//! Two joins by time: orders with what was shipped for them within four hours, and each hour's orders beside
//! its payments.
//!
//! An interval join keeps a record until the watermark says that no partner can come any more; a window join
//! keeps all of a window. Here the window join is an outer one, so what has no partner is seen too.
//!
//! ```text
//! ("tea", 1)
//! ("salt", 4)
//! ("tea", Some("3"))
//! ("salt", None)
//! ("wine", None)
//! ```

use stillstream::prelude::*;

/// The order's number, what it is about, and when.
type Event = (u64, String, Timestamp);

fn at(hour: u64) -> Timestamp {
    Timestamp::from_millis(0) + hours(hour)
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    let events = |events: Vec<(u64, &str, u64)>| {
        let events = events.into_iter().map(|(order, text, hour)| (order, text.to_string(), at(hour)));
        env.from_collection(events.collect::<Vec<Event>>())
            .watermarks(WatermarkStrategy::monotonic().timestamp(|event: &Event| event.2))
            .key_by(|event| event.0)
    };
    let orders = events(vec![(1, "tea", 8), (2, "salt", 9), (3, "wine", 9)]);
    let shipments = events(vec![(1, "", 9), (2, "", 13), (3, "", 14)]);
    let payments = events(vec![(1, "3", 8), (2, "1", 10)]);

    orders
        .interval_join(&shipments, Duration::ZERO..=hours(4), |order, shipment| {
            // how many hours it took
            (order.1.clone(), (shipment.2 - order.2).as_secs() / 3600)
        })
        .uid("shipped")
        .print();

    orders
        .join(&payments)
        .window(Tumbling::of(hours(1)))
        .left_outer(|order, payment| (order.1.clone(), payment.map(|payment| payment.1.clone())))
        .uid("paid")
        .print();

    env.execute("joins by time").map(drop)
}
