//! Windows in whole jobs, from source to sink.

use stillstream::prelude::*;

const LATE: OutputTag<(String, i64)> = OutputTag::new("late");

fn clicks() -> Vec<(String, i64)> {
    let names = ["a", "b", "c", "d", "e"];
    (0..5_000i64).map(|n| (names[n as usize % 5].to_string(), n * 40)).collect()
}

fn counts(
    parallelism: u32,
    window: impl stillstream::window::WindowAssigner<(String, i64)>,
) -> Result<Vec<(String, i64, u64)>> {
    struct Count;
    impl Aggregate for Count {
        type In = (String, i64);
        type Acc = u64;
        type Out = u64;
        fn create(&self) -> u64 {
            0
        }
        fn add(&self, acc: &mut u64, _: (String, i64)) {
            *acc += 1;
        }
        fn merge(&self, acc: &mut u64, other: u64) {
            *acc += other;
        }
        fn result(&self, acc: &u64) -> u64 {
            *acc
        }
    }
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(parallelism);
    let counts = env
        .from_collection(clicks())
        .watermarks(
            WatermarkStrategy::bounded_out_of_orderness(seconds(1))
                .timestamp(|click: &(String, i64)| Timestamp::from_millis(click.1)),
        )
        .key_by_ref(|click| &click.0)
        .window(window)
        .late_output(&LATE)
        .aggregate_with(Count, |name, window, n| (name.clone(), window.start.as_millis(), n));
    let (late, counts) = (counts.side_output(&LATE).collect(), counts.collect());
    env.execute("windows")?;
    assert_eq!(late.items(), []);
    Ok(counts.sorted())
}

#[test]
fn every_record_is_in_one_window_whatever_the_parallelism() -> Result<()> {
    for parallelism in [1, 3] {
        let counts = counts(parallelism, Tumbling::of(seconds(10)))?;
        assert_eq!(counts.len(), 5 * 20);
        assert!(counts.iter().all(|(_, _, n)| *n == 50), "250 records in ten seconds, of five keys");
    }
    Ok(())
}

#[test]
fn sliding_windows_and_sessions_run_too() -> Result<()> {
    let sliding = counts(2, Sliding::of(seconds(10), seconds(5)))?;
    assert_eq!(sliding.iter().map(|(_, _, n)| *n).sum::<u64>(), 2 * 5_000);
    let sessions = counts(2, Session::with_gap(seconds(1)))?;
    assert_eq!(sessions.iter().map(|(_, _, n)| *n).collect::<Vec<_>>(), [1_000; 5]);
    Ok(())
}
