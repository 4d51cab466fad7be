//! Jobs as users write them, run from source to sink.

use stillstream::prelude::*;

fn env(parallelism: u32) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(parallelism);
    env
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

#[derive(Clone, Data, PartialEq, Debug)]
struct Click {
    user: u32,
    at: Timestamp,
}

#[derive(Clone, Data, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Session {
    user: u32,
    start: Timestamp,
    last: Timestamp,
    clicks: u32,
}

/// Emits a session when a user has been silent for half an hour.
struct Sessions {
    open: ValueState<Session>,
}

impl KeyedProcess for Sessions {
    type Key = u32;
    type In = Click;
    type Out = Session;

    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { open: states.value("open")? })
    }

    fn process(&mut self, click: Click, ctx: &mut Context<Self>) -> Result<()> {
        // records of other users may be far ahead of the watermark: the function compares times itself
        if let Some(session) = self.open.get(ctx)?
            && session.last + minutes(30) <= click.at
        {
            ctx.emit(session);
            self.open.clear(ctx)?;
        }
        let start = || Session { user: click.user, start: click.at, last: click.at, clicks: 0 };
        self.open.update(ctx, start, |session| {
            session.last = session.last.max(click.at);
            session.clicks += 1;
        })?;
        ctx.timers().on_event_time(click.at + minutes(30))?;
        Ok(())
    }

    fn on_timer(&mut self, at: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        if let Some(session) = self.open.get(ctx)?
            && session.last + minutes(30) == at
        {
            ctx.emit(session);
            self.open.clear(ctx)?;
        }
        Ok(())
    }
}

#[test]
fn a_function_with_state_and_timers_emits_what_is_open_at_the_end_of_the_input() {
    let at = |minute| Timestamp::from_millis(0) + minutes(minute);
    for parallelism in [1, 3] {
        let env = env(parallelism);
        let clicks = (0..600).map(|i| Click { user: (i % 200) as u32, at: at(i / 200) });
        let sessions = env
            .from_collection(clicks)
            .key_by(|click| click.user)
            .process::<Sessions>()
            .uid("sessions")
            .collect();
        env.execute("sessions").unwrap();
        let expected: Vec<Session> =
            (0..200).map(|user| Session { user, start: at(0), last: at(2), clicks: 3 }).collect();
        assert_eq!(sessions.sorted(), expected, "parallelism {parallelism}");
    }
}

#[test]
fn a_pause_ends_a_session_wherever_the_watermark_stands() {
    let at = |minute| Timestamp::from_millis(0) + minutes(minute);
    let env = env(2);
    // two sessions of each user
    let of_all = |minute| (0..50).map(move |user| (user, minute));
    let clicks = of_all(0).chain(of_all(10)).chain(of_all(100)).chain(of_all(110));
    let sessions = env
        .from_collection(clicks.map(|(user, minute)| Click { user, at: at(minute) }))
        .watermarks(WatermarkStrategy::monotonic().timestamp(|click: &Click| click.at))
        // as the source: dealt out to two subtasks, the records of a user would lose their order
        .set_parallelism(1)
        .key_by(|click| click.user)
        .process::<Sessions>()
        .uid("sessions")
        .collect();
    env.execute("sessions by watermark").unwrap();
    let session = |user, start| Session { user, start: at(start), last: at(start + 10), clicks: 2 };
    let expected: Vec<Session> = (0..50).flat_map(|user| [session(user, 0), session(user, 100)]).collect();
    assert_eq!(sessions.sorted(), expected);
}

#[test]
fn records_that_own_memory_are_counted_by_key_with_both_kinds_of_snapshot() {
    for asynchronous in [true, false] {
        let mut env = env(2);
        env.set_state_backend(MemoryStateBackend::new().asynchronous(asynchronous));
        let counts = env
            .from_collection(words("to be or not to be"))
            .key_by_ref(|word| word)
            .map_with_state("count", |count: &mut u64, word| {
                *count += 1;
                (word, *count)
            })
            .uid("counts")
            .collect();
        env.execute("words").unwrap();
        let expected = [("be", 1), ("be", 2), ("not", 1), ("or", 1), ("to", 1), ("to", 2)];
        assert_eq!(counts.sorted(), expected.map(|(word, n)| (word.to_string(), n)));
    }
}

