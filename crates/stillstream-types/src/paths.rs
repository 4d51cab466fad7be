//! Paths as people write them.

use std::path::{Path, PathBuf};

/// What is wrong with a path that begins with `~`, if it does.
///
/// A shell makes the home folder of `~` in most places, but not in `--checkpoint-dir=~/ck`, and nobody does
/// in a configuration file or in code. To take it as it is would make a folder named `~` in the current
/// directory.
///
/// ```
/// use stillstream_types::paths::home_mistake;
/// assert!(home_mistake("~/checkpoints").unwrap().contains("write it out"));
/// assert_eq!(home_mistake("./~/checkpoints"), None);
/// ```
pub fn home_mistake(path: impl AsRef<Path>) -> Option<String> {
    let text = path.as_ref().to_str()?;
    text.starts_with('~').then(|| {
        format!(
            "`~` stands for the home folder only in a shell, and not behind `=`: write it out, as in `/home/anna/..`; a folder \
             that is really named so is `./{text}`"
        )
    })
}

/// The path for messages, from the root: the reader of a log does not know in which folder the program was
/// started.
///
/// ```
/// use stillstream_types::paths::absolute;
/// assert!(absolute("in.csv").is_absolute() && absolute("in.csv").ends_with("in.csv"));
/// ```
pub fn absolute(path: impl AsRef<Path>) -> PathBuf {
    // the current directory may be gone; the path as it was given is better than nothing
    std::path::absolute(&path).unwrap_or_else(|_| path.as_ref().to_path_buf())
}
