//! [`StreamExecutionEnvironment`]: where a job begins.

mod arguments;
mod flags;
mod setters;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::sync::PoisonError;

use stillstream_config::{Configuration, options as o};
use stillstream_runtime::connect::SplitSource;
use stillstream_runtime::job::{
    JobClient, JobResult, JobSettings, describe_plan, in_worker_process, plan_file, submit,
};
use stillstream_runtime::plan::Plan;
use stillstream_state::Data;
use stillstream_types::{Error, ErrorKind, Result, ResultExt};

use crate::backend::MemoryStateBackend;
use crate::collection::Collection;
use crate::data_stream::DataStream;
use crate::graph::Graph;
use crate::logging::init_logging;
use crate::rest::Door;
use crate::settings::{PlanSettings, job_settings, plan_settings};
use crate::signals;

/// Where a job begins: makes sources, holds the settings, and runs what was built.
///
/// Settings in code win over a configuration file, and arguments win over both, so that whoever starts the
/// program has the last word. What is wrong is reported by [`execute`](Self::execute), before the job starts.
///
/// ```
/// use stillstream::prelude::*;
///
/// let mut env = StreamExecutionEnvironment::new();
/// env.enable_checkpointing(Duration::from_millis(500)).set_parallelism(2);
/// let even = env.from_source("numbers", Generator::new(1000, |n| n)).filter(|n| n % 2 == 0).collect();
/// let result = env.execute("even numbers")?;
/// assert_eq!((result.records_in, even.len()), (1000, 500));
/// # Ok::<(), Error>(())
/// ```
#[derive(Default)]
pub struct StreamExecutionEnvironment {
    graph: RefCell<Graph>,
    config: Configuration,
    /// What keys cannot say of a backend.
    backend: MemoryStateBackend,
    arguments: Vec<String>,
    /// The program was started with the environment's arguments: whoever did that can watch and drive its
    /// jobs.
    from_args: bool,
    /// Jobs that were executed, each with its graph and the size that it had.
    executed: RefCell<Vec<(String, Graph, usize)>>,
    /// Whether a job is run, or only described.
    mode: Mode,
    /// Warnings that were given.
    warned: RefCell<BTreeSet<String>>,
}

/// What `execute` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Mode {
    /// It runs the job.
    #[default]
    Run,
    /// It prints the operators with their states, and ends the program.
    Plan {
        /// As a plan file, for `stillstream restore-plan`.
        json: bool,
    },
}

impl fmt::Debug for StreamExecutionEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamExecutionEnvironment")
            .field("graph", &self.graph.borrow())
            .field("configuration", &self.config)
            .finish_non_exhaustive()
    }
}

/// Making one.
impl StreamExecutionEnvironment {
    /// An environment with the default settings. It reads neither files nor arguments.
    pub fn new() -> Self {
        Self::default()
    }

    /// An environment with these settings.
    ///
    /// ```
    /// use stillstream::config::Configuration;
    /// use stillstream::prelude::*;
    /// let config = Configuration::parse_yaml("settings", "execution.checkpointing.interval: 10 s").unwrap();
    /// let env = StreamExecutionEnvironment::from_configuration(config);
    /// # let _ = env;
    /// ```
    pub fn from_configuration(config: Configuration) -> Self {
        Self { config, ..Self::default() }
    }

    /// The settings so far.
    pub fn configuration(&self) -> &Configuration {
        &self.config
    }

    /// The settings, to set a key that has no setter here.
    ///
    /// ```
    /// use stillstream::config::options;
    /// use stillstream::prelude::*;
    /// let mut env = StreamExecutionEnvironment::new();
    /// env.configuration_mut().set(options::SINK_COMMITTER_RETRIES, 3);
    /// ```
    pub fn configuration_mut(&mut self) -> &mut Configuration {
        &mut self.config
    }

    /// The arguments that were not the environment's, for the program to read.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

/// Sources.
impl StreamExecutionEnvironment {
    /// A stream of what a source reads. Give it a [`uid`](DataStream::uid): a source keeps its position as
    /// state.
    ///
    /// With [`OnMalformed::SideOutput`](crate::connectors::OnMalformed) malformed rows are its side output:
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// const BAD: OutputTag<Malformed> = OutputTag::new("bad rows");
    ///
    /// let env = StreamExecutionEnvironment::new();
    /// let rows = CsvSource::<(String, u32)>::new("in.csv").on_malformed(OnMalformed::SideOutput);
    /// let rows = env.from_source("rows", rows).uid("rows");
    /// rows.side_output(&BAD).print();
    /// ```
    pub fn from_source<S: SplitSource>(&self, name: impl Into<String>, source: S) -> DataStream<S::Item> {
        let graph = self.graph();
        let upstream = graph.source(name.into(), source);
        DataStream::new(graph, upstream)
    }

