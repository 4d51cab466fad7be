//! The job `flights` from topics to topics of Kafka: killed in the middle, and exact.
//!
//! Starts a Kafka of its own (or takes yours, `--brokers`), fills the topics `flights` and `weather` from the
//! files, runs the job, kills it hard (`kill -9`) after a checkpoint, starts it again, and compares what
//! readers of the result see with what the job makes of the files.

#[allow(dead_code, reason = "results go to topics here")]
#[path = "../job.rs"]
mod job;
#[expect(dead_code, reason = "the demonstration on files has options of its own")]
#[path = "../options.rs"]
mod options;
#[path = "../rows.rs"]
mod rows;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde::Serialize;
use stillstream::prelude::*;
use stillstream_services::Kafka;

use job::{Results, Settings};
use rows::{AirportHour, CarrierDay, Flight, Weather};

const ABOUT: &str = "\
usage: flights_kafka [--brokers HOST:PORT] [--out DIR]

Runs the job `flights` from Kafka to Kafka. Without --brokers it starts a Kafka of its own, which `cargo xtask services prepare`
downloads. At other brokers the topics flights, weather, airport_hours and carrier_days must be there, and empty.
";

/// Topics and how many partitions they get.
const TOPICS: [(&str, u32); 4] = [("flights", 3), ("weather", 1), ("airport_hours", 2), ("carrier_days", 2)];

/// Options of the job itself; the environment has the others.
const OWN: &[(&str, &str)] = &[("--job", "is the job"), ("--brokers B", "where the topics are")];

fn source<T: serde::de::DeserializeOwned>(brokers: &str, topic: &str) -> KafkaSource<T> {
    KafkaSource::from_topic(topic).brokers(brokers).json().stop(StopOffsets::Latest)
}

fn sink<T: Serialize + 'static>(brokers: &str, topic: &str) -> KafkaSink<T> {
    KafkaSink::to_topic(topic).brokers(brokers).json()
}

/// The job itself.
fn run_job(brokers: &str, settings: &Settings) -> Result<()> {
    let env = StreamExecutionEnvironment::from_args_with(OWN)?;
    let flights = env.from_source("flights", source::<Flight>(brokers, "flights")).uid("flights");
    let weather = env.from_source("weather", source::<Weather>(brokers, "weather")).uid("weather");
    let results = job::compute(&flights, &weather, settings.out_of_orderness);
    let exactly_once = Delivery::ExactlyOnce;
    results
        .airport_hours
        .sink_to("airport_hours", sink::<AirportHour>(brokers, "airport_hours").delivery(exactly_once))
        .uid("airport-hours-out");
    results
        .carrier_days
        .sink_to("carrier_days", sink::<CarrierDay>(brokers, "carrier_days").delivery(exactly_once))
        .uid("carrier-days-out");
    let result = env.execute("flights from Kafka to Kafka")?;
    if let Some(checkpoint) = result.resumed_from {
        println!("resumed from checkpoint {checkpoint}");
    }
    println!("{result}");
    Ok(())
}

/// Fills the topics from the files. One subtask keeps the rows of each partition in the order of the file.
fn fill(brokers: &str, settings: &Settings) -> Result<()> {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(1);
    let (flights, weather) = job::read(&env, settings);
    flights.sink_to("to flights", sink::<Flight>(brokers, "flights").key(|flight| flight.flight.to_string()));
    weather.sink_to("to weather", sink::<Weather>(brokers, "weather"));
    println!("Filling the topics: {}", env.execute("fill")?);
    Ok(())
}

fn start_job(brokers: &str, checkpoints: &Path) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--job", "--brokers", brokers, "--parallelism", "2", "--checkpoint-interval", "100ms"]);
    command.args(["--storage", "filesystem", "--checkpoint-dir"]).arg(checkpoints);
    Ok(command.spawn()?)
}

/// Whether the job has completed a checkpoint: the second one has been written, which begins when the first
/// is complete.
fn has_checkpoint(checkpoints: &Path) -> bool {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("chk-")?.parse::<u64>().ok();
    entries(checkpoints)
        .flat_map(|job| entries(&job.path()))
        .map(|entry| entry.path())
        .any(|path| number(&path).is_some_and(|number| number > 1) && path.join("_metadata").exists())
}

