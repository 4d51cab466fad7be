//! Where a start begins, and whether the program can go on from there. Found out before anything is claimed,
//! started or changed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use stillstream_jobmaster::way_back;
use stillstream_restore::{Choices, OperatorDescription, PlanDescription, check};
use stillstream_state::StateError;
use stillstream_storage::{JobStorage, RetainedCheckpoint, StorageError};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointId, CheckpointMetadata, CompletedRef, Error, ErrorKind, JobOutcome, JobStart, OperatorId,
    RegisterRecord, Result, SnapshotIdentity, StartedFrom, checkpoint_paths,
};
use tokio::runtime::Handle;

use super::settings::JobSettings;
use super::{configuration, storage_options};
use crate::plan::{PhysicalPlan, Plan, describe};

/// Where a start begins.
pub(crate) struct Beginning {
    /// What it restores; `None` for a job that starts empty.
    snapshot: Option<Snapshot>,
    /// What the register is to know of this start.
    start: JobStart,
    /// An older checkpoint that a person chose, and what of the register is set aside for it.
    fall_back: Option<CompletedRef>,
    /// What a person can do if what it begins from cannot be read: of the newest checkpoint of the job's own.
    way_back: Option<String>,
    /// For the log, once the job starts.
    pub warnings: Vec<String>,
    /// The same, of less weight.
    pub notes: Vec<String>,
}

struct Snapshot {
    metadata: CheckpointMetadata,
    streams: Arc<dyn SnapshotStore>,
    /// For messages.
    place: String,
}

/// The snapshot that a person named.
fn named(location: &str, settings: &JobSettings) -> Result<RetainedCheckpoint> {
    RetainedCheckpoint::open(location, &storage_options(settings)).map_err(StorageError::into_error)
}

/// Whether a record is of a life that this start goes on with.
fn goes_on(record: &RegisterRecord) -> bool {
    matches!(record.outcome, JobOutcome::Running | JobOutcome::Failed | JobOutcome::Suspended)
}

impl Beginning {
    /// Looks where the job begins. `record` is what its register says, if it is to be asked.
    ///
    /// # Errors
    /// The command line and the register contradict each other; or what the job is to begin from cannot be
    /// read.
    pub fn find(
        settings: &JobSettings,
        storage: Option<(&JobStorage, &Handle)>,
        record: Option<&RegisterRecord>,
    ) -> Result<Self> {
        let life = record.filter(|record| goes_on(record));
        let mut this = Self {
            snapshot: None,
            start: life.and_then(|life| life.began.as_deref()).cloned().unwrap_or_default(),
            fall_back: None,
            way_back: None,
            warnings: Vec::new(),
            notes: Vec::new(),
        };
        if let Some(to) = settings.fall_back_to {
            this.fall_back(to, settings, storage, record)?;
            return Ok(this);
        }
        let own = life.and_then(|life| life.completed.last()).zip(storage);
        match (&settings.from_snapshot, own) {
            (None, None) => this.where_it_began(settings, storage.map(|(_, handle)| handle))?,
            (None, Some((own, (storage, _)))) => {
                this.way_back = life.map(|life| way_back(life, own.id));
                this.begin_from_own(own, storage, settings).map_err(|error| this.with_way_back(error))?;
            }
            (Some(from), Some((own, (storage, _)))) => this.one_of_two(from, own, storage, settings)?,
            (Some(from), None) => {
                this.begin_from_snapshot(from, settings, storage.map(|(_, handle)| handle))?
            }
        }
        Ok(this)
    }

    /// Nothing is named, and the job has no checkpoint of its own: it begins once more from the snapshot that
    /// it began with, if it did. A job that had state never starts empty by itself.
    fn where_it_began(&mut self, settings: &JobSettings, handle: Option<&Handle>) -> Result<()> {
        let Some(began) = self.start.from.clone() else { return Ok(()) };
        let from = began.location.clone();
        self.begin_from_snapshot(&from, settings, handle).map_err(|error| {
            error.context(format!(
                "job `{}` began from `{from}` and has not completed a checkpoint since, so it begins there again; name where that \
                 lies now by `--from`, or give `--start-fresh` to begin without state",
                settings.name
            ))
        })?;
        // whose it is was said when the job began
        if let Some(from) = self.start.from.as_mut().filter(|from| from.snapshot == began.snapshot) {
            from.claimed = began.claimed;
        }
        self.notes.push(format!(
            "the job began from `{from}` and has not completed a checkpoint since: it begins there again"
        ));
        Ok(())
    }

