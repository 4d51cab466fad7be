//! Jobs as a user writes them, from sources to collected records.

use stillstream::config::options;
use stillstream::prelude::*;

/// Two sources, a union, an exchange: what comes out is known whatever the parallelism.
fn pipeline(env: &StreamExecutionEnvironment, count: u64) -> Collect<u64> {
    let doubled = env.from_source("numbers", Generator::new(count, |n| n)).uid("numbers").map(|n| n * 2);
    let even = doubled.filter(|n| n % 4 == 0);
    let more = env.from_collection(1_000_000..1_000_010u64).uid("more");
    even.union(&more).rebalance().map(|n| n + 1).collect()
}

fn expected(count: u64) -> Vec<u64> {
    (0..count).map(|n| n * 2).filter(|n| n % 4 == 0).chain(1_000_000..1_000_010).map(|n| n + 1).collect()
}

#[test]
fn a_bounded_job_delivers_every_record_once_at_any_parallelism() {
    for parallelism in 1..=3 {
        let mut env = StreamExecutionEnvironment::new();
        env.set_parallelism(parallelism);
        let out = pipeline(&env, 20_000);
        let result = env.execute("bounded").unwrap();
        assert_eq!(out.sorted(), expected(20_000), "parallelism {parallelism}");
        assert_eq!((result.records_in, result.checkpoints.completed), (20_010, 0));
    }
}

#[test]
fn a_bounded_job_with_checkpoints_delivers_every_record_once_at_any_parallelism() {
    for parallelism in 1..=3 {
        let folder = tempfile::tempdir().unwrap();
        let mut env = StreamExecutionEnvironment::new();
        env.set_parallelism(parallelism)
            .enable_checkpointing(Duration::from_millis(10))
            .set_state_backend(FsStateBackend::new(folder.path().display().to_string()));
        let out = pipeline(&env, 20_000);
        let result = env.execute("bounded").unwrap();
        assert_eq!(out.sorted(), expected(20_000), "parallelism {parallelism}");
        assert!(result.checkpoints.completed > 0, "the last records are committed by a checkpoint: {result}");
    }
}

#[test]
fn a_job_without_chaining_delivers_the_same() {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2).disable_operator_chaining();
    let out = pipeline(&env, 1_000);
    env.execute("unchained").unwrap();
    assert_eq!(out.sorted(), expected(1_000));
}

#[test]
fn a_failed_job_goes_on_from_its_last_checkpoint() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static FAILED: AtomicBool = AtomicBool::new(false);
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(Duration::from_millis(10))
        .set_restart_strategy(RestartStrategy::fixed_delay(1, Duration::ZERO));
    let out = env
        .from_source("numbers", Generator::new(5_000, |n| n).records_per_second(50_000.0))
        .uid("numbers")
        .try_map(|n| match n == 4_000 && !FAILED.swap(true, Ordering::SeqCst) {
            true => Err(Error::msg("once")),
            false => Ok(n),
        })
        .collect();
    let result = env.execute("failing").unwrap();
    assert_eq!(result.restarts, 1);
    assert_eq!(out.sorted(), (0..5_000).collect::<Vec<_>>());
}

#[test]
fn one_environment_executes_several_jobs() {
    let env = StreamExecutionEnvironment::new();
    let first = env.from_collection(0..3u32).collect();
    env.execute("first").unwrap();
    let second = env.from_collection(7..9u32).collect();
    let result = env.execute("second").unwrap();
    assert_eq!(result.records_in, 2, "the first job is not run again");
    assert_eq!((first.items(), second.items()), (vec![0, 1, 2], vec![7, 8]));
}

#[test]
fn a_stream_of_an_executed_job_cannot_be_used_again() {
    let env = StreamExecutionEnvironment::new();
    let numbers = env.from_collection(0..3u32);
    numbers.discard();
    env.execute("first").unwrap();
    numbers.collect();
    env.from_collection(0..3u32).discard();
    let error = env.execute("second").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.to_string().contains("job `first`"), "{error}");
}

#[test]
fn malformed_rows_are_the_side_output_of_their_source() {
    const BAD: OutputTag<Malformed> = OutputTag::new("bad rows");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, "name,count\na,1\nb,many\nc,3\n").unwrap();
    let env = StreamExecutionEnvironment::new();
    let source = CsvSource::<(String, u32)>::new(file).on_malformed(OnMalformed::SideOutput);
    let rows = env.from_source("rows", source);
    let bad = rows.side_output(&BAD).map(|row| row.text).collect();
    let good = rows.collect();
    env.execute("rows").unwrap();
    assert_eq!(good.items(), [("a".to_string(), 1), ("c".to_string(), 3)]);
    assert_eq!(bad.len(), 1);
    assert!(bad.items()[0].contains("many"), "{:?}", bad.items());
}

