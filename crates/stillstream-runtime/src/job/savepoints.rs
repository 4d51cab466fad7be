//! Where savepoints go: each has a directory of its own, which is made before the job hears of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use stillstream_storage::{Location, SavepointDirectory, StorageError, StorageOptions};
use stillstream_types::{
    Error, ErrorKind, JobId, Result, ResultExt, SavepointFormat, SavepointTarget, checkpoint_paths,
};

use super::settings::JobSettings;

/// The directories that were made for savepoints, by the savepoint's location: the topmost of them that was
/// not there before. One that fails takes them along.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeFor(Arc<Mutex<BTreeMap<String, PathBuf>>>);

impl MadeFor {
    fn note(&self, location: &str, topmost: Option<PathBuf>) {
        if let Some(topmost) = topmost {
            self.0.lock().insert(location.into(), topmost);
        }
    }

    /// The savepoint is complete: what was made for it stays.
    pub fn keep(&self, location: &str) {
        self.0.lock().remove(location);
    }

    /// The savepoint has failed, and its own directory is gone: so go those above it that were made for it,
    /// as far as nothing else is in them. Does nothing while the directory is there.
    pub fn remove(&self, location: &str) {
        let place = Path::new(location);
        if place.exists() {
            return;
        }
        let Some(topmost) = self.0.lock().remove(location) else { return };
        for above in place.ancestors().skip(1).take_while(|above| above.starts_with(&topmost)) {
            // one that is not empty has become somebody else's too
            if std::fs::remove_dir(above).is_err() {
                return;
            }
        }
    }
}

/// Makes the directories of a job's savepoints.
#[derive(Clone, Debug)]
pub(crate) struct SavepointPlaces {
    job: JobId,
    /// `execution.checkpointing.savepoint-dir`.
    configured: Option<String>,
    options: StorageOptions,
    made: MadeFor,
}

impl SavepointPlaces {
    pub fn of(settings: &JobSettings, made: MadeFor) -> Self {
        Self {
            made,
            job: JobId::from_name(&settings.name),
            configured: settings.savepoint_dir.clone(),
            options: super::storage_options(settings),
        }
    }

    /// How savepoints are written and read.
    pub fn options(&self) -> &StorageOptions {
        &self.options
    }

    /// Makes a directory for one savepoint, `savepoint-<6 of the job's id>-<12 random>`, below `directory` or
    /// below the one that the configuration names.
    ///
    /// # Errors
    /// If neither is given, or it cannot be made.
    pub fn make(&self, directory: Option<&str>, format: SavepointFormat) -> Result<SavepointTarget> {
        let Some(above) = directory.or(self.configured.as_deref()) else {
            return Err(Error::new(
                ErrorKind::Configuration,
                "no directory is given for the savepoint: name one in the request, or start the job with `--savepoint-dir` \
                 (execution.checkpointing.savepoint-dir)",
            ));
        };
        let random = crate::cluster::random_token();
        let above = Location::parse(above).map_err(StorageError::into_error)?;
        let place = above.join(&checkpoint_paths::savepoint(self.job, &random[..12]));
        if let Location::Local(path) = &place
            && path.to_str().is_none()
        {
            let text = format!("`{place}` is not UTF-8: a savepoint needs a path that can be written down");
            return Err(Error::new(ErrorKind::Configuration, text));
        }
        let location = place.to_string();
        if let Location::Local(path) = &place {
            let missing = path.ancestors().skip(1).take_while(|above| !above.exists());
            let topmost = missing.filter(|above| !above.as_os_str().is_empty()).last();
            self.made.note(&location, topmost.map(Path::to_path_buf));
        }
        SavepointDirectory::create(&location, &self.options)
            .map_err(StorageError::into_error)
            .context(|| "the directory of a savepoint cannot be made")
            .inspect_err(|_| self.made.remove(&location))?;
        Ok(SavepointTarget { location: location.into(), format })
    }

    /// The savepoint is complete.
    pub fn keep(&self, target: &SavepointTarget) {
        self.made.keep(&target.location);
    }

    /// The savepoint has failed: its directory goes, if nothing is in it. What tasks have written the job
    /// deletes, and those of the directories above that were made for it.
    pub fn forget(&self, target: &SavepointTarget) {
        if let Ok(Location::Local(path)) = Location::parse(&target.location) {
            // one that is not empty is left to the job
            let _ = std::fs::remove_dir(path);
        }
        self.made.remove(&target.location);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(configured: Option<String>) -> SavepointPlaces {
        SavepointPlaces::of(
            &JobSettings { savepoint_dir: configured, ..JobSettings::default() },
            MadeFor::default(),
        )
    }

    #[test]
    fn a_savepoint_gets_an_empty_directory_of_its_own_below_the_one_that_was_named_or_configured() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let places = places(Some(path("configured")));
        let named = places.make(Some(&path("named")), SavepointFormat::Native).unwrap();
        let configured = places.make(None, SavepointFormat::Canonical).unwrap();
        let other = places.make(None, SavepointFormat::Canonical).unwrap();
        assert!(named.location.starts_with(&path("named/savepoint-")), "{named:?}");
        assert!(configured.location.starts_with(&path("configured/savepoint-")), "{configured:?}");
        assert_ne!(configured.location, other.location);
        let name = named.location.rsplit('/').next().unwrap();
        assert_eq!((name.len(), name.split('-').count()), ("savepoint-".len() + 6 + 1 + 12, 3), "{name}");
        assert!(std::path::Path::new(&*named.location).is_dir());
        places.forget(&named);
        assert!(!std::path::Path::new(&*named.location).exists());
        std::fs::write(format!("{}/note", other.location), "x").unwrap();
        places.forget(&other);
        assert!(std::path::Path::new(&*other.location).is_dir(), "it holds something");
    }

    #[test]
    fn the_directories_that_were_made_for_a_savepoint_go_with_it_if_it_fails_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let above = dir.path().join("a/b");
        let places = places(Some(above.display().to_string()));
        let make = || places.make(None, SavepointFormat::Canonical).unwrap();
        let failed = make();
        places.forget(&failed);
        assert!(!dir.path().join("a").exists() && dir.path().exists());
        // tasks have written something, which the job deletes
        let failed = make();
        std::fs::write(format!("{}/part", failed.location), "x").unwrap();
        places.forget(&failed);
        assert!(Path::new(&*failed.location).exists());
        std::fs::remove_dir_all(&*failed.location).unwrap();
        places.made.remove(&failed.location);
        assert!(!dir.path().join("a").exists());
        // one that is complete keeps them, and those that were there stay
        let complete = make();
        places.keep(&complete);
        places.forget(&make());
        assert!(above.exists());
    }

    #[test]
    fn a_savepoint_without_a_directory_says_how_to_give_one_and_one_that_cannot_be_made_says_where() {
        let error = places(None).make(None, SavepointFormat::Canonical).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("execution.checkpointing.savepoint-dir"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let inside = file.join("savepoints").display().to_string();
        let error = places(None).make(Some(&inside), SavepointFormat::Canonical).unwrap_err().to_string();
        assert!(error.contains(&inside) && error.contains("directory of a savepoint"), "{error}");
        let error = places(Some("webhdfs://n/x".into())).make(None, SavepointFormat::Canonical).unwrap_err();
        assert!(error.to_string().contains("scheme `webhdfs`"), "{error}");
    }
}
