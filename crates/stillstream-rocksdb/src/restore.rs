//! Restoring an incremental checkpoint, at the same or another parallelism.
//!
//! The handle whose key groups overlap most with one's own becomes the database as it is: its files are
//! opened and nothing is rewritten. Key groups that are not one's own are cut off by range deletions, and
//! what the other handles hold of one's own key groups is written to files, sorted as it is, and taken over.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stillstream_state::StateError;
use stillstream_state::StateMeta;
use stillstream_state::snapshot::Header;
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{IncrementalHandle, KeyGroupRange};

use crate::db::{Database, Family, make_dir};
use crate::directory::WorkDir;
use crate::error::disk;
use crate::incremental::{Files, nameable};
use crate::layout::Layout;
use crate::load::SortedLoader;
use crate::transfer::{download, in_parallel, path_of, read_small};
use crate::tuning::Tuning;

/// One handle's files in a folder of this machine.
pub(crate) struct Fetched {
    pub header: Header,
    pub range: KeyGroupRange,
    folder: PathBuf,
    files: Files,
}

/// Brings all handles' files here: from a local copy where it is the same, else from the storage. `check`
/// looks at what each of them holds first.
pub(crate) fn fetch(
    handles: &[IncrementalHandle],
    dir: &WorkDir,
    tuning: &Tuning,
    store: &dyn SnapshotStore,
    check: impl Fn(&Header, &str) -> Result<(), StateError>,
) -> Result<Vec<Fetched>, StateError> {
    let mut fetched = Vec::new();
    let mut wanted = Vec::new();
    for (n, handle) in handles.iter().enumerate() {
        let header = Header::from_bytes(&read_small(&handle.meta, store)?, path_of(&handle.meta))?;
        check(&header, path_of(&handle.meta))?;
        let folder = dir.path().join(format!("restore-{n}"));
        make_dir(&folder)?;
        for file in &handle.files {
            check_name(&file.name, path_of(&file.stream))?;
            wanted.push((file, folder.clone()));
        }
        // files of another job, or of a snapshot that a person owns, must not be named by this job's
        // checkpoints
        let files = if store.owns_shared() { nameable(&handle.files) } else { Files::default() };
        fetched.push(Fetched { header, range: handle.range, folder, files });
    }
    let threads = tuning.options.transfer_threads.max(1) as usize;
    let local = tuning.options.local_recovery.as_ref();
    in_parallel(threads, &wanted, |(file, folder)| {
        match local.is_some_and(|local| local.fetch(file, folder)) {
            true => Ok(()),
            false => download(file, folder, store),
        }
    })?;
    Ok(fetched)
}

/// A name out of a handle becomes a path: it must not lead elsewhere.
fn check_name(name: &str, path: &str) -> Result<(), StateError> {
    match Path::new(name).file_name() {
        Some(file) if file == name => Ok(()),
        _ => Err(StateError::Malformed {
            path: path.into(),
            part: "its list of files".into(),
            why: format!("`{name}` is no file name"),
        }),
    }
}

impl Fetched {
    /// The folder of its files, within that of the backend.
    pub fn folder(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    fn states(&self) -> Vec<&str> {
        self.header.states.iter().map(|state| state.name.as_str()).collect()
    }

    /// Which part of the key groups is in `range`.
    fn overlap(&self, range: KeyGroupRange) -> f64 {
        self.range.intersect(range).len() as f64 / self.range.len().max(1) as f64
    }
}

/// Takes the handle out that can be the base of a database for `range`.
pub(crate) fn take_base(fetched: &mut Vec<Fetched>, range: KeyGroupRange, threshold: f64) -> Option<Fetched> {
    let groups = |f: &Fetched| f.range.intersect(range).len();
    let best = (0..fetched.len()).max_by_key(|at| groups(&fetched[*at]))?;
    let overlap = fetched[best].overlap(range);
    (overlap > 0.0 && overlap >= threshold).then(|| fetched.swap_remove(best))
}

/// Opens a base and cuts off the key groups that are not of `range`. Also gives the files that may be named
/// again.
pub(crate) fn open_base(
    base: &Fetched,
    dir: Arc<WorkDir>,
    layout: Layout,
    range: KeyGroupRange,
    tuning: Tuning,
) -> Result<(Arc<Database>, Files), StateError> {
    let (to, folder) = (dir.path().join(crate::backend::FOLDER), &base.folder);
    fs::rename(folder, &to).map_err(|e| disk(&to, "moving the restored files to", &e))?;
    let database = Arc::new(Database::open(dir, crate::backend::FOLDER, &base.header.states, tuning)?);
    let below = KeyGroupRange::new(base.range.start, range.start.max(base.range.start));
    let above = KeyGroupRange::new(range.end.min(base.range.end), base.range.end);
    let options = database.tuning.options.clone();
    for state in base.states() {
        let family = database.family(state)?;
        let mut cut = false;
        for foreign in [below, above].into_iter().filter(|foreign| !foreign.is_empty()) {
            let (from, to) = layout.bounds(foreign);
            if options.delete_files_in_range {
                family.delete_files(&from, &to)?;
            }
            family.delete_range(&from, &to)?;
            cut = true;
        }
        if cut && options.compact_after_rescale {
            family.suggest_compaction()?;
        }
    }
    Ok((database, base.files.clone()))
}

/// Copies the entries of `range` into the families that `family` gives, and deletes the fetched files.
pub(crate) fn insert(
    other: Fetched,
    dir: Arc<WorkDir>,
    layout: Layout,
    range: KeyGroupRange,
    tuning: Tuning,
    mut family: impl FnMut(&StateMeta) -> Result<Family, StateError>,
) -> Result<(), StateError> {
    let range = other.range.intersect(range);
    if !range.is_empty() {
        let source = Arc::new(Database::open(dir, other.folder(), &other.header.states, tuning)?);
        for state in &other.header.states {
            let into = family(state)?;
            let (from, to) = layout.bounds(range);
            let mut scan = source.family(&state.name)?.scan_between(&from, to);
            SortedLoader::new(&into).load(|key, value| {
                let Some((stored_key, stored)) = scan.entry()? else { return Ok(false) };
                key.clear();
                key.extend_from_slice(stored_key);
                value.clear();
                value.extend_from_slice(stored);
                scan.next();
                Ok(true)
            })?;
        }
    }
    // the database is closed by now
    let _ = fs::remove_dir_all(&other.folder);
    Ok(())
}
