//! The files of the workspace.

use std::path::Path;

/// A text file.
pub(crate) struct Source {
    /// Its path below the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All files with one of these extensions, in order; build output and hidden folders are left out.
pub(crate) fn read(root: &Path, extensions: &[&str]) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    walk(root, "", extensions, &mut sources)?;
    Ok(sources)
}

fn walk(folder: &Path, path: &str, extensions: &[&str], sources: &mut Vec<Source>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut entries =
        std::fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        if entry.file_type().map_err(failed)?.is_dir() {
            if !name.starts_with('.') && name != "target" {
                walk(&entry.path(), &path, extensions, sources)?;
            }
        } else if name.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension)) {
            let text = std::fs::read_to_string(entry.path()).map_err(|error| format!("{path}: {error}"))?;
            sources.push(Source { path, text });
        }
    }
    Ok(())
}
