//! The short table at the end of the demonstration.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use stillstream::prelude::*;

#[derive(Deserialize)]
struct Hour {
    hour: String,
    origin: String,
    flights: u64,
    cancelled: u64,
    mean_dep_delay: Option<f64>,
    p95_dep_delay: Option<i64>,
    precip: Option<f64>,
    wind_speed: Option<f64>,
}

#[derive(Deserialize)]
struct Day {
    carrier: String,
    flights: u64,
    delayed_15: u64,
    total_dep_delay: i64,
}

/// All rows of the CSV files in a folder.
fn read<T: for<'de> Deserialize<'de>>(folder: &Path) -> Result<Vec<T>> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            for row in csv::Reader::from_path(&path)?.deserialize() {
                rows.push(row?);
            }
        }
    }
    Ok(rows)
}

/// Prints the worst hours and the carriers' ranking.
pub fn print(out: &Path) -> Result<()> {
    let mut hours: Vec<Hour> = read(&out.join("airport_hours"))?;
    let days: Vec<Day> = read(&out.join("carrier_days"))?;
    let flights: u64 = hours.iter().map(|hour| hour.flights).sum();
    println!("\n{flights} departures in {} airport hours, {} carrier days\n", hours.len(), days.len());

    hours.retain(|hour| hour.flights >= 10 && hour.mean_dep_delay.is_some());
    hours.sort_by(|a, b| b.mean_dep_delay.unwrap_or(0.0).total_cmp(&a.mean_dep_delay.unwrap_or(0.0)));
    println!("Worst hours             airport  flights  cancelled  mean delay  95 %  rain (in)  wind (mph)");
    for hour in hours.iter().take(5) {
        let number =
            |value: Option<f64>, places: usize| value.map_or("-".into(), |value| format!("{value:.places$}"));
        println!(
            "{:<23} {:<8} {:>7}  {:>9}  {:>10.1}  {:>4}  {:>9}  {:>10}",
            hour.hour,
            hour.origin,
            hour.flights,
            hour.cancelled,
            hour.mean_dep_delay.unwrap_or(0.0),
            hour.p95_dep_delay.unwrap_or(0),
            number(hour.precip, 2),
            number(hour.wind_speed, 1)
        );
    }

    let mut carriers: BTreeMap<&str, (u64, u64, i64)> = BTreeMap::new();
    for day in &days {
        let sum = carriers.entry(&day.carrier).or_default();
        *sum = (sum.0 + day.flights, sum.1 + day.delayed_15, sum.2 + day.total_dep_delay);
    }
    let mut ranking: Vec<_> = carriers.into_iter().collect();
    ranking.sort_by_key(|(_, (flights, delayed, _))| delayed * 1_000_000 / flights.max(&1));
    println!("\nCarrier  flights  delayed 15 min or more  minutes of delay a flight");
    for (carrier, (flights, delayed, total)) in ranking {
        let of = flights.max(1) as f64;
        println!(
            "{carrier:<7}  {flights:>7}  {:>20.1} %  {:>25.1}",
            delayed as f64 * 100.0 / of,
            total as f64 / of
        );
    }
    println!(
        "\nResults: {}/airport_hours, {}/carrier_days, {}/late",
        out.display(),
        out.display(),
        out.display()
    );
    Ok(())
}