    /// A stream of records that the program has at hand, read by one subtask. It ends with the last one.
    ///
    /// A job that is started again from a checkpoint goes on where it was, so the records must be the same
    /// each time.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let env = StreamExecutionEnvironment::new();
    /// let numbers = env.from_collection(1..=10u64);
    /// let words = env.from_collection(["to", "be"].map(String::from));
    /// # let _ = (numbers, words);
    /// ```
    pub fn from_collection<T: Data>(&self, records: impl IntoIterator<Item = T>) -> DataStream<T> {
        // in the program's memory, as good as a constant: a missing uid is nothing to warn of
        self.from_source("collection", Collection::new(records))
            .set_parallelism(1)
            .change("", |node| node.stateful = false)
    }
}

/// Running the job.
impl StreamExecutionEnvironment {
    /// Runs what was built and waits for its end.
    ///
    /// SIGINT (Ctrl-C) and SIGTERM stop a job that the program's main thread executes so with a last
    /// checkpoint: its output is committed, and the next start goes on from there. A second one ends the
    /// process at once. Key `stillstream.signals`.
    ///
    /// Where the program was started with `plan` ([`from_args`](Self::from_args)) nothing runs: the operators
    /// are printed with their ids and states, and the program ends here with exit code 0.
    ///
    /// Afterwards the environment is empty and keeps its settings; the next job starts with new sources.
    ///
    /// A job whose checkpoint directory says that it has finished is not run again: the result is that of the
    /// run that finished it, and [`JobResult::finished_before`] says when that was.
    /// [`start_fresh`](Self::start_fresh) runs it anew. What such a job collected in memory is gone, so a
    /// program that goes on with it keeps it in files.
    ///
    /// # Errors
    /// What is wrong with the program, its settings, its files or its checkpoint directory, before anything
    /// starts; also that a person cancelled the job and did not say how it goes on
    /// ([`restore_from`](Self::restore_from) or `start_fresh`). Later what ended the job: its error when the
    /// restart strategy gives up, or that it was cancelled.
    pub fn execute(&self, name: impl Into<String>) -> Result<JobResult> {
        let name = name.into();
        let signals = self.config.get(o::SIGNALS) && signals::is_main_thread() && !in_worker_process();
        if !signals {
            return self.execute_async(name)?.wait();
        }
        signals::refuse_after_signal(&name)?;
        let job = self.execute_async(name)?;
        let _watched = signals::watch(&job);
        job.wait()
    }

    /// Starts what was built and returns at once. The [`JobClient`] watches the job, takes checkpoints,
    /// cancels it.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let env = StreamExecutionEnvironment::new();
    /// env.from_source("ticks", Generator::unbounded(|n| n).records_per_second(100.0)).discard();
    /// let job = env.execute_async("ticks")?;
    /// job.cancel();
    /// assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// A savepoint is a snapshot for keeps, and a job can be stopped with one:
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// # let folder = std::env::temp_dir().join(format!("stillstream-savepoints-{}", std::process::id()));
    /// # let folder = folder.to_str().unwrap();
    /// let mut env = StreamExecutionEnvironment::new();
    /// let ticks = || Generator::unbounded(|n| n).records_per_second(1000.0);
    /// env.from_source("ticks", ticks()).uid("ticks").discard();
    /// let job = env.execute_async("ticks")?;
    /// let running = job.wait_until(seconds(60), |job| job.metrics().records_in > 0);
    /// assert!(running);
    /// let report = job.stop_with_savepoint(Some(folder), false, SavepointFormat::Canonical)?;
    /// assert_eq!(job.wait()?.ending, JobEnding::Stopped(report.path.clone()));
    ///
    /// // later, perhaps in a newer version of the program
    /// env.restore_from(report.path);
    /// env.from_source("ticks", ticks()).uid("ticks").discard();
    /// let job = env.execute_async("ticks")?;
    /// # assert!(job.wait_until(seconds(60), |job| job.metrics().records_in > 0));
    /// # job.cancel();
    /// # std::fs::remove_dir_all(folder).unwrap();
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`execute`](Self::execute) before anything starts.
    pub fn execute_async(&self, name: impl Into<String>) -> Result<JobClient> {
        let log_is_ours = init_logging();
        let name = name.into();
        let graph = self.graph.take();
        self.refuse_changes_of_executed_jobs()?;
        self.executed.borrow_mut().push((name.clone(), graph.clone(), graph.len()));
        let mut settings = job_settings(&name, &self.config, &self.backend)?;
        settings.error_is_printed = log_is_ours;
        settings.configuration = self.config.shown();
        let worker = in_worker_process();
        if worker {
            signals::leave_to_the_job_manager();
        }
        let wanted = plan_settings(&self.config);
        *graph.commit_policy().lock().unwrap_or_else(PoisonError::into_inner) = wanted.commits;
        let mut plan = graph.plan()?;
        finish(&mut plan, wanted)?;
        self.describe(&plan, &settings)?;
        if !worker {
            self.warn();
        }
        if !worker {
            graph.run_checks(&settings.outline())?;
        }
        // the job's own process has the server; a worker process of it has none
        let door = if worker { Door::closed() } else { Door::open(&self.config, self.from_args)? };
        settings.rest_address = door.address();
        let job = submit(plan, settings)?;
        door.admit(&job);
        Ok(job)
    }

