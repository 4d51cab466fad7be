//! State on RocksDB with all keys in it, before a job with little memory is measured: to fill it with that
//! would take longer than everything else.

use std::path::{Path, PathBuf};

use stillstream::JobStatus;
use stillstream::config::ExternalizedCheckpointRetention;
use stillstream::prelude::*;

use super::{count, steady};
use crate::settings::{Backend, Settings};

/// Memory of the job that fills the state: 2 GiB.
const MEMORY: u64 = 2 << 30;

/// Makes `env` go on from a checkpoint, made below `dir`, in which each key has come once. Gives the number
/// of records that the job has to do before it is measured.
pub fn prepare(settings: &Settings, env: &mut StreamExecutionEnvironment, dir: &Path) -> Result<u64> {
    let usual = crate::records::warm_up(settings.keys);
    if settings.backend == Backend::Heap || settings.memory_bytes.is_none() {
        return Ok(usual);
    }
    let filling = Settings { memory_bytes: Some(MEMORY), ..settings.clone() };
    let mut first = filling.checkpointed(dir);
    first
        .enable_checkpointing(Duration::from_secs(365 * 24 * 3_600))
        .set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
    let out = count::build(&filling, &first);
    let job = first.execute_async("filling")?;
    let made = steady::wait_for(&job, &|| out.count(), settings.keys).and_then(|()| {
        // records may be through before all subtasks have reported that they run
        job.wait_until(Duration::from_secs(60), |job| job.status() == JobStatus::Running);
        job.trigger_checkpoint()
    });
    steady::stop(job)?;
    let name = made?.path;
    let path = find(dir, &name)
        .ok_or_else(|| Error::msg(format!("{}: there is no checkpoint `{name}`", dir.display())))?;
    env.restore_from(path.display().to_string());
    Ok(settings.keys / 50)
}

/// The folder of this name, one level down.
fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    let jobs = std::fs::read_dir(dir).ok()?;
    jobs.flatten().map(|job| job.path().join(name)).find(|path| path.is_dir())
}