    /// The snapshot outside of the job's own checkpoints that it begins from, named now or at an earlier
    /// start.
    pub fn snapshot_begun_with(&self, settings: &JobSettings) -> Option<String> {
        let began = || self.start.from.as_ref().filter(|_| self.snapshot.is_some());
        settings.from_snapshot.clone().or_else(|| began().map(|from| from.location.clone()))
    }

    /// Where the newest checkpoint of the job's own cannot be read, says what a person can do.
    fn with_way_back(&self, error: Error) -> Error {
        match &self.way_back {
            Some(way_back)
                if error.kind() == ErrorKind::CorruptSnapshot || error.kind() == ErrorKind::Storage =>
            {
                error.context(way_back)
            }
            _ => error,
        }
    }

    fn begin_from_own(
        &mut self,
        own: &CompletedRef,
        storage: &JobStorage,
        settings: &JobSettings,
    ) -> Result<()> {
        if checkpoint_paths::checkpoint_of(&own.path).is_none() {
            // the savepoint of a stop whose end was not recorded
            let found = named(&own.path, settings)?;
            let (metadata, streams) = (found.metadata().clone(), Arc::new(found.streams().clone()));
            self.snapshot = Some(Snapshot { metadata, streams, place: found.directory().into() });
            return Ok(());
        }
        let metadata = storage.read_metadata(&own.path).map_err(StorageError::into_error)?;
        let place = format!("{}/{}", storage.display(), own.path);
        self.snapshot = Some(Snapshot { metadata, streams: storage.reader(), place });
        Ok(())
    }

    fn begin_from_snapshot(
        &mut self,
        from: &str,
        settings: &JobSettings,
        handle: Option<&Handle>,
    ) -> Result<()> {
        let found = named(from, settings)?;
        let snapshot = SnapshotIdentity::of(found.metadata());
        let claimed = settings.claim_snapshot;
        if let (true, Some(handle)) = (claimed, handle) {
            refuse_somebody_elses(&found, from, handle)?;
        }
        if claimed && handle.is_none() {
            return Err(configuration(format!(
                "`--claim-mode CLAIM` for `{from}`: the job keeps its checkpoints nowhere, so it needs the snapshot for ever; set \
                 `execution.checkpointing.dir` and `execution.checkpointing.interval`, or leave the mode out"
            )));
        }
        let same = self.start.from.as_ref().is_some_and(|known| known.snapshot == snapshot);
        if !same {
            self.start = JobStart::default();
        }
        self.start.from = Some(StartedFrom { location: from.into(), snapshot, claimed });
        let (metadata, streams) = (found.metadata().clone(), Arc::new(found.streams().clone()));
        self.snapshot = Some(Snapshot { metadata, streams, place: found.directory().into() });
        Ok(())
    }

    /// A snapshot was named for a job that has a checkpoint of its own: neither is passed over in silence.
    fn one_of_two(
        &mut self,
        from: &str,
        own: &CompletedRef,
        storage: &JobStorage,
        settings: &JobSettings,
    ) -> Result<()> {
        self.begin_from_own(own, storage, settings)?;
        let named = named(from, settings);
        let began_there = self.start.from.as_ref().is_some_and(|known| match &named {
            Ok(named) => known.snapshot == SnapshotIdentity::of(named.metadata()),
            // it may have been deleted since: the job does not need it any more
            Err(_) => known.location == from,
        });
        if began_there {
            self.notes.push(format!(
                "`{from}`, which `--from` names, is where this job began: it goes on from its own checkpoint {}, which is newer",
                own.id
            ));
            return Ok(());
        }
        let own_snapshot = self.snapshot.as_ref();
        if let (Some(own), Ok(named)) = (own_snapshot, &named)
            && own.metadata == *named.metadata()
        {
            return Ok(());
        }
        let (name, id, own) = (&settings.name, own.id, own_snapshot.map_or("", |own| &own.place));
        let (what, older) = match &named {
            Ok(named) => {
                let named = named.metadata();
                let is_own = named.job == storage.id()
                    && named.id < id
                    && storage.read_metadata(&path_of(named.id)).is_ok();
                let older = match is_own {
                    true => format!(", `--from-checkpoint {}` to fall back to that older one", named.id),
                    false => String::new(),
                };
                (format!("checkpoint {} of job `{}`", named.id, named.job_name), older)
            }
            Err(error) => (format!("which cannot be read: {error}"), String::new()),
        };
        Err(configuration(format!(
            "job `{name}` has a checkpoint of its own, `{own}`, and `--from` (execution.state-recovery.path) names `{from}` \
             ({what}): leave out `--from` to go on from checkpoint {id}{older}, or add `--start-fresh` \
             (stillstream.checkpoint.start-fresh: true) to begin from `{from}`; the job's own checkpoints stay then, and only a \
             person deletes them"
        )))
    }

