//! Dependencies that nothing uses: the name of each one must occur in the sources of its package.

use std::path::Path;

use super::manifests::{self, Kind, Package};
use super::sources::{self, Source};

/// Dependencies that are used without being named: package, dependency, how.
const USED_OTHERWISE: [(&str, &str, &str); 0] = [];

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let packages = manifests::read(root)?;
    let everywhere = packages.iter().flat_map(|package| &package.dependencies);
    let everywhere: Vec<&str> = everywhere.map(|dependency| dependency.name.as_str()).collect();
    let shared = manifests::shared(root)?.into_iter().map(|shared| shared.name);
    let shared = shared.filter(|name| !everywhere.contains(&name.as_str()));
    let mut unused: Vec<_> = shared.map(|name| ("the workspace".to_string(), name)).collect();
    for package in &packages {
        let sources = sources::read(&root.join(&package.folder), &["rs"])?;
        unused.extend(of_package(package, &sources));
    }
    let named = |(package, dependency): &(String, String)| {
        USED_OTHERWISE.iter().any(|(p, d, _)| (p, d) == (&package.as_str(), &dependency.as_str()))
    };
    let unused: Vec<String> = unused
        .iter()
        .filter(|one| !named(one))
        .map(|(package, dependency)| format!("{package} -> {dependency}"))
        .collect();
    match unused.as_slice() {
        [] => Ok(()),
        _ => Err(format!(
            "dependencies that no source of their package names: remove them, or name them in {} with how they are used: {}",
            file!(),
            unused.join(", ")
        )),
    }
}

fn of_package(package: &Package, sources: &[Source]) -> Vec<(String, String)> {
    let unused = package.dependencies.iter().filter(|dependency| {
        let name = dependency.name.replace('-', "_");
        // a package that depends on itself does so for a feature
        dependency.name != package.name
            && !sources.iter().any(|source| {
                let counts = match dependency.kind {
                    // examples in the documentation are tests
                    Kind::Dev => true,
                    Kind::Normal => {
                        !["tests/", "benches/"].iter().any(|folder| source.path.starts_with(folder))
                    }
                    Kind::Build => source.path == "build.rs",
                };
                counts && names(&source.text, &name, dependency.kind == Kind::Dev)
            })
    });
    unused.map(|dependency| (package.name.clone(), dependency.name.clone())).collect()
}

/// Whether a source names a crate, as the first part of a path or whole.
fn names(text: &str, name: &str, in_comments: bool) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.lines().filter(|line| in_comments || !line.trim_start().starts_with("//")).any(|line| {
        line.match_indices(name).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + name.len()..]);
            let inner = before.strip_suffix("::").is_some_and(|path| path.ends_with(is_word));
            let begins = !before.ends_with(is_word) && !before.ends_with('.') && !inner;
            let imported = ["use ", "extern crate ", "crate = "].iter().any(|word| before.ends_with(word));
            begins && (after.starts_with("::") || imported && !after.starts_with(is_word))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::manifests::Dependency;
    use super::*;

    fn unused(kind: Kind, path: &str, text: &str) -> usize {
        let dependencies = vec![Dependency { name: "big-bytes".into(), kind }];
        let package = Package {
            name: "a".into(),
            folder: String::new(),
            dependencies,
            published: true,
            keys: Vec::new(),
        };
        of_package(&package, &[Source { path: path.into(), text: text.into() }]).len()
    }

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        assert_eq!(
            unused(Kind::Normal, "src/lib.rs", "let big_bytes = 1; self.big_bytes; x::big_bytes::f()"),
            1
        );
        assert_eq!(unused(Kind::Normal, "src/lib.rs", "// big_bytes::Bytes is not used"), 1);
        assert_eq!(unused(Kind::Normal, "tests/a.rs", "use big_bytes::Bytes;"), 1);
    }

    #[test]
    fn a_dependency_that_is_imported_or_named_in_a_path_is_used() {
        for text in [
            "use big_bytes::Bytes;",
            "use {big_bytes::Bytes, std::fmt};",
            "::big_bytes::f()",
            "pub use big_bytes as b;",
        ] {
            assert_eq!(unused(Kind::Normal, "src/lib.rs", text), 0, "{text}");
        }
        assert_eq!(unused(Kind::Dev, "tests/a.rs", "use big_bytes::Bytes;"), 0);
        assert_eq!(unused(Kind::Dev, "src/lib.rs", "/// use big_bytes::Bytes;"), 0);
    }
}