#[test]
fn reduce_and_aggregate_emit_after_each_record() {
    struct Count;
    impl Aggregate for Count {
        type In = (String, u64);
        type Acc = u64;
        type Out = u64;
        fn create(&self) -> u64 {
            0
        }
        fn add(&self, acc: &mut u64, _: (String, u64)) {
            *acc += 1;
        }
        fn merge(&self, acc: &mut u64, other: u64) {
            *acc += other;
        }
        fn result(&self, acc: &u64) -> u64 {
            *acc
        }
    }
    let env = env(2);
    let records = env.from_collection([("a", 1), ("b", 5), ("a", 2)].map(|(key, n)| (key.to_string(), n)));
    let keyed = records.key_by_ref(|record| &record.0);
    let sums = keyed.reduce(|sum, record| (sum.0, sum.1 + record.1)).uid("sums").collect();
    let counts = keyed.aggregate(Count).uid("counts").collect();
    env.execute("folds").unwrap();
    assert_eq!(sums.sorted(), [("a", 1), ("a", 3), ("b", 5)].map(|(key, n)| (key.to_string(), n)));
    assert_eq!(counts.sorted(), [1, 1, 2]);
}

#[test]
fn stateless_operators_work_on_one_stream_and_a_stream_feeds_several() {
    let env = env(2);
    let numbers = env.from_collection(0..1000u64);
    let even = numbers.filter(|n| n % 2 == 0).collect();
    let repeated = numbers.filter(|n| *n < 4).flat_map(|n| 0..n).collect();
    let parsed =
        numbers.filter(|n| *n < 3).map(|n| n.to_string()).try_map(|n| Ok(n.parse::<u64>()?)).collect();
    let spread = numbers.rebalance().map(|n| n).collect();
    let copies = numbers.filter(|n| *n < 5).broadcast().map(|n| n).collect();
    env.execute("stateless").unwrap();
    assert_eq!(even.sorted(), (0..1000).filter(|n| n % 2 == 0).collect::<Vec<_>>());
    assert_eq!(repeated.sorted(), [0, 0, 0, 1, 1, 2]);
    assert_eq!(parsed.sorted(), [0, 1, 2]);
    assert_eq!(spread.sorted(), (0..1000).collect::<Vec<_>>());
    assert_eq!(copies.sorted(), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], "every subtask has every record");
}

#[test]
fn a_union_holds_the_records_of_all_its_streams_also_by_key() {
    let env = env(2);
    let all =
        env.from_collection(0..10u64).union(&env.from_collection(5..15)).union(&env.from_collection(7..8));
    let times = all
        .key_by(|n| *n)
        .map_with_state("times", |times: &mut u64, n| {
            *times += 1;
            (n, *times)
        })
        .uid("times")
        .collect();
    env.execute("union").unwrap();
    let mut expected: Vec<(u64, u64)> = (0..15).map(|n| (n, 1)).collect();
    expected.extend((5..10).map(|n| (n, 2)));
    expected.push((7, 3));
    expected.sort();
    assert_eq!(times.sorted(), expected);
}

const BAD: OutputTag<String> = OutputTag::new("bad");
const LONG: OutputTag<u64> = OutputTag::new("long");
const UNREAD: OutputTag<u8> = OutputTag::new("unread");

#[test]
fn side_outputs_have_their_own_types_and_one_that_nobody_reads_is_dropped() {
    let env = env(2);
    let numbers = env.from_collection(words("7 seven 8 77777 x")).process(|text, ctx| {
        ctx.side(&UNREAD, 1)?;
        if text.len() > 4 {
            ctx.side(&LONG, text.len() as u64)?;
        }
        match text.parse::<u64>() {
            Ok(number) => ctx.emit(number),
            Err(_) => ctx.side(&BAD, text)?,
        }
        Ok(())
    });
    let (bad, long) = (numbers.side_output(&BAD).collect(), numbers.side_output(&LONG).collect());
    let numbers = numbers.collect();
    env.execute("sides").unwrap();
    assert_eq!(numbers.sorted(), [7, 8, 77777]);
    assert_eq!(bad.sorted(), ["seven", "x"]);
    assert_eq!(long.sorted(), [5, 5]);
}

