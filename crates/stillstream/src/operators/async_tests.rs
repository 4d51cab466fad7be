//! Asynchronous requests whose answers come when the test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::sync::Semaphore;

use crate::prelude::*;
use crate::testing::StreamDriver;

/// Each number is answered once its gate has been opened.
#[derive(Clone)]
struct Gates(Arc<Vec<Semaphore>>, Arc<AtomicUsize>);

impl Gates {
    fn closed(numbers: usize) -> Self {
        Self(Arc::new((0..numbers).map(|_| Semaphore::new(0)).collect()), Arc::default())
    }

    fn open(&self, number: u64) {
        self.0[number as usize].add_permits(1);
    }

    /// How many requests have been made.
    fn asked(&self) -> usize {
        self.1.load(SeqCst)
    }

    async fn answer(self, number: u64) -> Result<u64> {
        self.1.fetch_add(1, SeqCst);
        self.0[number as usize].acquire().await?.forget();
        Ok(number * 10)
    }
}

fn driver(gates: &Gates, ordered: bool, capacity: usize) -> StreamDriver<u64, u64> {
    let gates = gates.clone();
    StreamDriver::new(move |numbers: &DataStream<u64>| {
        let asked = numbers.async_map(move |n| gates.clone().answer(n)).capacity(capacity);
        if ordered { asked.ordered() } else { asked.unordered() }
    })
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[test]
fn ordered_answers_go_on_in_the_order_of_the_records() {
    let gates = Gates::closed(3);
    let mut driver = driver(&gates, true, 10);
    (0..3).for_each(|n| driver.record_at(n, at(n as i64)).unwrap());
    gates.open(2);
    gates.open(1);
    gates.open(0);
    driver.await_output(3).unwrap();
    let timed = [(0, Some(at(0))), (10, Some(at(1))), (20, Some(at(2)))];
    assert_eq!(driver.timed_output(), timed);
}

#[test]
fn unordered_answers_go_on_as_they_come_but_pass_no_watermark() {
    let gates = Gates::closed(5);
    let mut driver = driver(&gates, false, 10);
    (0..3).for_each(|n| driver.record(n).unwrap());
    driver.watermark(at(100)).unwrap();
    (3..5).for_each(|n| driver.record(n).unwrap());
    gates.open(4);
    gates.open(2);
    driver.await_output(1).unwrap();
    assert_eq!(driver.output(), [20], "the first two are not there yet, and 4 came behind the watermark");
    gates.open(0);
    gates.open(1);
    driver.await_output(3).unwrap();
    let mut output = driver.output();
    assert_eq!(output.pop(), Some(40), "it has waited for the watermark only");
    output.sort_unstable();
    assert_eq!(output, [0, 10]);
    gates.open(3);
    driver.end_input().unwrap();
    assert_eq!(driver.output(), [30], "the end of the input waits for answers");
}

#[test]
fn no_more_than_the_capacity_are_under_way() {
    let gates = Gates::closed(6);
    let mut driver = driver(&gates, true, 2);
    // the driver hands the third one over when there is room
    driver.record(0).unwrap();
    driver.record(1).unwrap();
    gates.open(0);
    driver.record(2).unwrap();
    assert_eq!(driver.output(), [0]);
    gates.open(1);
    gates.open(2);
    driver.await_output(2).unwrap();
    assert_eq!((driver.output(), gates.asked()), (vec![10, 20], 3));
}

#[test]
fn records_under_way_are_in_the_snapshot_and_are_asked_for_again_after_a_restore() {
    for ordered in [true, false] {
        let gates = Gates::closed(4);
        let mut first = driver(&gates, ordered, 10);
        (0..4).for_each(|n| first.record_at(n, at(n as i64)).unwrap());
        gates.open(0);
        first.await_output(1).unwrap();
        // this answer waits for that of 1 if they are ordered
        gates.open(2);
        let snapshot = first.snapshot().unwrap();
        let again = Gates::closed(4);
        let mut restored = driver(&again, ordered, 10).restored(snapshot);
        (0..4).for_each(|n| again.open(n));
        restored.await_output(if ordered { 3 } else { 2 }).unwrap();
        restored.end_input().unwrap();
        let mut output = restored.timed_output();
        output.sort_unstable();
        output.retain(|(value, _)| ordered || *value != 20);
        let under_way = [(10, Some(at(1))), (20, Some(at(2))), (30, Some(at(3)))];
        let under_way: Vec<_> = under_way.into_iter().filter(|(value, _)| ordered || *value != 20).collect();
        assert_eq!(output, under_way, "ordered: {ordered}");
    }
}

#[test]
fn a_request_that_takes_too_long_is_an_error_that_says_so_or_the_value_that_was_given_for_it() {
    let never = |_| async { std::future::pending::<Result<u64>>().await };
    let mut failing = StreamDriver::new(move |numbers: &DataStream<u64>| {
        numbers.async_map(never).timeout(millis(5)).ordered()
    });
    failing.record(1).unwrap();
    let error = failing.await_output(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("5ms") && error.to_string().contains("on_timeout"), "{error}");
    let mut driver = StreamDriver::new(move |numbers: &DataStream<u64>| {
        numbers.async_map(never).timeout(millis(5)).on_timeout(|n| Ok(n + 1)).unordered()
    });
    driver.record(1).unwrap();
    driver.await_output(1).unwrap();
    assert_eq!(driver.output(), [2]);
}

#[test]
fn a_request_that_failed_is_made_again_as_often_as_it_may() {
    let asked = Arc::new(AtomicUsize::new(0));
    let failing = |retries, fails: usize, kind: ErrorKind| {
        let asked = asked.clone();
        asked.store(0, SeqCst);
        let ask = move |n: u64| {
            let tries = asked.fetch_add(1, SeqCst) + 1;
            async move { if tries > fails { Ok(n) } else { Err(Error::new(kind, format!("try {tries}"))) } }
        };
        let retry = AsyncRetry::exponential(retries, millis(1), millis(2))
            .only_if(|error| error.kind() == ErrorKind::Connector);
        let mut driver =
            StreamDriver::new(move |numbers: &DataStream<u64>| numbers.async_map(ask).retry(retry).ordered());
        driver.record(7).unwrap();
        driver.await_output(1).map(|()| driver.output())
    };
    assert_eq!(failing(3, 3, ErrorKind::Connector).unwrap(), [7]);
    assert_eq!(asked.load(SeqCst), 4);
    let text = failing(2, 5, ErrorKind::Connector).unwrap_err().to_string();
    assert!(text.contains("try 3") && text.contains("after 3 tries"), "{text}");
    failing(3, 5, ErrorKind::User).unwrap_err();
    assert_eq!(asked.load(SeqCst), 1, "another error is not tried again");
}

#[test]
fn a_panic_of_a_request_fails_the_job_and_not_the_thread_that_all_requests_share() {
    let mut driver = StreamDriver::new(|numbers: &DataStream<u64>| {
        numbers
            .async_map(|n| async move {
                tokio::task::yield_now().await;
                assert!(n != 1, "not one");
                Ok(n)
            })
            .retry(AsyncRetry::fixed_delay(5, Duration::ZERO))
            .ordered()
    });
    driver.record(1).unwrap();
    let error = driver.await_output(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panic);
    assert!(error.to_string().contains("not one"), "{error}");
}

#[test]
fn flat_answers_are_any_number_of_records() {
    let mut driver = StreamDriver::new(|numbers: &DataStream<u64>| {
        numbers.async_flat_map(|n| async move { Ok(0..n) }).ordered()
    });
    (0..3).for_each(|n| driver.record(n).unwrap());
    driver.end_input().unwrap();
    assert_eq!(driver.output(), [0, 0, 1]);
}