#[test]
fn a_setting_out_of_range_stops_the_job_before_it_starts() {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(Duration::from_millis(1));
    let out = env.from_collection(0..3u32).collect();
    let error = env.execute("job").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let text = error.to_string();
    assert!(
        text.contains("`execution.checkpointing.interval: ") && text.contains("at least 10 ms"),
        "{text}"
    );
    assert!(out.is_empty());
}

#[test]
fn a_memory_backend_above_the_frame_size_is_refused_with_the_key() {
    let mut env = StreamExecutionEnvironment::new();
    env.set_state_backend(MemoryStateBackend::new().max_state_size(10 << 20));
    env.from_collection(0..3u32).discard();
    let error = env.execute("job").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("pekko.framesize"), "{error}");
}

#[test]
fn operators_without_a_uid_can_be_refused() {
    let mut env = StreamExecutionEnvironment::new();
    env.configuration_mut().set(options::AUTO_GENERATE_UIDS, false);
    env.from_collection(0..3u32).uid("numbers").discard();
    let error = env.execute("job").unwrap_err().to_string();
    assert!(error.contains("no uid: `discard`"), "{error}");
}

#[test]
fn an_unreadable_file_is_named_before_the_job_starts() {
    let env = StreamExecutionEnvironment::new();
    env.from_source("lines", TextSource::new("/no/such/file.txt")).discard();
    let error = env.execute("job").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let text = error.to_string();
    assert!(text.contains("source `lines`") && text.contains("/no/such/file.txt"), "{text}");
}

#[test]
fn a_second_job_on_the_same_checkpoints_is_refused_with_the_pid_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let start = |fresh: bool| {
        let mut env = StreamExecutionEnvironment::new();
        env.enable_checkpointing(Duration::from_millis(50))
            .set_state_backend(FsStateBackend::new(folder.path().display().to_string()));
        if fresh {
            env.start_fresh();
        }
        let ticks = Generator::unbounded(|n| n).records_per_second(100.0);
        env.from_source("ticks", ticks).uid("ticks").discard();
        env.execute_async("ticks")
    };
    let first = start(false).unwrap();
    let error = start(false).unwrap_err().to_string();
    let pid = std::process::id().to_string();
    assert!(error.contains("in use by") && error.contains(&pid), "{error}");
    first.cancel();
    assert_eq!(first.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    let third = start(true).unwrap();
    third.cancel();
    assert_eq!(third.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

/// Passes on the first of equal numbers within the time to live.
struct Distinct {
    seen: ValueState<()>,
}

impl KeyedProcess for Distinct {
    type Key = u64;
    type In = u64;
    type Out = u64;

    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { seen: states.with_ttl(&StateTtlConfig::new(millis(20))).value("seen")? })
    }

    fn process(&mut self, n: u64, ctx: &mut Context<Self>) -> Result<()> {
        if self.seen.get(ctx)?.is_none() {
            self.seen.set(ctx, ())?;
            ctx.emit(n);
        }
        Ok(())
    }
}

#[test]
fn a_job_counts_the_state_that_has_expired() {
    let env = StreamExecutionEnvironment::new();
    let out = env
        .from_source("numbers", Generator::new(20_000, |n| n))
        .uid("numbers")
        .map(|n| {
            if n % 2_000 == 0 {
                std::thread::sleep(Duration::from_millis(10));
            }
            n
        })
        .key_by(|n| *n)
        .process::<Distinct>()
        .name("distinct")
        .uid("distinct")
        .collect();
    let result = env.execute("distinct").unwrap();
    assert_eq!(out.sorted(), (0..20_000).collect::<Vec<_>>());
    // no number comes again: all of it is the sweep's work
    let expired = result.counters.get("distinct.seen.expired").copied();
    assert!(expired.is_some_and(|n| (1_000..20_000).contains(&n)), "{expired:?}");
}

#[test]
fn a_time_to_live_that_makes_no_sense_ends_the_job_with_the_states_name() {
    struct Wrong;
    impl KeyedProcess for Wrong {
        type Key = u64;
        type In = u64;
        type Out = u64;
        fn open(states: &mut States<Self>) -> Result<Self> {
            states.with_ttl(&StateTtlConfig::new(Duration::ZERO)).list::<u64>("recent")?;
            Ok(Self)
        }
        fn process(&mut self, _: u64, _: &mut Context<Self>) -> Result<()> {
            Ok(())
        }
    }
    let env = StreamExecutionEnvironment::new();
    env.from_collection(0..3u64).uid("in").key_by(|n| *n).process::<Wrong>().uid("wrong").discard();
    let text = env.execute("wrong").unwrap_err().to_string();
    assert!(text.contains("state `recent`") && text.contains("millisecond"), "{text}");
}
