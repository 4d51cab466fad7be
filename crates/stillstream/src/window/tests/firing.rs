use std::sync::Arc;

use stillstream_runtime::exchange::OwnedKey;
use stillstream_runtime::{Batch, Emission, OpenContext, Operator, Output};
use stillstream_types::{Result, Timestamp};

use super::by_hand::{ByHand, Record, Setup, hash};
use crate::side_output::Sides;
use crate::window::assigner::{Fixed, Shape};
use crate::window::fixed::{FixedWindows, SLICE};
use crate::window::function::{Counted, WindowLogic};
use crate::window::late::LatePolicy;
use crate::window::session::SessionWindows;
use crate::window::sessions::Rules;

const TEN: Shape = Shape::Fixed { size: 10, slide: 10, offset: 0 };

fn setup(shape: Shape, lateness: i64) -> Setup {
    Setup { shape, lateness, keep_all: false, late_output: false }
}

/// Slices that come out, by size, and how many watermarks come before the last of them.
fn slices(mut operator: impl Operator, keys: u32) -> Result<(Vec<usize>, usize)> {
    operator.open(&mut OpenContext::for_test("window", 0, 1))?;
    let mut out = Output::default();
    for window in 0..2 {
        let values: Vec<Record> = (0..keys).map(|key| (key, 1, window * 20)).collect();
        let hashes = values.iter().map(|record| hash(record.0)).collect();
        let times = values.iter().map(|record| record.2).collect();
        operator.process(0, Batch { values, times, hashes }.into(), &mut out)?;
    }
    operator.watermark(Timestamp::from_millis(100), &mut out)?;
    let (mut sizes, mut early) = (Vec::new(), 0);
    loop {
        let more = operator.resume(&mut out)?;
        let (mut size, mut watermarks) = (0, 0);
        for emission in out.take_all() {
            match emission {
                Emission::Batch(batch) => size += batch.len(),
                _ => watermarks += 1,
            }
        }
        sizes.push(size);
        if !more {
            assert_eq!(watermarks, 1, "the watermark is passed on with the last slice");
            return Ok((sizes, early));
        }
        early += watermarks;
    }
}

#[test]
fn a_large_window_fires_in_slices_and_the_watermark_waits_for_the_last() {
    let selector = || Arc::new(OwnedKey(|record: &Record| record.0));
    let policy = || LatePolicy { tag: None, sides: Sides::new() };
    for lateness in [0, 1000] {
        let windows = Fixed { size: 10, slide: 10, offset: 0 };
        let (sizes, early) =
            slices(FixedWindows::new(windows, lateness, policy(), selector(), Counted), 5000).unwrap();
        assert_eq!((sizes.iter().sum::<usize>(), early), (10_000, 0));
        assert!(sizes.iter().all(|size| *size <= SLICE), "{sizes:?}");
        let rules = Rules { gap: 5, lateness };
        let (sizes, early) = slices(SessionWindows::new(rules, policy(), selector(), Counted), 5000).unwrap();
        assert_eq!((sizes.iter().sum::<usize>(), early), (10_000, 0));
        assert!(sizes.iter().all(|size| *size <= SLICE), "{sizes:?}");
    }
}

#[test]
fn small_windows_share_a_slice() {
    let selector = Arc::new(OwnedKey(|record: &Record| record.0));
    let policy = LatePolicy { tag: None, sides: Sides::new() };
    let windows = Fixed { size: 10, slide: 10, offset: 0 };
    let (sizes, _) = slices(FixedWindows::new(windows, 0, policy, selector, Counted), 3).unwrap();
    assert_eq!(sizes, [6]);
}

#[test]
fn records_without_time_are_refused_with_what_to_do() {
    for shape in [TEN, Shape::Session { gap: 5 }] {
        let error = match shape {
            Shape::Session { .. } => {
                let selector = Arc::new(OwnedKey(|record: &Record| record.0));
                let policy = LatePolicy { tag: None, sides: Sides::new() };
                untimed(SessionWindows::new(Rules { gap: 5, lateness: 0 }, policy, selector, Counted))
            }
            Shape::Fixed { size, slide, offset } => {
                let selector = Arc::new(OwnedKey(|record: &Record| record.0));
                let policy = LatePolicy { tag: None, sides: Sides::new() };
                let windows = Fixed { size, slide, offset };
                untimed(FixedWindows::new(windows, 0, policy, selector, Counted))
            }
        };
        assert!(error.contains(".watermarks("), "{error}");
    }
}

fn untimed(mut operator: impl Operator) -> String {
    operator.open(&mut OpenContext::for_test("window", 0, 1)).unwrap();
    let batch = Batch { values: vec![(1u32, 1u64, 0i64)], times: Vec::new(), hashes: vec![hash(1)] };
    operator.process(0, batch.into(), &mut Output::default()).unwrap_err().to_string()
}

#[test]
fn a_key_that_is_touched_twice_in_a_batch_fires_again_once() {
    let mut by_hand = ByHand::open(setup(TEN, 100), 1, &[]);
    by_hand.records(&[(1, 5, 3)]);
    assert_eq!(by_hand.watermark(9, |_| true), [(1, 0, 10, 1, 5)]);
    let (fired, _) = by_hand.records(&[(1, 1, 4), (2, 7, 4), (1, 1, 5)]);
    assert_eq!(fired, [(1, 0, 10, 3, 7), (2, 0, 10, 1, 7)]);
}

#[test]
fn a_window_that_was_purged_is_not_made_again_after_a_restore() {
    for (shape, parallelism) in [(TEN, 1), (TEN, 3), (Shape::Session { gap: 10 }, 3)] {
        let mut by_hand = ByHand::open(setup(shape, 0), 2, &[]);
        by_hand.records(&[(1, 5, 3)]);
        assert_eq!(by_hand.watermark(50, |_| true).len(), 1);
        by_hand.restart(parallelism);
        let (fired, _) = by_hand.records(&[(1, 5, 4)]);
        assert_eq!((fired, by_hand.late_count()), (vec![], 1));
        assert_eq!(by_hand.watermark(20, |_| true), [], "the sources begin again further back");
        by_hand.restart(2);
        by_hand.records(&[(1, 5, 4)]);
        assert_eq!(by_hand.late_count(), 2, "a second restart forgets nothing");
    }
}

#[test]
fn a_window_is_forgotten_when_it_has_fired() {
    let state_len = |by_hand: &mut ByHand| {
        by_hand
            .snapshot()
            .iter()
            .map(|state| state.keyed.iter().map(|h| h.sections.len()).sum::<usize>())
            .sum::<usize>()
    };
    for shape in [TEN, Shape::Session { gap: 10 }] {
        for (lateness, until) in [(0, 19), (30, 49)] {
            let mut by_hand = ByHand::open(setup(shape, lateness), 1, &[]);
            by_hand.records(&(0..50).map(|key| (key, 1, 5)).collect::<Vec<_>>());
            assert!(state_len(&mut by_hand) > 0);
            by_hand.watermark(until - 6, |_| true);
            by_hand.watermark(until, |_| true);
            assert_eq!(state_len(&mut by_hand), 0, "{shape:?} {lateness}");
        }
    }
}

#[test]
fn counting_merges_by_adding() {
    let mut acc = 2;
    WindowLogic::<u32, Record>::merge(&Counted, &mut acc, 3);
    assert_eq!(acc, 5);
}