/// Joins an order and its payment, whichever comes first.
struct Paid {
    order: ValueState<String>,
    amount: ValueState<u64>,
}

impl CoProcess for Paid {
    type Key = u32;
    type In1 = (u32, String);
    type In2 = (u32, u64);
    type Out = (String, u64);

    fn open(states: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self { order: states.value("order")?, amount: states.value("amount")? })
    }

    fn process1(&mut self, (_, order): (u32, String), ctx: &mut CoContext<Self>) -> Result<()> {
        match self.amount.get(ctx)? {
            Some(amount) => ctx.emit((order, amount)),
            None => self.order.set(ctx, order)?,
        }
        Ok(())
    }

    fn process2(&mut self, (_, amount): (u32, u64), ctx: &mut CoContext<Self>) -> Result<()> {
        match self.order.get(ctx)? {
            Some(order) => ctx.emit((order, amount)),
            None => self.amount.set(ctx, amount)?,
        }
        Ok(())
    }
}

#[test]
fn connected_streams_share_the_state_of_a_key() {
    let env = env(3);
    let orders = env.from_collection((0..500u32).map(|id| (id, format!("order {id:03}"))));
    let payments = env.from_collection((100..600u32).map(|id| (id, u64::from(id) * 10)));
    let paid = orders.connect(&payments).key_by(|o| o.0, |p| p.0).process::<Paid>().uid("paid").collect();
    env.execute("orders").unwrap();
    let expected: Vec<(String, u64)> = (100..500u64).map(|id| (format!("order {id:03}"), id * 10)).collect();
    assert_eq!(paid.sorted(), expected);
}

/// Counts the rules that it knows at the end of the input.
struct Rules {
    known: BroadcastState<u32, String>,
}

impl BroadcastProcess for Rules {
    type Key = u32;
    type In = u32;
    type Rule = (u32, String);
    type Out = (u32, Option<String>);

    fn open(_: &mut KeyedStates<u32>, broadcasts: &mut BroadcastStates) -> Result<Self> {
        Ok(Self { known: broadcasts.map("rules")? })
    }

    fn process(&mut self, _: u32, ctx: &mut KeyedContext<u32, Self::Out>) -> Result<()> {
        ctx.timers().on_event_time(Timestamp::from_millis(0))?;
        Ok(())
    }

    fn process_broadcast(
        &mut self,
        (key, rule): (u32, String),
        _: &mut BroadcastContext<Self::Out>,
    ) -> Result<()> {
        Ok(self.known.put(key, rule)?)
    }

    fn on_timer(&mut self, _: Timestamp, ctx: &mut KeyedContext<u32, Self::Out>) -> Result<()> {
        let rule = self.known.get(&(ctx.key() % 10))?;
        ctx.emit((*ctx.key(), rule));
        Ok(())
    }
}

#[test]
fn every_subtask_knows_every_broadcast_record() {
    let env = env(3);
    let rules = env.from_collection((0..9u32).map(|key| (key, format!("rule {key}"))));
    let found = env
        .from_collection(0..100u32)
        .key_by(|n| *n)
        .connect_broadcast(&rules)
        .process::<Rules>()
        .uid("rules")
        .collect();
    env.execute("rules").unwrap();
    let expected: Vec<(u32, Option<String>)> =
        (0..100).map(|n| (n, (n % 10 < 9).then(|| format!("rule {}", n % 10)))).collect();
    assert_eq!(found.sorted(), expected);
}

/// Emits each n-th record of a key.
struct EveryNth {
    n: u64,
    seen: ValueState<u64>,
}

impl KeyedProcess for EveryNth {
    type Key = bool;
    type In = u64;
    type Out = u64;

    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { n: 1, seen: states.value("seen")? })
    }

    fn process(&mut self, record: u64, ctx: &mut Context<Self>) -> Result<()> {
        let seen = self.seen.update(
            ctx,
            || 0,
            |seen| {
                *seen += 1;
                *seen
            },
        )?;
        if seen.is_multiple_of(self.n) {
            ctx.emit(record);
        }
        Ok(())
    }
}

