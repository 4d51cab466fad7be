//! A disk that loses what was not synced.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stillstream_storage::local::{DiskHook, DiskStep};

/// A change of a folder that is lost unless the folder is synced.
#[derive(Debug)]
enum Name {
    MadeDir(PathBuf),
    Created(PathBuf),
    Renamed { from: PathBuf, to: PathBuf },
    Linked(PathBuf),
    Removed { path: PathBuf, content: Vec<u8> },
}

impl Name {
    fn dirs(&self) -> [Option<&Path>; 2] {
        match self {
            Self::MadeDir(path) | Self::Created(path) | Self::Linked(path) | Self::Removed { path, .. } => {
                [path.parent(), None]
            }
            Self::Renamed { from, to } => [from.parent(), to.parent()],
        }
    }
}

#[derive(Debug, Default)]
struct State {
    steps: u64,
    cut_at: Option<u64>,
    /// Changes of folders in order.
    names: Vec<Name>,
    /// Files by their present name, and whether their bytes are synced.
    files: HashMap<PathBuf, bool>,
}

/// A hook for [`LocalStore::with_hook`](stillstream_storage::LocalStore::with_hook) that counts the steps a
/// store takes, lets everything fail from a chosen step on, as if the machine were off, and then takes back
/// what a real disk may lose: names whose folder was not synced, and bytes of files that were not.
///
/// It is strict: what may be lost is lost. The real disk is never asked to sync, so that thousands of steps
/// take no time.
#[derive(Debug, Default)]
pub struct PowerCut(Mutex<State>);

impl PowerCut {
    /// A disk with power for ever.
    pub fn new() -> Self {
        Self::default()
    }

    /// The power goes before step `step`, from 0.
    pub fn before_step(step: u64) -> Self {
        Self(Mutex::new(State { cut_at: Some(step), ..State::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many steps were asked for.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Takes back everything that was not synced. Call it when nothing uses the store any more.
    ///
    /// # Errors
    /// When the disk that stands in for the simulated one cannot be changed.
    pub fn lose_unsynced(&self) -> io::Result<()> {
        let mut state = self.state();
        let State { names, files, .. } = &mut *state;
        for name in names.drain(..).rev() {
            match name {
                Name::MadeDir(path) => ignore_missing(fs::remove_dir_all(path))?,
                Name::Created(path) | Name::Linked(path) => {
                    ignore_missing(fs::remove_file(&path))?;
                    files.remove(&path);
                }
                Name::Renamed { from, to } => {
                    ignore_missing(fs::rename(&to, &from))?;
                    if let Some(synced) = files.remove(&to) {
                        files.insert(from, synced);
                    }
                }
                Name::Removed { path, content } => ignore_missing(fs::write(path, content))?,
            }
        }
        for (path, synced) in files.drain() {
            if !synced && path.exists() {
                fs::File::create(path)?;
            }
        }
        Ok(())
    }
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl DiskHook for PowerCut {
    fn before(&self, step: DiskStep<'_>) -> io::Result<()> {
        let mut state = self.state();
        let number = state.steps;
        state.steps += 1;
        if state.cut_at.is_some_and(|at| number >= at) {
            return Err(io::Error::other("simulated power cut"));
        }
        if let DiskStep::Remove(path) = step
            && let Ok(content) = fs::read(path)
        {
            state.names.push(Name::Removed { path: path.into(), content });
        }
        Ok(())
    }

    fn really_syncs(&self) -> bool {
        false
    }

    fn after(&self, step: DiskStep<'_>) {
        let mut state = self.state();
        match step {
            DiskStep::MakeDir(path) => state.names.push(Name::MadeDir(path.into())),
            DiskStep::Create(path) => {
                state.names.push(Name::Created(path.into()));
                state.files.insert(path.into(), false);
            }
            DiskStep::Write { path, .. } => {
                state.files.insert(path.into(), false);
            }
            DiskStep::SyncFile(path) => {
                state.files.insert(path.into(), true);
            }
            DiskStep::Rename { from, to } => {
                let synced = state.files.remove(from).unwrap_or(true);
                state.files.insert(to.into(), synced);
                state.names.push(Name::Renamed { from: from.into(), to: to.into() });
            }
            DiskStep::Link { from, to } => {
                let synced = state.files.get(from).copied().unwrap_or(true);
                state.files.insert(to.into(), synced);
                state.names.push(Name::Linked(to.into()));
            }
            DiskStep::SyncDir(dir) => {
                state.names.retain(|name| !name.dirs().into_iter().flatten().any(|changed| changed == dir));
            }
            DiskStep::Remove(path) => {
                state.files.remove(path);
            }
        }
    }
}
