//! Which other jobs have checkpoints in the same checkpoint directory: for the message of a start that finds
//! none of its own.

use stillstream_types::JobId;

use crate::checkpoint::{CheckpointStorage, JobStorage};

/// At most this many are named.
const NAMED: usize = 3;

/// The other jobs of a checkpoint directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Neighbours {
    /// Names of a few of them; an id where the job's register does not say.
    pub names: Vec<String>,
    /// How many there are.
    pub count: usize,
}

impl JobStorage {
    /// The other jobs that have a directory beside this one's.
    ///
    /// It is for messages: what cannot be read is left out.
    pub fn neighbours(&self) -> Neighbours {
        let Ok(folders) = self.store().folders("") else { return Neighbours::default() };
        let ids = folders.iter().filter_map(|name| name.parse::<JobId>().ok());
        let mut ids: Vec<JobId> = ids.filter(|id| *id != self.job).collect();
        ids.sort_by_key(ToString::to_string);
        let all =
            CheckpointStorage::with_store(self.store().clone(), self.options.clone(), self.handle.clone());
        let name = |id: &JobId| {
            let loaded = all.job(*id).register().load().ok().flatten();
            loaded.map_or_else(|| id.to_string(), |loaded| loaded.record.job_name)
        };
        Neighbours { names: ids.iter().take(NAMED).map(name).collect(), count: ids.len() }
    }
}
