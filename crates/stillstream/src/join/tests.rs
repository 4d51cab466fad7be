//! Joins, driven by hand and against a model.

use std::collections::BTreeMap;

use super::*;
use crate::prelude::*;
use crate::testing::{ConnectedDriver, DriverSnapshot};
use crate::window::{CountTrigger, PurgingTrigger, TimeEvictor};

/// Key, number.
type Row = (u64, u64);
type Pair = (u64, u64);

const LATE_FIRST: OutputTag<Row> = OutputTag::new("late first");
const LATE_SECOND: OutputTag<Row> = OutputTag::new("late second");

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn driver(lower: TimeOffset, upper: TimeOffset) -> ConnectedDriver<Row, Row, Pair> {
    let driver = ConnectedDriver::new(move |first: &DataStream<Row>, second: &DataStream<Row>| {
        first
            .key_by(|row| row.0)
            .interval(&second.key_by(|row| row.0), lower..=upper)
            .late_first(&LATE_FIRST)
            .late_second(&LATE_SECOND)
            .join(|first, second| (first.1, second.1))
            .uid("join")
    });
    driver.reading(&LATE_FIRST).reading(&LATE_SECOND)
}

#[test]
fn an_interval_join_pairs_records_of_a_key_within_both_bounds() {
    let mut driver = driver(before(millis(10)), after(millis(20)));
    driver.record1_at((1, 100), at(1_000)).unwrap();
    for (number, time) in [(0, 989), (1, 990), (2, 1_020), (3, 1_021)] {
        driver.record2_at((1, number), at(time)).unwrap();
    }
    driver.record2_at((2, 9), at(1_000)).unwrap();
    assert_eq!(driver.timed_output(), [((100, 1), Some(at(1_000))), ((100, 2), Some(at(1_020)))]);
    // the other way round, and in the order of the partners' times
    driver.record1_at((1, 200), at(1_001)).unwrap();
    let pairs = [((200, 2), Some(at(1_020))), ((200, 3), Some(at(1_021)))];
    assert_eq!(driver.timed_output(), pairs);
}

#[test]
fn a_record_before_the_watermark_finds_no_partner_and_goes_to_the_late_output() {
    let mut driver = driver(before(millis(10)), after(millis(10)));
    driver.record1_at((1, 1), at(1_000)).unwrap();
    driver.record2_at((1, 1), at(995)).unwrap();
    assert_eq!(driver.output(), [(1, 1)]);
    driver.watermark(at(1_000)).unwrap();
    driver.record1_at((1, 2), at(999)).unwrap();
    driver.record2_at((1, 2), at(999)).unwrap();
    assert!(driver.output().is_empty());
    assert_eq!(driver.side(&LATE_FIRST).unwrap(), [(1, 2)]);
    assert_eq!(driver.side(&LATE_SECOND).unwrap(), [(1, 2)]);
    assert_eq!(driver.counter("late"), 2);
    driver.record2_at((1, 3), at(1_000)).unwrap();
    assert_eq!(driver.output(), [(1, 3)], "one at the watermark is not late");
}

#[test]
fn what_was_late_is_late_after_a_restore_at_another_parallelism() {
    let mut first = driver(before(millis(10)), after(millis(10)));
    first.record1_at((1, 1), at(1_000)).unwrap();
    first.watermark(at(1_005)).unwrap();
    let mut restored =
        driver(before(millis(10)), after(millis(10))).restored(first.snapshot().unwrap()).parallelism(3);
    restored.record2_at((1, 2), at(1_004)).unwrap();
    assert!(restored.output().is_empty());
    assert_eq!(restored.side(&LATE_SECOND).unwrap(), [(1, 2)]);
    restored.record2_at((1, 3), at(1_006)).unwrap();
    assert_eq!(restored.output(), [(1, 3)]);
}

#[test]
fn a_record_is_kept_until_the_watermark_has_passed_its_last_partner_and_no_longer() {
    let empty = driver(before(millis(10)), after(millis(20))).snapshot().unwrap().bytes();
    let mut driver = driver(before(millis(10)), after(millis(20)));
    for key in 0..100 {
        driver.record1_at((key, 1), at(1_000)).unwrap();
        driver.record2_at((key, 2), at(2_000)).unwrap();
    }
    let full = driver.snapshot().unwrap().bytes();
    driver.watermark(at(1_020)).unwrap();
    // the watermark itself is in the snapshot now
    let before_cleaning = driver.snapshot().unwrap().bytes();
    assert!(before_cleaning >= full, "{before_cleaning} of {full}: nothing may go up to 1 020");
    driver.watermark(at(1_021)).unwrap();
    let half = driver.snapshot().unwrap().bytes();
    assert!(half < full - (full - empty) / 3, "the first side is still there: {half} of {full}");
    driver.watermark(at(2_010)).unwrap();
    assert_eq!(driver.snapshot().unwrap().bytes(), half);
    driver.watermark(at(2_011)).unwrap();
    let left = driver.snapshot().unwrap().bytes();
    assert!(left < empty + 100, "{left} bytes of {full} are left, an empty one has {empty}");
}