#[test]
fn a_function_can_be_given_parameters() {
    let env = env(2);
    let n = 3;
    let found = env
        .from_collection(0..12u64)
        .key_by(|n| n % 2 == 0)
        .process_with(move |states| Ok(EveryNth { n, ..EveryNth::open(states)? }))
        .uid("nth")
        .collect();
    env.execute("nth").unwrap();
    assert_eq!(found.sorted(), [4, 5, 10, 11]);
}

fn error_of(build: impl Fn(&StreamExecutionEnvironment)) -> Error {
    let env = env(1);
    build(&env);
    env.execute("wrong").unwrap_err()
}

#[test]
fn an_error_and_a_panic_of_a_function_end_the_job_with_the_operators_name() {
    let error = error_of(|env| {
        let numbers = env.from_collection(words("1 two")).try_map(|text| Ok(text.parse::<u32>()?));
        let _ = numbers.name("parse").discard();
    });
    let text = error.to_string();
    assert!(text.contains("operator `parse`") && text.contains("invalid digit found in string"), "{text}");
    let error = error_of(|env| {
        let divided = env.from_collection([3u32, 0]).map(|n| 6 / n).name("divide");
        let _ = divided.discard();
    });
    let text = error.to_string();
    assert!(
        text.contains("operator `divide`") && text.contains("panicked: attempt to divide by zero"),
        "{text}"
    );
    let error = error_of(|env| {
        let keyed = env.from_collection([3u32, 0]).key_by(|n| 6 / n);
        let _ = keyed.map_with_state("s", |_: &mut u8, n| n).uid("s").discard();
    });
    assert!(error.to_string().contains("key selector panicked"), "{error}");
}

#[test]
fn a_mistake_in_the_program_is_one_sentence_before_the_job_starts() {
    let says = |part: &str, build: &dyn Fn(&StreamExecutionEnvironment)| {
        let error = error_of(build);
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.is_fatal(), "a restart cannot help: {error}");
    };
    says("no sources", &|_| ());
    says("same uid `x`", &|env| {
        let numbers = env.from_collection(0..3u32).uid("x");
        let _ = numbers.map(|n| n).uid("x").discard();
    });
    says("has parallelism 0", &|env| {
        let _ = env.from_collection(0..3u32).map(|n| n).set_parallelism(0).discard();
    });
    says("`map` has no side outputs", &|env| {
        let _ = env.from_collection(0..3u32).map(|n| n).side_output(&BAD).discard();
    });
    says("uid() names no operator", &|env| {
        let numbers = env.from_collection(0..3u32);
        let _ = numbers.union(&numbers).uid("both").discard();
    });
    says("two environments", &|env| {
        let other = StreamExecutionEnvironment::new();
        let _ = env.from_collection(0..3u32).union(&other.from_collection(0..3)).discard();
    });
}

#[test]
fn a_failed_function_is_restarted_and_every_record_counts_once() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static FAILED: AtomicBool = AtomicBool::new(false);
    let mut env = env(2);
    env.enable_checkpointing(millis(10))
        .set_restart_strategy(RestartStrategy::fixed_delay(3, Duration::ZERO));
    let sums = env
        .from_source("numbers", Generator::new(60_000, |n| n).records_per_second(300_000.0))
        .uid("numbers")
        .key_by(|n| n % 100)
        .map_with_state("sum", |sum: &mut (u64, u64), n| {
            assert!(n != 40_000 || FAILED.swap(true, Ordering::SeqCst), "a bug that shows once");
            *sum = (sum.0 + 1, sum.1 + n);
            (n % 100, sum.0, sum.1)
        })
        .uid("sums")
        .filter(|(_, count, _)| *count == 600)
        .collect();
    let result = env.execute("restarted").unwrap();
    assert_eq!(result.restarts, 1, "{result}");
    let expected: Vec<(u64, u64, u64)> =
        (0..100).map(|key| (key, 600, (0..600).map(|i| i * 100 + key).sum())).collect();
    assert_eq!(sums.sorted(), expected);
}
