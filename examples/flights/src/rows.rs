//! The rows that are read and written.

use serde::{Deserialize, Serialize};
use stillstream::prelude::*;

/// A departure, in the order in which it became known.
#[derive(Clone, Debug, Data, Serialize, Deserialize)]
pub struct Flight {
    pub scheduled: Timestamp,
    /// Minutes; none if the flight was cancelled.
    pub dep_delay: Option<i32>,
    pub arr_delay: Option<i32>,
    pub carrier: String,
    pub flight: u32,
    pub tailnum: Option<String>,
    pub origin: String,
    pub dest: String,
    pub air_time: Option<i32>,
    pub distance: i32,
}

/// The weather at an airport in one hour. Numbers are kept as they are written.
#[derive(Clone, Debug, Data, Serialize, Deserialize)]
pub struct Weather {
    pub origin: String,
    pub time_hour: Timestamp,
    pub wind_speed: Option<String>,
    pub precip: Option<String>,
}

/// One airport and one hour of scheduled departures.
#[derive(Clone, Debug, Data, Serialize)]
pub struct AirportHour {
    pub hour: Timestamp,
    pub origin: String,
    pub flights: u64,
    pub cancelled: u64,
    pub mean_dep_delay: String,
    pub p95_dep_delay: Option<i32>,
    pub precip: Option<String>,
    pub wind_speed: Option<String>,
}

/// One carrier and one day (UTC) of scheduled departures.
#[derive(Clone, Debug, Data, Serialize)]
pub struct CarrierDay {
    pub day: String,
    pub carrier: String,
    pub flights: u64,
    pub delayed_15: u64,
    pub total_dep_delay: i64,
}
