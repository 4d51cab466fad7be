//! What crates.io wants of a package: `cargo xtask package` makes each one that is published.

use std::path::Path;

use super::manifests::{self, Kind, Package, Shared};

/// What the manifest of a published package must say.
const KEYS: [&str; 5] = ["description", "license", "repository", "readme", "keywords"];

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let packages = manifests::read(root)?;
    let mut mistakes = mistakes(&packages, &manifests::shared(root)?);
    for package in packages.iter().filter(|package| package.published) {
        if !root.join(&package.folder).join("LICENSE").exists() {
            mistakes.push(format!("{0} has no licence file: ln -s ../../LICENSE {0}", package.folder));
        }
    }
    match mistakes.as_slice() {
        [] => Ok(()),
        _ => Err(format!("packages that cannot be published: {}", mistakes.join("; "))),
    }
}

/// The names of the packages that are published.
pub(crate) fn published(root: &Path) -> Result<Vec<String>, String> {
    let packages = manifests::read(root)?.into_iter().filter(|package| package.published);
    Ok(packages.map(|package| package.name).collect())
}

fn mistakes(packages: &[Package], shared: &[Shared]) -> Vec<String> {
    let mut mistakes = Vec::new();
    for package in packages.iter().filter(|package| package.published) {
        let missing = KEYS.iter().filter(|key| !package.keys.iter().any(|there| there == *key));
        mistakes.extend(missing.map(|key| format!("{} has no `{key}`", package.name)));
        let below = package.dependencies.iter().filter(|dependency| dependency.kind != Kind::Dev);
        let hidden = below.filter(|dependency| {
            packages.iter().any(|other| other.name == dependency.name && !other.published)
        });
        mistakes.extend(
            hidden.map(|dependency| {
                format!("{} needs {}, which is not published", package.name, dependency.name)
            }),
        );
    }
    let paths = shared.iter().filter(|shared| shared.has_path && !shared.has_version);
    mistakes.extend(
        paths.map(|shared| format!("{} has a path and no version in the root's Cargo.toml", shared.name)),
    );
    mistakes
}

#[cfg(test)]
mod tests {
    use super::super::manifests::Dependency;
    use super::*;

    fn package(name: &str, keys: &[&str], on: &str, published: bool) -> Package {
        let dependencies = vec![Dependency { name: on.into(), kind: Kind::Normal }];
        let keys = keys.iter().map(|key| key.to_string()).collect();
        Package { name: name.into(), folder: String::new(), dependencies, published, keys }
    }

    #[test]
    fn what_keeps_a_package_from_being_published_is_named() {
        let shared = [
            Shared { name: "a".into(), has_path: true, has_version: false },
            Shared { name: "serde".into(), has_path: false, has_version: true },
        ];
        let packages = [package("a", &KEYS[1..], "tool", true), package("tool", &[], "a", false)];
        assert_eq!(
            mistakes(&packages, &shared),
            [
                "a has no `description`",
                "a needs tool, which is not published",
                "a has a path and no version in the root's Cargo.toml"
            ]
        );
        assert!(mistakes(&[package("a", &KEYS, "serde", true)], &shared[1..]).is_empty());
    }
}