/// Runs the job, and kills it once.
fn run_and_kill(brokers: &str, checkpoints: &Path) -> Result<()> {
    let mut job = start_job(brokers, checkpoints)?;
    while !has_checkpoint(checkpoints) {
        if let Some(status) = job.try_wait()? {
            let error =
                format!("the job ended with {status} before its second checkpoint, and was not killed");
            return Err(Error::msg(error));
        }
        std::thread::sleep(millis(10));
    }
    job.kill()?;
    job.wait()?;
    println!("\nKilled the job (process {}) with SIGKILL. Starting it again ..", job.id());
    let mut job = start_job(brokers, checkpoints)?;
    let status = job.wait()?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::msg(format!("the job ended with {status}; its error is above"))),
    }
}

/// What readers of a topic see that read committed records only.
fn read(brokers: &str, topic: &str) -> Result<Vec<String>> {
    let env = StreamExecutionEnvironment::new();
    let source = KafkaSource::from_topic(topic).brokers(brokers).text().stop(StopOffsets::Latest);
    let rows = env.from_source(topic, source).uid("rows").collect();
    env.execute("read")?;
    let mut rows = rows.items();
    rows.sort();
    Ok(rows)
}

fn as_json<T: Serialize>(rows: &[T]) -> Result<Vec<String>> {
    let rows =
        rows.iter().map(|row| serde_json::to_string(row).map_err(|error| Error::msg(error.to_string())));
    let mut rows = rows.collect::<Result<Vec<_>>>()?;
    rows.sort();
    Ok(rows)
}

/// What the job makes of the files, without Kafka and without being killed.
fn expected(settings: &Settings) -> Result<(Vec<AirportHour>, Vec<CarrierDay>)> {
    let env = StreamExecutionEnvironment::new();
    let (flights, weather) = job::read(&env, settings);
    let Results { airport_hours, carrier_days, .. } =
        job::compute(&flights, &weather, settings.out_of_orderness);
    let (hours, days) = (airport_hours.collect(), carrier_days.collect());
    env.execute("flights from files")?;
    Ok((hours.items(), days.items()))
}

fn demonstrate(brokers: &str, out: &Path, settings: &Settings) -> Result<()> {
    let checkpoints = out.join("checkpoints");
    match std::fs::remove_dir_all(&checkpoints) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    fill(brokers, settings)?;
    run_and_kill(brokers, &checkpoints)?;
    let (hours, days) = expected(settings)?;
    println!();
    for (topic, expected) in [("airport_hours", as_json(&hours)?), ("carrier_days", as_json(&days)?)] {
        let found = read(brokers, topic)?;
        if found != expected {
            let (found, expected) = (found.len(), expected.len());
            return Err(Error::msg(format!(
                "topic {topic} has {found} rows, not the {expected} that the job makes of the files"
            )));
        }
        println!("Topic {topic}: {} rows, the same that the job makes of the files, each once.", found.len());
    }
    Ok(())
}

#[stillstream::main]
#[expect(clippy::disallowed_methods, reason = "the start of the program reads its arguments")]
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{ABOUT}");
        return Ok(());
    }
    let value_of = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let mut settings = options::parse(&[])?.settings;
    settings.pace = None;
    match (value_of("--brokers"), arguments.iter().any(|argument| argument == "--job")) {
        (Some(brokers), true) => run_job(&brokers, &settings),
        (None, true) => Err(Error::msg("--job needs --brokers")),
        (brokers, false) => {
            let out = value_of("--out").map_or_else(|| PathBuf::from("out/flights-kafka"), PathBuf::from);
            let kafka = match &brokers {
                Some(_) => None,
                None => {
                    println!("Starting Kafka ..");
                    let kafka = Kafka::start()?;
                    for (topic, partitions) in TOPICS {
                        kafka.create_topic(topic, partitions)?;
                    }
                    Some(kafka)
                }
            };
            let own = kafka.as_ref().map(|kafka| kafka.bootstrap().to_string());
            demonstrate(&brokers.or(own).unwrap_or_default(), &out, &settings)
        }
    }
}
