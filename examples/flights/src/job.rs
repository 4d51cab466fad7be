//! The job: departures by airport and hour, joined with the weather; and by carrier and day.

use std::path::{Path, PathBuf};

use stillstream::prelude::*;

use crate::rows::{AirportHour, CarrierDay, Flight, Weather};

/// Rows that came after their hour was over and written.
const LATE: OutputTag<Flight> = OutputTag::new("late");

/// Where the job reads and writes, and how late rows may come.
pub struct Settings {
    pub flights: PathBuf,
    pub weather: PathBuf,
    pub out: PathBuf,
    pub out_of_orderness: Duration,
    /// The source is spread over this time; none reads as fast as it can.
    pub pace: Option<Duration>,
}

/// Departure delays of one airport in one hour.
struct HourStats;

impl Aggregate for HourStats {
    type In = Flight;
    type Acc = (u64, Vec<i32>);
    type Out = (u64, Vec<i32>);

    fn create(&self) -> Self::Acc {
        (0, Vec::new())
    }
    fn add(&self, (flights, delays): &mut Self::Acc, flight: Flight) {
        *flights += 1;
        delays.extend(flight.dep_delay);
    }
    fn merge(&self, acc: &mut Self::Acc, other: Self::Acc) {
        acc.0 += other.0;
        acc.1.extend(other.1);
    }
    fn result(&self, acc: &Self::Acc) -> Self::Out {
        acc.clone()
    }
}

fn airport_hour(origin: &str, hour: Timestamp, (flights, mut delays): (u64, Vec<i32>)) -> AirportHour {
    delays.sort_unstable();
    let n = delays.len();
    let mean = delays.iter().map(|delay| *delay as f64).sum::<f64>() / n as f64;
    AirportHour {
        hour,
        origin: origin.to_string(),
        flights,
        cancelled: flights - n as u64,
        mean_dep_delay: if n == 0 { String::new() } else { format!("{mean:.2}") },
        // nearest rank
        p95_dep_delay: delays.get((n * 95).div_ceil(100).wrapping_sub(1)).copied(),
        precip: None,
        wind_speed: None,
    }
}

/// Flights, flights delayed by 15 minutes or more, and minutes of delay, of one carrier on one day.
struct DayStats;

impl Aggregate for DayStats {
    type In = Flight;
    type Acc = (u64, u64, i64);
    type Out = (u64, u64, i64);

    fn create(&self) -> Self::Acc {
        (0, 0, 0)
    }
    fn add(&self, acc: &mut Self::Acc, flight: Flight) {
        let delay = flight.dep_delay.unwrap_or(0) as i64;
        *acc = (acc.0 + 1, acc.1 + u64::from(delay >= 15), acc.2 + delay);
    }
    fn merge(&self, acc: &mut Self::Acc, other: Self::Acc) {
        *acc = (acc.0 + other.0, acc.1 + other.1, acc.2 + other.2);
    }
    fn result(&self, acc: &Self::Acc) -> Self::Out {
        *acc
    }
}

/// Adds the weather to each airport and hour. The weather has no watermarks before its end, so every hour
/// waits for it.
struct WithWeather {
    hour: ValueState<AirportHour>,
    weather: ValueState<Weather>,
}

impl CoProcess for WithWeather {
    type Key = (String, Timestamp);
    type In1 = AirportHour;
    type In2 = Weather;
    type Out = AirportHour;

    fn open(states: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self { hour: states.value("hour")?, weather: states.value("weather")? })
    }

    fn process1(&mut self, hour: AirportHour, ctx: &mut CoContext<Self>) -> Result<()> {
        ctx.timers().on_event_time(hour.hour + hours(1))?;
        Ok(self.hour.set(ctx, hour)?)
    }

    fn process2(&mut self, weather: Weather, ctx: &mut CoContext<Self>) -> Result<()> {
        ctx.timers().on_event_time(weather.time_hour + hours(1))?;
        Ok(self.weather.set(ctx, weather)?)
    }

    fn on_timer(&mut self, _: Timestamp, ctx: &mut CoContext<Self>) -> Result<()> {
        if let Some(mut hour) = self.hour.get(ctx)? {
            if let Some(weather) = self.weather.get(ctx)? {
                hour.precip = weather.precip;
                hour.wind_speed = weather.wind_speed;
            }
            ctx.emit(hour);
        }
        self.hour.clear(ctx)?;
        Ok(self.weather.clear(ctx)?)
    }
}

