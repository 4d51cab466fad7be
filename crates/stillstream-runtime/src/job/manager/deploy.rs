//! The start of an attempt: what it begins from is read, planned and handed to the workers.

use super::*;

impl Manager {
    pub(super) fn operators(&self) -> Vec<OperatorInfo> {
        let of = |task: &crate::plan::Task| {
            let parallelism = task.parallelism;
            let info = move |operator: &crate::plan::ChainedOperator| OperatorInfo {
                id: operator.id,
                uid: operator.uid.clone(),
                name: operator.name.to_string(),
                parallelism,
                max_parallelism: operator.key_groups.max_parallelism(),
            };
            task.chain.iter().map(info).collect::<Vec<_>>()
        };
        self.physical.tasks.iter().flat_map(of).collect()
    }

    pub(super) fn tasks(&self) -> Vec<TaskInfo> {
        let operators = self.operators();
        let mut next = 0;
        let mut tasks = Vec::new();
        for task in &self.physical.tasks {
            let own: Vec<OperatorInfo> = operators[next..next + task.chain.len()].to_vec();
            next += task.chain.len();
            for index in 0..task.parallelism {
                let id = SubtaskId { vertex: task.vertex, index: SubtaskIndex(index) };
                tasks.push(TaskInfo {
                    id,
                    name: task.name.to_string(),
                    operators: own.clone(),
                    is_source: task.is_source(),
                });
            }
        }
        tasks
    }

    pub(super) fn task_name(&self, subtask: SubtaskId) -> String {
        let name = self.physical.tasks.get(subtask.vertex.0 as usize).map_or("?", |task| &task.name);
        format!("`{name}` subtask {}", subtask.index)
    }

    /// Reads the checkpoint that the attempt starts from, off this thread.
    pub(super) fn read_snapshot(&mut self, generation: Generation, restore_from: Option<CompletedRef>) {
        let Phase::Preparing { until } = &mut self.state.phase else { return };
        *until = Some(self.clock.elapsed() + self.settings.checkpoint.timeout);
        self.state.generation = generation;
        self.state.stopped.clear();
        let (home, operators) = (self.home.clone(), self.operators());
        let (allow, foreign) = (self.settings.allow_non_restored_state, self.settings.from_snapshot.clone());
        let fallback = foreign.filter(|_| restore_from.is_none());
        let neighbours = self.state.neighbours.clone();
        self.io.run(move || {
            let read = || -> Result<Option<RestoredState>> {
                let (metadata, location) = match (&restore_from, &fallback) {
                    (Some(own), _) => (home.read_metadata(&own.path)?, None),
                    (None, Some(location)) => (home.read_foreign(location)?, Some(location.clone())),
                    (None, None) => {
                        // for the line that says that the job starts empty
                        neighbours.get_or_init(|| home.neighbours());
                        return Ok(None);
                    }
                };
                let kind = |error| Error::wrap(ErrorKind::Configuration, error);
                let plan = plan_restore(&metadata, &operators, allow).map_err(kind)?;
                plan.dropped.iter().for_each(|line| tracing::warn!("{line}"));
                let of = |states: Vec<_>| (0..).map(SubtaskIndex).zip(states).collect();
                let operators = plan.operators.into_iter().map(|(id, states)| (id, of(states))).collect();
                Ok(Some(RestoredState { checkpoint: metadata.id, location, operators }))
            };
            Message::Restored(generation, read())
        });
    }

    pub(super) fn deploy(&mut self, restored: Result<Option<RestoredState>>) {
        // Without a time by which it has to be there nothing has been asked for in this phase: it is what an attempt wanted that
        // has been given up since. Its tasks would run under a generation that the coordinator does not know.
        if !matches!(self.state.phase, Phase::Preparing { until: Some(_) }) {
            return;
        }
        let restored = match restored {
            Ok(restored) => restored,
            Err(error) => return self.fail(error.context("the checkpoint to start from cannot be used")),
        };
        if let Some(state) = restored.as_ref().filter(|_| self.state.job.restarts() == 0) {
            self.state.resumed_from = Some(state.checkpoint);
        }
        self.say_start(restored.as_ref());
        let tasks = self.tasks();
        self.shared.event_times.lock().clear();
        self.state.not_ended = tasks.iter().map(|task| task.id).collect();
        self.state.phase = Phase::Deploying(tasks.iter().map(|task| task.id).collect());
        let spec = AttemptSpec { generation: self.state.generation, restored: restored.map(Arc::new) };
        if let Err(error) = self.fleet.start(spec) {
            // nothing runs, so nothing has to stop: it is a failed attempt like any other
            self.state.stopped.extend(0..self.fleet.workers());
            self.fail(error);
        }
    }
}
