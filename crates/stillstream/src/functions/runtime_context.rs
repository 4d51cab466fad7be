//! [`RuntimeContext`]: what a function is told of where it runs, and figures of its own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stillstream_runtime::OpenContext;
use stillstream_runtime::metrics::Counters;

/// Where a function runs: its operator, which parallel instance it is, and counters of its own. Flink's
/// `RuntimeContext`.
///
/// Every function gets it when it is opened, from what it makes its states with.
///
/// ```
/// use stillstream::functions::Counter;
/// use stillstream::prelude::*;
///
/// /// Passes on what is not negative, and counts the rest.
/// struct Valid { negative: Counter }
/// impl Process for Valid {
///     type In = i64;
///     type Out = i64;
///     fn process(&mut self, n: i64, ctx: &mut TimedContext<i64>) -> Result<()> {
///         match n < 0 {
///             true => self.negative.add(1),
///             false => ctx.emit(n),
///         }
///         Ok(())
///     }
/// }
///
/// let env = StreamExecutionEnvironment::new();
/// env.from_collection(vec![3, -1, -2])
///     .process_with(|states| Ok(Valid { negative: states.runtime().counter("negative") }))
///     .name("valid")
///     .discard();
/// let result = env.execute("counted")?;
/// assert_eq!(result.counters["valid.negative"], 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct RuntimeContext {
    name: Arc<str>,
    subtask: u32,
    parallelism: u32,
    max_parallelism: u32,
    attempt: u64,
    counters: Arc<Counters>,
}

impl fmt::Debug for RuntimeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuntimeContext({} {}/{})", self.name, self.subtask, self.parallelism)
    }
}

impl RuntimeContext {
    pub(crate) fn of(context: &OpenContext) -> Self {
        Self {
            name: context.name.clone(),
            subtask: context.subtask.0,
            parallelism: context.parallelism,
            max_parallelism: context.key_groups.max_parallelism(),
            attempt: context.generation,
            counters: context.counters.clone(),
        }
    }

    /// Of a function that does not run.
    pub(crate) fn nowhere() -> Self {
        let (name, counters) = ("window".into(), Arc::default());
        Self { name, subtask: 0, parallelism: 1, max_parallelism: 1, attempt: 0, counters }
    }

    /// The operator's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which parallel instance this is, from 0.
    pub fn subtask(&self) -> u32 {
        self.subtask
    }

    /// How many parallel instances there are.
    pub fn parallelism(&self) -> u32 {
        self.parallelism
    }

    /// How many there can ever be: the number of key groups.
    pub fn max_parallelism(&self) -> u32 {
        self.max_parallelism
    }

    /// Which attempt to run the job this is: it grows with each restart, also with that of the program.
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// A counter of the job, over all subtasks and attempts: it is shown as `<operator name>.<name>` among
    /// [the result's counters](crate::JobResult::counters) and [the running job's](crate::JobMetrics). It
    /// counts what was done, so records that are processed again after a failure count again.
    pub fn counter(&self, name: &str) -> Counter {
        Counter(self.counters.handle(&format!("{}.{name}", self.name)))
    }
}

/// A number that only grows; see [`RuntimeContext::counter`].
#[derive(Clone, Debug)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds to it.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// What all subtasks of this process have counted.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
