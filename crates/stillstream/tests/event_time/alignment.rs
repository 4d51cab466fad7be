//! Watermark alignment: a source that is ahead waits for the others of its group, and barriers pass it all
//! the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use stillstream::connect::{SourceContext, SplitNews, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};

const DRIFT: i64 = 1_000;

/// How far the fast and the slow source are, and how far the slow one may go.
#[derive(Default)]
struct Race {
    fast: AtomicI64,
    slow: AtomicI64,
    slow_until: AtomicI64,
    /// How often the fast one was asked for records.
    polls: AtomicU64,
}

/// Event times one after the other, without an end: a fast one, and a slow one that stops where it is told
/// to.
struct Times {
    race: Arc<Race>,
    fast: bool,
}

impl SplitSource for Times {
    type Item = i64;
    type Split = i64;
    fn splits(&self) -> Result<Vec<i64>> {
        Ok(vec![0])
    }
    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<i64, i64>>> {
        Ok(Box::new(Reader {
            race: self.race.clone(),
            fast: self.fast,
            next: Vec::new(),
            context: context.clone(),
        }))
    }
}

struct Reader {
    race: Arc<Race>,
    fast: bool,
    next: Vec<i64>,
    context: SourceContext,
}

impl SplitReader<i64, i64> for Reader {
    fn assign(&mut self, splits: Vec<i64>) -> Result<()> {
        self.next = splits;
        Ok(())
    }
    fn poll(&mut self, _: usize, out: &mut Batch<i64>) -> Result<SourceStatus> {
        let again = SourceStatus::Idle { until_ms: Some(self.context.clock.now_ms() + 1) };
        let Some(next) = self.next.first_mut() else { return Ok(again) };
        if self.fast {
            self.race.polls.fetch_add(1, Ordering::SeqCst);
        } else if *next >= self.race.slow_until.load(Ordering::SeqCst) {
            return Ok(again);
        }
        out.values.extend(*next..*next + 10);
        *next += 10;
        let reached = if self.fast { &self.race.fast } else { &self.race.slow };
        reached.store(*next, Ordering::SeqCst);
        Ok(SourceStatus::More)
    }
    fn positions(&self) -> Vec<i64> {
        self.next.clone()
    }
}

#[test]
fn a_source_waits_for_the_slowest_of_its_group_and_checkpoints_go_on_meanwhile() {
    for parallelism in [1, 2] {
        let race = Arc::new(Race::default());
        race.slow_until.store(500, Ordering::SeqCst);
        let mut env = StreamExecutionEnvironment::new();
        env.set_parallelism(parallelism).enable_checkpointing(millis(20));
        let times = |name: &str, fast: bool| {
            let strategy = WatermarkStrategy::monotonic()
                .timestamp(|at: &i64| Timestamp::from_millis(*at))
                .alignment_every("race", millis(DRIFT as u64), millis(5));
            let source = env.from_source(name, Times { race: race.clone(), fast });
            source.uid(name).watermarks(strategy).uid(format!("{name} time"))
        };
        times("fast", true).union(&times("slow", false)).discard();
        let job = env.execute_async("alignment").unwrap();
        let completed = || job.checkpoint_statistics().counts.completed;
        for until in [500, 5_000, 20_000] {
            race.slow_until.store(until, Ordering::SeqCst);
            let waits = || {
                race.slow.load(Ordering::SeqCst) >= until && race.fast.load(Ordering::SeqCst) >= until + DRIFT
            };
            assert!(job.wait_until(seconds(60), |_| waits()), "the fast source goes as far as it may");
            // while it waits, checkpoints complete
            let before = completed();
            assert!(
                job.wait_until(seconds(60), |_| completed() > before + 5),
                "barriers pass a source that waits"
            );
            // what was under way when the others were heard of last, and no more
            let ahead = race.fast.load(Ordering::SeqCst) - until;
            assert!(ahead <= 40 * DRIFT, "{ahead} ms ahead at parallelism {parallelism}");
            let polls = race.polls.load(Ordering::SeqCst);
            let before = completed();
            assert!(job.wait_until(seconds(60), |_| completed() > before + 5));
            assert_eq!(race.polls.load(Ordering::SeqCst), polls, "it is not asked while it waits");
        }
        job.cancel();
        assert!(job.wait().is_err());
    }
}

/// The same two side by side in one subtask, as two splits of one source.
struct SideBySide(Arc<Race>);