/// A row is late if its hour is over. The same test for both results, so that each row is in both or in
/// neither.
fn split_late(flights: &DataStream<Flight>) -> DataStream<Flight> {
    flights
        .process(|flight, ctx| {
            let last = flight.scheduled.truncate(hours(1)) + hours(1) - millis(1);
            if last <= ctx.watermark() {
                return ctx.side(&LATE, flight);
            }
            ctx.emit(flight);
            Ok(())
        })
        .name("split late rows")
}

/// What comes out of departures and weather.
pub struct Results {
    /// Rows that came too late.
    pub late: DataStream<Flight>,
    pub airport_hours: DataStream<AirportHour>,
    pub carrier_days: DataStream<CarrierDay>,
}

/// The job between its sources and its sinks.
pub fn compute(
    flights: &DataStream<Flight>,
    weather: &DataStream<Weather>,
    out_of_orderness: Duration,
) -> Results {
    let strategy = WatermarkStrategy::bounded_out_of_orderness(out_of_orderness);
    let flights =
        flights.watermarks(strategy.timestamp(|flight: &Flight| flight.scheduled)).uid("flights-watermarks");
    let on_time = split_late(&flights);
    let airport_hours = on_time
        .key_by_ref(|flight| &flight.origin)
        .window(Tumbling::of(hours(1)))
        .aggregate_with(HourStats, |origin: &String, window: TimeWindow, stats| {
            airport_hour(origin, window.start, stats)
        })
        .uid("airport-hours")
        .connect(weather)
        .key_by(|row| (row.origin.clone(), row.hour), |weather| (weather.origin.clone(), weather.time_hour))
        .process::<WithWeather>()
        .uid("with-weather");
    let carrier_days = on_time
        .key_by_ref(|flight| &flight.carrier)
        .window(Tumbling::of(days(1)))
        .aggregate_with(
            DayStats,
            |carrier: &String, window: TimeWindow, (flights, delayed_15, total_dep_delay)| CarrierDay {
                day: window.start.to_string()[..10].to_string(),
                carrier: carrier.clone(),
                flights,
                delayed_15,
                total_dep_delay,
            },
        )
        .uid("carrier-days");
    Results { late: on_time.side_output(&LATE), airport_hours, carrier_days }
}

/// The files as streams: departures and weather.
pub fn read(
    env: &StreamExecutionEnvironment,
    settings: &Settings,
) -> (DataStream<Flight>, DataStream<Weather>) {
    let mut flights = CsvSource::<Flight>::new(settings.flights.clone());
    if let Some(pace) = settings.pace {
        flights = flights.spread_over(pace);
    }
    let weather = CsvSource::<Weather>::new(settings.weather.clone()).null("NA");
    (env.from_source("flights", flights).uid("flights"), env.from_source("weather", weather).uid("weather"))
}

/// Builds the job on files. What it returns are the rows of `airport_hours`.
pub fn build(env: &StreamExecutionEnvironment, settings: &Settings) -> DataStream<AirportHour> {
    let folder = |name: &str| Path::new(&settings.out).join(name);
    let (flights, weather) = read(env, settings);
    let Results { late, airport_hours, carrier_days } =
        compute(&flights, &weather, settings.out_of_orderness);
    late.sink_to("late", FileSink::csv(folder("late"))).uid("late");
    airport_hours.sink_to("airport_hours", FileSink::csv(folder("airport_hours"))).uid("airport-hours-out");
    carrier_days.sink_to("carrier_days", FileSink::csv(folder("carrier_days"))).uid("carrier-days-out");
    airport_hours
}
