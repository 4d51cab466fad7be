//! The jobs that are asked.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stillstream::config::options as o;
use stillstream::prelude::*;

use crate::client::LONG;

pub fn environment(folder: &Path) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2).enable_checkpointing(hours(1));
    env.set_state_backend(FsStateBackend::new(folder.join("ck").display().to_string()));
    env.set_restart_strategy(RestartStrategy::none());
    env.configuration_mut().set(o::REST_BIND_PORT, Some("0".to_owned()));
    env
}

/// Counts carriers until it is stopped. It is at work when this returns.
pub fn counts(name: &str, env: &StreamExecutionEnvironment) -> (JobClient, SocketAddr) {
    let carriers = ["AA", "B6", "DL", "UA"];
    let flights = Generator::unbounded(move |n| (carriers[(n % 4) as usize].to_string(), n as i64));
    env.from_source("flights", flights.records_per_second(2_000.0))
        .uid("flights")
        .watermarks(
            WatermarkStrategy::monotonic()
                .timestamp(|flight: &(String, i64)| Timestamp::from_millis(flight.1)),
        )
        .uid("time")
        .key_by(|flight| flight.0.clone())
        .map_with_state("seen", |seen: &mut u64, flight| {
            *seen += 1;
            (flight.0, *seen)
        })
        .uid("count")
        .discard();
    let job = env.execute_async(name).unwrap();
    // a record may be through before the last subtask is said to run
    let at_work =
        |job: &JobClient| job.status() == stillstream::JobStatus::Running && job.metrics().records_out > 0;
    assert!(job.wait_until(LONG, at_work));
    let address = job.rest_address().unwrap();
    (job, address)
}

/// Stands still with a record until it is told to fail, and does what it is told.
pub fn stuck(name: &str, env: &StreamExecutionEnvironment) -> (JobClient, SocketAddr, Arc<AtomicBool>) {
    let (fail, stuck) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (told, at_it) = (fail.clone(), stuck.clone());
    env.from_source("numbers", Generator::unbounded(|n| n).records_per_second(1_000.0))
        .uid("numbers")
        .rebalance()
        .try_map(move |n| {
            if n < 20 {
                return Ok(n);
            }
            at_it.store(true, Ordering::SeqCst);
            while !told.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Err(Error::msg("told to fail"))
        })
        .discard();
    let job = env.execute_async(name).unwrap();
    assert!(job.wait_until(LONG, |_| stuck.load(Ordering::SeqCst)));
    let address = job.rest_address().unwrap();
    (job, address, fail)
}
