//! Testing a function without a job: a driver hands it records, moves its clocks, takes a snapshot and
//! restores it.
//!
//! The driver runs the same operator as a job does, so state, timers and snapshots are the real ones, and
//! nothing waits: a minute is one call.

use stillstream::prelude::*;
use stillstream::testing::KeyedProcessDriver;

use crate::fraud_detection::{FraudDetector, Payment};

fn driver() -> KeyedProcessDriver<FraudDetector> {
    KeyedProcessDriver::new(|payment: &Payment| payment.card.clone())
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}

fn payment(cents: u64, second: i64) -> Payment {
    Payment { card: "4711".into(), cents, at: at(second) }
}

#[test]
fn a_large_payment_soon_after_a_small_one_is_reported() -> Result<()> {
    let mut driver = driver();
    driver.record_at(payment(99, 0), at(0))?;
    driver.record_at(payment(80_000, 60), at(60))?;
    assert_eq!(driver.output(), [payment(80_000, 60)]);
    Ok(())
}

#[test]
fn a_card_that_is_not_used_for_a_minute_leaves_nothing_in_state() -> Result<()> {
    let mut driver = driver();
    let empty = driver.snapshot()?.bytes();
    driver.record_at(payment(99, 0), at(0))?;
    assert!(driver.snapshot()?.bytes() > empty);
    driver.watermark(at(60))?;
    assert_eq!(driver.snapshot()?.bytes(), empty);
    Ok(())
}

#[test]
fn a_small_payment_before_a_restart_counts() -> Result<()> {
    let mut before = driver();
    before.record_at(payment(99, 0), at(0))?;
    let mut after = driver().restored(before.snapshot()?);
    after.record_at(payment(80_000, 30), at(30))?;
    assert_eq!(after.output().len(), 1);
    Ok(())
}
