//! Rules of the house that neither the compiler nor clippy knows: each check takes about a second and builds
//! nothing.

mod circles;
mod comments;
mod floors;
mod links;
mod manifests;
mod packages;
mod sources;
mod spelling;
mod third_party;
mod unused;

use std::path::Path;

pub(crate) use comments::wrap_all;
pub(crate) use packages::published;

/// A check's name, and what it runs at the root of the workspace.
pub(crate) type Rule = (&'static str, fn(&Path) -> Result<(), String>);

/// All of them.
pub(crate) const ALL: [Rule; 8] = [
    ("unused dependencies", unused::check),
    ("licences and versions", third_party::check),
    ("circles", circles::check),
    ("floors", floors::check),
    ("links", links::check),
    ("packages", packages::check),
    ("spelling", spelling::check),
    ("width of comments", comments::check),
];

#[cfg(test)]
mod tests {
    use crate::cargo::root;

    #[test]
    fn the_sources_of_the_workspace_are_found() {
        let packages = super::manifests::read(&root()).unwrap();
        assert!(packages.iter().any(|package| package.name == "stillstream"), "{packages:?}");
        let sources = super::sources::read(&root(), &["rs"]).unwrap();
        assert!(sources.iter().any(|source| source.path == "crates/stillstream/src/lib.rs"));
    }
}
