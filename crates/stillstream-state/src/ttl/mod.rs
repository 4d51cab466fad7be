//! State with a time to live (TTL): a value that nobody has touched for so long is gone.
//!
//! | file | what is inside |
//! |---|---|
//! | `config` | [`StateTtlConfig`]: how long, what counts as a touch, who cleans up |
//! | `rule` | what one state's configuration says at a moment, the clock, the counts of expired entries |
//! | `stamped` | a value with the time of its last touch: what such state stores |
//! | `value`, `list`, `map` | the kinds, over any backend's store of stamped values |
//! | `with_ttl` | [`WithTtl`]: where a backend makes them |
//! | `sift` | expired parts of entries in binary form: for snapshots and compactions |
//!
//! State without a time to live has nothing of this: its tables store bare values.

mod config;
mod list;
mod map;
mod rule;
mod sift;
mod stamped;
mod value;
mod with_ttl;

pub use config::CompactionCleanup;
pub use config::{StateTtlConfig, TtlUpdateType, TtlVisibility};
pub use rule::{ExpiredEntries, Rule, Rules, StateClock};
pub use sift::{Sift, Sifted};
pub use stamped::{Expire, Stamped, stamping_at};
pub use with_ttl::WithTtl;