impl SplitSource for SideBySide {
    type Item = i64;
    type Split = i64;
    fn splits(&self) -> Result<Vec<i64>> {
        Ok(vec![0, 0])
    }
    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<i64, i64>>> {
        let (race, context) = (self.0.clone(), context.clone());
        Ok(Box::new(TwoSplits {
            race,
            context,
            next: Vec::new(),
            paused: Vec::new(),
            current: None,
            told: false,
        }))
    }
}

struct TwoSplits {
    race: Arc<Race>,
    context: SourceContext,
    /// The fast one, and the slow one.
    next: Vec<i64>,
    paused: Vec<usize>,
    current: Option<usize>,
    told: bool,
}

impl SplitReader<i64, i64> for TwoSplits {
    fn assign(&mut self, splits: Vec<i64>) -> Result<()> {
        self.next = splits;
        Ok(())
    }
    fn poll(&mut self, _: usize, out: &mut Batch<i64>) -> Result<SourceStatus> {
        let Race { fast, slow, slow_until, polls } = &*self.race;
        let may = |split: usize| match split {
            0 => true,
            _ => self.next[1] < slow_until.load(Ordering::SeqCst),
        };
        let first = self.current.map_or(0, |split| 1 - split);
        let split = [first, 1 - first].into_iter().find(|split| !self.paused.contains(split) && may(*split));
        self.current = split;
        let Some(split) = split else {
            return Ok(SourceStatus::Idle { until_ms: Some(self.context.clock.now_ms() + 1) });
        };
        if split == 0 {
            polls.fetch_add(1, Ordering::SeqCst);
        }
        let next = &mut self.next[split];
        out.values.extend(*next..*next + 10);
        *next += 10;
        [fast, slow][split].store(*next, Ordering::SeqCst);
        Ok(SourceStatus::More)
    }
    fn pause(&mut self, splits: &[usize]) -> Result<()> {
        self.paused = splits.to_vec();
        Ok(())
    }
    fn positions(&self) -> Vec<i64> {
        self.next.clone()
    }
    fn split_news(&mut self) -> Option<SplitNews> {
        let opened = if std::mem::replace(&mut self.told, true) { Vec::new() } else { vec![0, 1] };
        Some(SplitNews { opened, current: self.current, ended: Vec::new() })
    }
}

#[test]
fn a_split_waits_for_the_slowest_split_of_its_own_subtask_which_is_read_meanwhile() {
    let race = Arc::new(Race::default());
    race.slow_until.store(500, Ordering::SeqCst);
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(1).enable_checkpointing(millis(20));
    let strategy = WatermarkStrategy::monotonic()
        .timestamp(|at: &i64| Timestamp::from_millis(*at))
        .alignment_every("race", millis(DRIFT as u64), millis(5));
    let rows = env.from_source("both", SideBySide(race.clone())).uid("both").watermarks(strategy).uid("time");
    rows.key_by(|at| at % 7).map_with_state("seen", |_: &mut u64, at| at).uid("state").discard();
    let job = env.execute_async("splits in alignment").unwrap();
    let completed = || job.checkpoint_statistics().counts.completed;
    for until in [5_000, 20_000, 40_000] {
        race.slow_until.store(until, Ordering::SeqCst);
        let (fast, slow) = (|| race.fast.load(Ordering::SeqCst), || race.slow.load(Ordering::SeqCst));
        let met = job.wait_until(seconds(60), |_| slow() >= until && fast() >= until + DRIFT);
        assert!(met, "the slow split is read, and the fast one as far as it may: {} {}", slow(), fast());
        let before = completed();
        assert!(
            job.wait_until(seconds(60), |_| completed() > before + 5),
            "barriers pass a split that waits"
        );
        let (polls, before) = (race.polls.load(Ordering::SeqCst), completed());
        assert!(fast() - until <= 40 * DRIFT, "{} ms ahead", fast() - until);
        assert!(job.wait_until(seconds(60), |_| completed() > before + 5));
        assert_eq!(race.polls.load(Ordering::SeqCst), polls, "it is not asked while it waits");
    }
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn alignment_away_from_a_source_is_refused_before_the_job_starts() {
    let env = StreamExecutionEnvironment::new();
    let strategy = WatermarkStrategy::monotonic().alignment("group", seconds(1));
    let strategy = strategy.timestamp(|at: &i64| Timestamp::from_millis(*at));
    env.from_collection(vec![1i64]).map(|at| at).watermarks(strategy).discard();
    let error = env.execute("refused").unwrap_err().to_string();
    assert!(error.contains("`group`") && error.contains("directly after from_source"), "{error}");
}