    /// A person wants the job to go on from an older checkpoint of its own.
    fn fall_back(
        &mut self,
        to: CheckpointId,
        settings: &JobSettings,
        storage: Option<(&JobStorage, &Handle)>,
        record: Option<&RegisterRecord>,
    ) -> Result<()> {
        let name = &settings.name;
        if settings.from_snapshot.is_some() || settings.start_fresh {
            return Err(configuration(
                "`--from-checkpoint` chooses a checkpoint of the job's own, `--from` names a snapshot, and `--start-fresh` wants \
                 none: give one of them",
            ));
        }
        let Some((storage, record)) = storage.map(|(storage, _)| storage).zip(record) else {
            return Err(configuration(format!(
                "`--from-checkpoint {to}`: job `{name}` has no checkpoints here; look at `--checkpoint-dir` and at the job's name"
            )));
        };
        let newest = record.completed.last().filter(|_| goes_on(record));
        if let Some(newest) = newest
            && (newest.id == to || newest.id > to && self.start.fell_back_to == Some(to))
        {
            if newest.id > to {
                self.notes.push(format!(
                    "the job has fallen back to checkpoint {to} before: it goes on from checkpoint {}, which it has taken since",
                    newest.id
                ));
            }
            return self.begin_from_own(newest, storage, settings);
        }
        let chosen = CompletedRef { id: to, path: path_of(to) };
        if let Err(error) = self.begin_from_own(&chosen, storage, settings) {
            let known: BTreeSet<CheckpointId> =
                record.completed.iter().chain(&record.retained).map(|known| known.id).collect();
            let known: Vec<String> = known.iter().map(ToString::to_string).collect();
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            let kind = error.kind();
            let text = format!(
                "`--from-checkpoint {to}` cannot be used: {error}; checkpoints of job `{name}` in {}: {known}",
                storage.display()
            );
            return Err(Error::new(kind, text));
        }
        let newer: Vec<String> =
            record.completed.iter().filter(|known| known.id > to).map(|known| known.id.to_string()).collect();
        self.warnings.push(format!(
            "the job falls back to its checkpoint {to}, as `--from-checkpoint` says: output that was committed after it may appear \
             twice{}",
            match newer.as_slice() {
                [] => String::new(),
                newer => format!("; checkpoints {} stay, and only a person deletes them", newer.join(", ")),
            }
        ));
        self.start.fell_back_to = Some(to);
        self.fall_back = Some(chosen);
        Ok(())
    }