    /// Where only the plan is wanted, says it and ends the program.
    fn describe(&self, plan: &Plan, settings: &JobSettings) -> Result<()> {
        if let Some(file) = plan_file() {
            let description = describe_plan(plan, settings)?;
            std::fs::write(&file, description.to_json())
                .context(|| format!("writing the plan to `{}`", file.display()))?;
            std::process::exit(0);
        }
        let Mode::Plan { json } = self.mode else { return Ok(()) };
        let description = describe_plan(plan, settings)?;
        let text = if json { description.to_json() + "\n" } else { description.to_string() };
        // a reader that has seen enough (`plan | head`) is no failure
        let _ = std::io::stdout().write_all(text.as_bytes());
        std::process::exit(0);
    }

    /// An operator on a stream of a job that has run would never see a record.
    fn refuse_changes_of_executed_jobs(&self) -> Result<()> {
        let executed = self.executed.borrow();
        let Some((name, ..)) = executed.iter().find(|(_, graph, len)| graph.len() > *len) else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::Plan,
            format!(
                "a stream of job `{name}`, which was executed before, was used again: make new streams with from_source or \
                 from_collection for the next job"
            ),
        ))
    }

    fn warn(&self) {
        let mut warned = self.warned.borrow_mut();
        let warnings = self.config.validate().unwrap_or_default();
        for text in warnings.iter().map(ToString::to_string).chain(no_checkpoints(&self.config)) {
            if warned.insert(text.clone()) {
                tracing::warn!("{text}");
            }
        }
    }

    /// The graph under construction.
    pub(crate) fn graph(&self) -> Graph {
        self.graph.borrow().clone()
    }
}

/// A folder for checkpoints alone takes none, and makes nobody look for those that are there.
fn no_checkpoints(config: &Configuration) -> Option<String> {
    let folder =
        config.get(o::CHECKPOINTS_DIR).filter(|_| config.get(o::CHECKPOINTING_INTERVAL).is_none())?;
    Some(format!(
        "no checkpoint will be taken, and none in `{folder}` is used: `{}` (--checkpoint-dir) is set and `{}` is not; \
         --checkpoint-interval 10s, or `enable_checkpointing` in the program, changes that",
        o::CHECKPOINTS_DIR.key(),
        o::CHECKPOINTING_INTERVAL.key()
    ))
}

/// Gives the plan what the settings say of operators.
fn finish(plan: &mut Plan, settings: PlanSettings) -> Result<()> {
    for node in &mut plan.nodes {
        node.max_parallelism = node.max_parallelism.or(settings.max_parallelism);
    }
    let without: Vec<_> =
        plan.nodes.iter().filter(|node| node.uid.is_none()).map(|node| format!("`{}`", node.name)).collect();
    if settings.require_uids && !without.is_empty() {
        return Err(Error::new(
            ErrorKind::Plan,
            format!(
                "pipeline.auto-generate-uids is false and these operators have no uid: {}; name each with `.uid(\"..\")`",
                without.join(", ")
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(arguments: &[&str]) -> Option<String> {
        let (env, _) = StreamExecutionEnvironment::from_arguments(arguments.iter().copied()).unwrap();
        no_checkpoints(&env.config)
    }

    #[test]
    fn a_folder_for_checkpoints_without_an_interval_says_that_none_will_be_taken() {
        let text = said(&["--checkpoint-dir", "/data/ck"]).unwrap();
        for part in ["no checkpoint will be taken", "/data/ck", "--checkpoint-interval 10s"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(said(&["--checkpoint-dir", "/data/ck", "--checkpoint-interval", "1s"]), None);
        assert_eq!(said(&[]), None);
    }
}
