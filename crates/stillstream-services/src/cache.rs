//! Where downloads are kept, outside the checkout.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::{About, Result};

/// The folder of all downloads: `$STILLSTREAM_SERVICES`, or `stillstream-services` in the user's cache
/// (`$XDG_CACHE_HOME`, or `~/.cache`).
pub fn folder() -> PathBuf {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = set("STILLSTREAM_SERVICES") {
        return folder;
    }
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("stillstream-services")
}

#[expect(clippy::disallowed_methods, reason = "a program of tests has no configuration to take it from")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A new file for the log of a server. Logs stay for a day, for whoever looks into a failed test.
pub(crate) fn log(name: &str) -> Result<PathBuf> {
    let logs = folder().join("logs");
    std::fs::create_dir_all(&logs).about(|| logs.display().to_string())?;
    forget_old(&logs);
    Ok(logs.join(format!("{name}.log")))
}

fn forget_old(logs: &Path) {
    #[expect(clippy::disallowed_methods, reason = "the age of a file is by the clock of the system")]
    let now = SystemTime::now();
    for entry in std::fs::read_dir(logs).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
        if age.is_some_and(|age| age > Duration::from_secs(24 * 3600)) {
            // another program may have deleted it just now
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Makes a folder of downloads once: `make` fills a new one, which then gets its name. Two that do it at the
/// same time do not disturb one another.
pub(crate) fn once(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let ready = folder().join(name);
    if ready.is_dir() {
        return Ok(ready);
    }
    let unfinished = folder().join(format!("{name}.{}.unfinished", std::process::id()));
    let clear = || match std::fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    clear().about(|| unfinished.display().to_string())?;
    std::fs::create_dir_all(&unfinished).about(|| unfinished.display().to_string())?;
    let made = make(&unfinished).and_then(|()| match std::fs::rename(&unfinished, &ready) {
        Err(_) if ready.is_dir() => Ok(()),
        renamed => renamed.about(|| format!("naming {}", ready.display())),
    });
    // what is left over is only disk space
    let _ = clear();
    made.map(|()| ready)
}