#[test]
fn the_state_of_an_endless_interval_join_stays_as_large_as_its_bounds() {
    let mut driver = driver(before(millis(50)), after(millis(50)));
    let mut sizes = Vec::new();
    for time in 0..2_000 {
        driver.record1_at((0, time as u64), at(time)).unwrap();
        driver.record2_at((0, time as u64), at(time)).unwrap();
        driver.watermark(at(time)).unwrap();
        if time % 500 == 499 {
            sizes.push(driver.snapshot().unwrap().bytes());
        }
    }
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    // 51 partners before each record and itself
    assert_eq!(driver.output().len(), 2_000 * 101 - 2 * (50 * 51 / 2));
}

#[test]
fn many_records_of_one_time_find_each_other_and_leave_nothing_behind() {
    let empty = driver(before(millis(0)), after(millis(0))).snapshot().unwrap().bytes();
    let mut driver = driver(before(millis(0)), after(millis(0)));
    for n in 0..300 {
        driver.record1_at((1, n), at(5)).unwrap();
    }
    driver.record2_at((1, 7), at(5)).unwrap();
    assert_eq!(
        driver.output(),
        (0..300).map(|n| (n, 7)).collect::<Vec<_>>(),
        "in the order in which they came"
    );
    driver.watermark(at(6)).unwrap();
    let left = driver.snapshot().unwrap().bytes();
    assert!(left < empty + 100, "{left} bytes are left, an empty one has {empty}");
}

#[test]
fn a_stream_without_event_time_cannot_be_joined_by_it() {
    let text = driver(before(millis(1)), after(millis(1))).record1((1, 1)).unwrap_err().to_string();
    assert!(text.contains("no event time") && text.contains("watermarks"), "{text}");
}

#[test]
fn an_interval_without_an_end_is_a_mistake_that_is_named_before_the_job_starts() {
    let env = StreamExecutionEnvironment::new();
    let rows = env.from_collection(vec![(1u64, 1u64)]).key_by(|row| row.0);
    rows.interval_join(&rows, Duration::ZERO.., |a, b| (a.1, b.1)).discard();
    let text = env.execute("endless").unwrap_err().to_string();
    assert!(text.contains("no upper bound"), "{text}");
}

/// Xorshift.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 11) % below
}

#[test]
fn interval_joins_find_exactly_the_pairs_of_a_nested_loop_over_restores() {
    for seed in 1..40u64 {
        let mut dice = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let lower = random(&mut dice, 60) as i64 - 40;
        let upper = lower + random(&mut dice, 40) as i64;
        let offset = |ms: i64| match ms < 0 {
            true => before(millis(ms.unsigned_abs())),
            false => after(millis(ms as u64)),
        };
        let new = || driver(offset(lower), offset(upper));
        let (mut driver, mut watermark) = (new(), 0i64);
        let mut all: Vec<(bool, u64, u64, i64)> = Vec::new();
        let mut found: Vec<Pair> = Vec::new();
        for number in 0..300 {
            let (first, key) = (random(&mut dice, 2) == 0, random(&mut dice, 3));
            let time = watermark + random(&mut dice, 50) as i64;
            all.push((first, key, number, time));
            match first {
                true => driver.record1_at((key, number), at(time)).unwrap(),
                false => driver.record2_at((key, number), at(time)).unwrap(),
            }
            if random(&mut dice, 4) == 0 {
                watermark += random(&mut dice, 20) as i64;
                driver.watermark(at(watermark)).unwrap();
            }
            if random(&mut dice, 50) == 0 {
                found.extend(driver.output());
                let snapshot: DriverSnapshot = driver.snapshot().unwrap();
                driver = new().restored(snapshot).parallelism(1 + random(&mut dice, 3) as u32);
            }
        }
        found.extend(driver.output());
        let mut expected = Vec::new();
        for (_, key, number, time) in all.iter().filter(|row| row.0) {
            let partner = |row: &&(bool, u64, u64, i64)| {
                !row.0 && row.1 == *key && (lower..=upper).contains(&(row.3 - time))
            };
            expected.extend(all.iter().filter(partner).map(|row| (*number, row.2)));
        }
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "seed {seed}: {lower}..={upper}");
    }
}

/// The key of a row.
type FirstField = stillstream_runtime::exchange::OwnedKey<fn(&Row) -> u64>;