    /// Whether the program can go on from there; the plan with the number of key groups that the state has.
    ///
    /// # Errors
    /// [`ErrorKind::Incompatible`] with every reason; or the snapshot cannot be read.
    pub fn fit(
        &mut self,
        plan: &Plan,
        physical: Arc<PhysicalPlan>,
        settings: &JobSettings,
    ) -> Result<Arc<PhysicalPlan>> {
        let Some(snapshot) = &self.snapshot else { return Ok(physical) };
        let mut unknown = Vec::new();
        let operators = describe(&physical, |error| {
            unknown.push(format!("{error}; its state is looked at once it is opened"));
            Ok(())
        })?;
        let description = PlanDescription::new(&settings.name, settings.backend.described(), operators);
        let choices = Choices {
            allow_non_restored_state: settings.allow_non_restored_state,
            left_behind: self.start.left_behind.iter().copied().collect(),
            allow_dropped_fields: settings.allow_dropped_fields,
            dropped_fields: self.start.dropped_fields.iter().cloned().collect(),
        };
        let found =
            check(&snapshot.metadata, &*snapshot.streams, &description, &choices).map_err(|error| {
                self.with_way_back(
                    StateError::into_error(error).context(format!("reading `{}`", snapshot.place)),
                )
            })?;
        if let Some(refusal) = found.refusal(&snapshot.place) {
            return Err(Error::new(ErrorKind::Incompatible, refusal));
        }
        self.warnings.append(&mut unknown);
        self.warnings.extend(found.left_behind);
        let left_behind: BTreeSet<OperatorId> =
            self.start.left_behind.iter().copied().chain(found.left_behind_of).collect();
        self.start.left_behind = left_behind.into_iter().collect();
        let dropped = std::mem::take(&mut self.start.dropped_fields).into_iter().chain(found.dropped_fields);
        self.start.dropped_fields = dropped.collect::<BTreeSet<String>>().into_iter().collect();
        let same = |operator: &OperatorDescription| {
            found.key_groups.get(&operator.id) == Some(&operator.max_parallelism)
        };
        match description.operators.iter().all(same) {
            true => Ok(physical),
            false => {
                let plan = plan.with_key_groups(&found.key_groups)?;
                Ok(Arc::new(plan.compile(settings.parallelism, settings.chaining)?))
            }
        }
    }

    /// Notes in the register how the job begins; says whether there is anything to note.
    pub fn note(&self, record: &mut RegisterRecord) -> bool {
        let before = record.clone();
        record.began = (self.start != JobStart::default()).then(|| Box::new(self.start.clone()));
        if let Some(to) = &self.fall_back {
            let (kept, newer) =
                std::mem::take(&mut record.completed).into_iter().partition(|known| known.id <= to.id);
            (record.completed, record.retained) =
                (kept, [std::mem::take(&mut record.retained), newer].concat());
            if !record.completed.contains(to) {
                record.completed.push(to.clone());
                // it was kept for a person, who keeps it when the job does not need it any more
                if !record.retained.contains(to) {
                    record.retained.push(to.clone());
                }
            }
            (record.outcome, record.ended) = (JobOutcome::Running, None);
        }
        *record != before
    }
}

fn path_of(id: CheckpointId) -> String {
    checkpoint_paths::checkpoint(id)
}

/// A snapshot that another job would resume from is not this job's to delete.
fn refuse_somebody_elses(found: &RetainedCheckpoint, from: &str, handle: &Handle) -> Result<()> {
    let Some(owner) = found.owner(handle).map_err(StorageError::into_error)? else { return Ok(()) };
    let id = found.metadata().id;
    match goes_on(&owner) && owner.completed.iter().any(|known| known.id == id) {
        true => Err(configuration(format!(
            "`--claim-mode CLAIM` for `{from}`: job `{}` resumes from this checkpoint itself, so it cannot be given away; cancel \
             that job with its checkpoints retained, or take a savepoint, or leave the mode out",
            owner.job_name
        ))),
        false => Ok(()),
    }
}

/// The operators of a plan with their ids and states, found out without running anything.
///
/// # Errors
/// Wrong settings, a plan that cannot be run, an operator that cannot be opened.
pub fn describe_plan(plan: &Plan, settings: &JobSettings) -> Result<PlanDescription> {
    crate::panics::install();
    let physical = plan.compile(settings.parallelism, settings.chaining)?;
    let operators = describe(&physical, Err)?;
    Ok(PlanDescription::new(&settings.name, settings.backend.described(), operators))
}

/// The environment variable by which a program is asked for its plan: the file to write it to, as JSON, in
/// place of running.
pub const PLAN_FILE: &str = "STILLSTREAM_PLAN_FILE";

/// The file that this program is to write its plan to, in place of running.
pub fn plan_file() -> Option<PathBuf> {
    std::env::var_os(PLAN_FILE).filter(|file| !file.is_empty()).map(PathBuf::from)
}
