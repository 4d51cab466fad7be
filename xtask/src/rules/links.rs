//! Links of the documents to files: each must be there, so that a page that names a file follows when that
//! moves.

use std::path::Path;

use super::sources;

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut dead = Vec::new();
    for page in sources::read(root, &["md"])? {
        let folder = root.join(&page.path);
        let folder = folder.parent().unwrap_or(root);
        let missing = targets(&page.text).into_iter().filter(|target| !folder.join(target).exists());
        dead.extend(missing.map(|target| format!("{} -> {target}", page.path)));
    }
    match dead.as_slice() {
        [] => Ok(()),
        _ => Err(format!("links to files that are not there: {}", dead.join(", "))),
    }
}

/// The files that a page links to, as `[text](path)` or `[text](path#heading)`.
fn targets(page: &str) -> Vec<&str> {
    let links = page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let files = links.filter(|target| !target.contains("://") && !target.contains(' '));
    files
        .map(|target| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_file_that_is_gone_is_found() {
        let folder = std::env::temp_dir().join(format!("xtask-links-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.md"), "[here](a.md#top) and [gone](src/gone.rs)").unwrap();
        let result = check(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(result.unwrap_err(), "links to files that are not there: a.md -> src/gone.rs");
    }

    #[test]
    fn addresses_and_headings_are_left_alone() {
        let page = "[a](https://example.org/a) [b](#b) [c](c.md#d) `f(x)[0](y z)`";
        assert_eq!(targets(page), ["c.md"]);
    }
}
