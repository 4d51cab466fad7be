//! Circles of packages. Cargo refuses those of its own making; with tests and examples it allows them, and
//! they make it hard to see which package stands below which.

use std::collections::BTreeMap;
use std::path::Path;

use super::manifests::{self, Package};

/// Dependencies of tests that may point back up: from, to, why.
const ALLOWED: [(&str, &str, &str); 0] = [];

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let allowed: Vec<(&str, &str)> = ALLOWED.iter().map(|(from, to, _)| (*from, *to)).collect();
    match circle(&manifests::read(root)?, &allowed) {
        None => Ok(()),
        Some(circle) => Err(format!(
            "packages that depend on one another in a circle: {}; move what they share below both, or name the one that \
             its tests need in {}, with the reason",
            circle.join(" -> "),
            file!()
        )),
    }
}

/// A circle, its first package named again at the end. A package that depends on itself (for a feature of its
/// tests) is none.
fn circle(packages: &[Package], allowed: &[(&str, &str)]) -> Option<Vec<String>> {
    let mut below: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let ours = package.dependencies.iter().map(|dependency| dependency.name.as_str()).filter(|name| {
            *name != package.name
                && packages.iter().any(|other| other.name == *name)
                && !allowed.contains(&(package.name.as_str(), *name))
        });
        below.insert(&package.name, ours.collect());
    }
    // a package whose dependencies are all gone has no part in a circle
    while let Some(free) = below.iter().find(|(_, names)| names.is_empty()).map(|(name, _)| *name) {
        below.remove(free);
        below.values_mut().for_each(|names| names.retain(|name| *name != free));
    }
    let mut path = vec![*below.keys().next()?];
    loop {
        let next = *below.get(path.last()?)?.first()?;
        if let Some(start) = path.iter().position(|name| *name == next) {
            let circle = path[start..].iter().chain([&next]);
            return Some(circle.map(|name| name.to_string()).collect());
        }
        path.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifests::{Dependency, Kind};
    use super::*;

    fn package(name: &str, on: &[(&str, Kind)]) -> Package {
        let dependencies =
            on.iter().map(|(name, kind)| Dependency { name: name.to_string(), kind: *kind }).collect();
        Package { name: name.into(), folder: String::new(), dependencies, published: true, keys: Vec::new() }
    }

    #[test]
    fn a_circle_through_tests_is_found_unless_it_is_allowed() {
        let packages = [
            package("top", &[("a", Kind::Normal)]),
            package("a", &[("b", Kind::Normal), ("serde", Kind::Normal)]),
            package("b", &[("a", Kind::Dev), ("b", Kind::Dev)]),
        ];
        assert_eq!(circle(&packages, &[]), Some(vec!["a".into(), "b".into(), "a".into()]));
        assert_eq!(circle(&packages, &[("b", "a")]), None);
    }
}
