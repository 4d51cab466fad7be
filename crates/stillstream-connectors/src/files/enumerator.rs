//! Finds the files of a source: once, or again and again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use stillstream_runtime::connect::{Assignments, EnumeratorContext, SplitEnumerator};
use stillstream_state::Data;
use stillstream_types::Result;
use stillstream_types::paths::absolute;

use super::paths::{Found, list_all, look_at};
use super::split::FileSplit;
use crate::ConnectorError;

/// A file that was assigned, and what it was like when it was looked at last.
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub(crate) struct Known {
    path: String,
    /// Length and time of the last change, in milliseconds since 1970; `None` for a file of a snapshot that did
    /// not have them.
    seen: Option<(u64, i64)>,
}

/// Cuts files into splits.
pub(crate) type Cut = Arc<dyn Fn(Vec<Found>) -> Vec<FileSplit> + Send + Sync>;

/// A file is known by its path, and stays so when it is gone: its name is not read again.
pub(crate) struct FileEnumerator {
    context: EnumeratorContext,
    paths: Vec<PathBuf>,
    cut: Cut,
    /// How often it looks; `None`: once, when the job starts for the first time.
    every: Option<Duration>,
    begun: bool,
    known: BTreeMap<String, Option<(u64, i64)>>,
}

fn seen(path: &Path) -> Result<Option<(u64, i64)>, ConnectorError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        // it was moved away since the folder was listed
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ConnectorError::read(path)(error)),
    };
    let changed = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let millis = changed.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    Ok(Some((metadata.len(), millis)))
}

impl FileEnumerator {
    pub fn new(context: &EnumeratorContext, paths: &[PathBuf], every: Option<Duration>, cut: Cut) -> Self {
        let (context, paths) = (context.clone(), paths.to_vec());
        Self { context, paths, cut, every, begun: false, known: BTreeMap::new() }
    }

    /// The files that are new.
    fn look(&mut self) -> Result<Vec<Found>, ConnectorError> {
        let mut new = Vec::new();
        for path in list_all(&self.paths, self.every.is_some())? {
            let Some(now) = seen(&path)? else { continue };
            let Some(text) = path.to_str() else {
                return Err(ConnectorError::PathNotText { path: path.clone() });
            };
            match self.known.get_mut(text) {
                Some(before) => {
                    if before.replace(now).is_some_and(|before| before != now) {
                        self.context.counters.add(&format!("{}.changed-files", self.context.name), 1);
                        tracing::warn!(
                            "`{}`: {} has changed since it was found ({} bytes now); what was read of it stays as it was, and \
                             what was appended may not be read: move files into the folder when they are whole",
                            self.context.name,
                            absolute(&path).display(),
                            now.0
                        );
                    }
                }
                None => {
                    new.extend(look_at(&path, self.every.is_some())?);
                    self.known.insert(text.to_owned(), Some(now));
                }
            }
        }
        Ok(new)
    }
}

impl SplitEnumerator for FileEnumerator {
    type Split = FileSplit;
    type State = Vec<Known>;

    fn restore(&mut self, state: Option<Vec<Known>>, held: Vec<FileSplit>) -> Result<()> {
        self.begun = true;
        self.known = match state {
            Some(known) => known.into_iter().map(|known| (known.path, known.seen)).collect(),
            None => held.into_iter().map(|split| (split.path, None)).collect(),
        };
        Ok(())
    }

    fn discover(&mut self, assignments: &mut Assignments<FileSplit>) -> Result<Option<Duration>> {
        if !self.begun || self.every.is_some() {
            let new = self.look().map_err(ConnectorError::into_error)?;
            self.begun = true;
            (self.cut)(new).into_iter().for_each(|split| assignments.assign(split));
        }
        if self.every.is_none() {
            assignments.no_more();
        }
        Ok(self.every)
    }

    fn state(&self) -> Vec<Known> {
        self.known.iter().map(|(path, seen)| Known { path: path.clone(), seen: *seen }).collect()
    }
}