/// What a kind of join makes of rows 1 and 2 of the first stream and 3 and 4 of the second, where only 1 and
/// 3 have a partner.
fn joined<R: Data + Ord>(
    end: impl FnOnce(WindowJoin<Row, Row, FirstField, FirstField>) -> DataStream<R>,
) -> Vec<R> {
    let key: fn(&Row) -> u64 = |row| row.0;
    let mut driver = ConnectedDriver::new(|first: &DataStream<Row>, second: &DataStream<Row>| {
        end(first.key_by(key).join(&second.key_by(key)).window(Tumbling::of(millis(100))))
    });
    driver.record1_at((7, 1), at(10)).unwrap();
    driver.record2_at((7, 3), at(99)).unwrap();
    driver.record1_at((7, 2), at(100)).unwrap();
    driver.record2_at((8, 4), at(110)).unwrap();
    driver.end_input().unwrap();
    let mut found = driver.output();
    found.sort();
    found
}

#[test]
fn each_kind_of_window_join_has_the_pairs_and_the_lonely_records_that_its_name_says() {
    type Maybe = (Option<u64>, Option<u64>);
    let of = |row: Option<&Row>| row.map(|row| row.1);
    assert_eq!(joined(|join| join.inner(|a, b| (a.1, b.1))), [(1, 3)]);
    assert_eq!(joined(move |join| join.left_outer(move |a, b| (a.1, of(b)))), [(1, Some(3)), (2, None)]);
    assert_eq!(joined(move |join| join.right_outer(move |a, b| (of(a), b.1))), [(None, 4), (Some(1), 3)]);
    let all: [Maybe; 3] = [(None, Some(4)), (Some(1), Some(3)), (Some(2), None)];
    assert_eq!(joined(move |join| join.full_outer(move |a, b| (of(a), of(b)))), all);
    let grouped = joined(|join| {
        join.co_group(|key, window, first, second, out| {
            out.emit((*key, window.start.as_millis(), first.len() as u64, second.len() as u64));
            Ok(())
        })
    });
    assert_eq!(grouped, [(7, 0, 1, 1), (7, 100, 1, 0), (8, 100, 0, 1)]);
}

#[test]
fn sessions_sliding_windows_triggers_and_evictors_join_too_and_go_on_after_a_restore() {
    type Join = ConnectedDriver<Row, Row, Pair>;
    let keyed = |rows: &DataStream<Row>| rows.key_by(|row| row.0);
    let pair = |first: &Row, second: &Row| (first.1, second.1);
    let session = move || -> Join {
        ConnectedDriver::new(move |first, second| {
            keyed(first).join(&keyed(second)).window(Session::with_gap(millis(50))).inner(pair)
        })
    };
    let sliding = move || -> Join {
        ConnectedDriver::new(move |first, second| {
            let windows = Sliding::of(millis(100), millis(50));
            keyed(first).join(&keyed(second)).window(windows).inner(pair)
        })
    };
    let counted = move || -> Join {
        ConnectedDriver::new(move |first, second| {
            let windows = keyed(first).join(&keyed(second)).window(GlobalWindows::create());
            windows.trigger(PurgingTrigger::of(CountTrigger::of(3))).inner(pair)
        })
    };
    let evicting = move || -> Join {
        ConnectedDriver::new(move |first, second| {
            let windows = keyed(first).join(&keyed(second)).window(Tumbling::of(millis(200)));
            windows.evictor(TimeEvictor::of(millis(60))).inner(pair)
        })
    };
    // 1 at 0 ms, 2 at 40 ms, 3 at 80 ms of the first stream, 11 at 60 ms of the second
    let run = |new: &dyn Fn() -> Join, restored: bool| {
        let mut driver = new();
        driver.record1_at((1, 1), at(0)).unwrap();
        driver.record2_at((1, 11), at(60)).unwrap();
        if restored {
            driver = new().restored(driver.snapshot().unwrap()).parallelism(2);
        }
        driver.record1_at((1, 2), at(40)).unwrap();
        driver.record1_at((1, 3), at(80)).unwrap();
        driver.end_input().unwrap();
        let mut counts = BTreeMap::new();
        driver.output().into_iter().for_each(|pair| *counts.entry(pair).or_insert(0) += 1);
        counts.into_iter().map(|((first, second), n)| (first, second, n)).collect::<Vec<_>>()
    };
    for restored in [false, true] {
        assert_eq!(run(&session, restored), [(1, 11, 1), (2, 11, 1), (3, 11, 1)]);
        assert_eq!(run(&sliding, restored), [(1, 11, 1), (2, 11, 1), (3, 11, 2)]);
        assert_eq!(run(&counted, restored), [(1, 11, 1), (2, 11, 1)], "the fourth record opens a new window");
        assert_eq!(
            run(&evicting, restored),
            [(2, 11, 1), (3, 11, 1)],
            "what is older than 60 ms is thrown out"
        );
    }
}
