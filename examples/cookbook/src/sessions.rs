//! Sessions: what each visitor looked at, until he was silent for half an hour.
//!
//! A window collects the records of a key that belong together in event time. A session window has no fixed
//! length: it grows with each record and ends when none has come for the gap. It is written out when the
//! watermark has passed its end, however late in real time the clicks were read.
//!
//! ```text
//! ("eve", 1970-01-01T00:00:00Z, "home, search, cart")
//! ("bob", 1970-01-01T00:20:00Z, "home")
//! ("eve", 1970-01-01T02:00:00Z, "home, help")
//! ```

use stillstream::prelude::*;

#[derive(Clone, Data)]
struct Click {
    at: Timestamp,
    visitor: String,
    page: String,
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    let clicks = [
        (0, "eve", "home"),
        (12, "eve", "search"),
        (20, "bob", "home"),
        (15, "eve", "cart"), // five minutes late, and in its session all the same
        (120, "eve", "home"),
        (121, "eve", "help"),
    ];

    env.from_collection(clicks.map(|(minute, visitor, page)| Click {
        at: Timestamp::from_millis(minute * 60_000),
        visitor: visitor.into(),
        page: page.into(),
    }))
    .watermarks(WatermarkStrategy::bounded_out_of_orderness(minutes(10)).timestamp(|click: &Click| click.at))
    .key_by_ref(|click| &click.visitor)
    .window(Session::with_gap(minutes(30)))
    .apply(|visitor, window, mut clicks, out| {
        clicks.sort_by_key(|click| click.at);
        let pages: Vec<String> = clicks.into_iter().map(|click| click.page).collect();
        out.emit((visitor.clone(), window.start, pages.join(", ")));
        Ok(())
    })
    .uid("sessions")
    .print();

    env.execute("sessions").map(drop)
}
