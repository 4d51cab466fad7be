//! Packages of others that are built here: their licences, and those that come in several versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::cargo::cargo;

/// Licences that go with ours, Apache-2.0.
const LICENCES: [&str; 10] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    // of data alone: the roots of the web's certificates, which krafka brings along
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Packages that are built in several versions, and why.
const SEVERAL: [(&str, &str); 16] = [
    ("base64", "hdfs-native and krafka are one version behind object_store"),
    ("block-buffer", "by the two versions of `digest`"),
    ("cpufeatures", "krafka's sha2 is behind what hdfs-native and rand use"),
    ("crypto-common", "by the two versions of `digest`"),
    ("digest", "crc-fast of object_store, and krafka, are one version behind hdfs-native"),
    ("getrandom", "tests only: by the two versions of `rand`"),
    ("hmac", "krafka is one version behind hdfs-native"),
    ("itertools", "timely is one version behind object_store and prost"),
    ("libloading", "only while building: clang-sys is one version behind hdfs-native"),
    ("rand", "tests only: shuttle is behind proptest"),
    ("rand_chacha", "by the two versions of `rand`"),
    ("rand_core", "tests only: by the two versions of `rand`"),
    ("socket2", "krafka is one version behind tokio"),
    ("thiserror", "tokio-socks of krafka is one version behind"),
    ("thiserror-impl", "by the two versions of `thiserror`"),
    ("syn", "only while building: prost and tracing are one version behind serde"),
];

pub(crate) fn check(_: &Path) -> Result<(), String> {
    let output = cargo(&[
        "tree",
        "--workspace",
        "--all-features",
        "--locked",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
    ])
    .output()
    .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let packages = parse(&String::from_utf8_lossy(&output.stdout));
    let mistakes = [licences(&packages, &LICENCES), versions(&packages, &SEVERAL)].concat();
    match mistakes.as_slice() {
        [] => Ok(()),
        _ => Err(format!("{} (the lists are in {})", mistakes.join("; "), file!())),
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Package {
    name: String,
    version: String,
    licence: String,
}

/// Lines as `serde v1.0.1|MIT OR Apache-2.0`, with remarks in parentheses.
fn parse(tree: &str) -> BTreeSet<Package> {
    let packages = tree.lines().filter_map(|line| {
        let (package, licence) = line.split_once('|')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?.to_string(), words.next()?.trim_start_matches('v').to_string());
        Some(Package { name, version, licence: licence.trim_end_matches(" (*)").trim().to_string() })
    });
    packages.collect()
}

fn licences(packages: &BTreeSet<Package>, allowed: &[&str]) -> Vec<String> {
    let refused = packages.iter().filter(|package| !allows(&package.licence, allowed));
    refused
        .map(|Package { name, version, licence }| match licence.is_empty() {
            true => format!("{name} {version} names no licence"),
            false => format!("{name} {version} has the licence `{licence}`, which is not on the list"),
        })
        .collect()
}

/// Whether an expression as `(MIT OR Apache-2.0) AND Unicode-3.0` is met with the licences on the list.
fn allows(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let result = any(&mut words, allowed);
    result && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// Terms with `OR` between them.
fn any(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut result = every(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        result |= every(words, allowed);
    }
    result
}

/// Terms with `AND` between them.
fn every(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut result = term(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        result &= term(words, allowed);
    }
    result
}

fn term(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    match words.next() {
        Some("(") => {
            let result = any(words, allowed);
            words.next() == Some(")") && result
        }
        Some(licence) => match words.next_if_eq(&"WITH") {
            Some(_) => {
                let with = format!("{licence} WITH {}", words.next().unwrap_or_default());
                allowed.contains(&with.as_str())
            }
            None => allowed.contains(&licence),
        },
        None => false,
    }
}

fn versions(packages: &BTreeSet<Package>, known: &[(&str, &str)]) -> Vec<String> {
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        by_name.entry(&package.name).or_default().push(&package.version);
    }
    by_name.retain(|_, versions| versions.len() > 1);
    let mut mistakes: Vec<String> = by_name
        .iter()
        .filter(|(name, _)| !known.iter().any(|(known, _)| known == *name))
        .map(|(name, versions)| format!("{name} is built in the versions {}", versions.join(" and ")))
        .collect();
    let over = known.iter().filter(|(name, _)| !by_name.contains_key(name));
    mistakes.extend(over.map(|(name, _)| format!("{name} is on the list of several versions, and has one")));
    mistakes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
a v0.1.0 (/src/a)|Apache-2.0
syn v1.0.0|MIT OR Apache-2.0
syn v2.0.0|MIT OR Apache-2.0 (*)
derive v2.0.0 (proc-macro)|MIT/Apache-2.0
bad v1.0.0|GPL-3.0-only
none v1.0.0|

";

    #[test]
    fn a_licence_that_is_not_on_the_list_is_found() {
        let found = licences(&parse(TREE), &LICENCES);
        assert_eq!(
            found,
            [
                "bad 1.0.0 has the licence `GPL-3.0-only`, which is not on the list",
                "none 1.0.0 names no licence"
            ]
        );
    }

    #[test]
    fn expressions_of_licences_are_understood() {
        for good in [
            "MIT",
            "GPL-3.0-only OR MIT",
            "(MIT OR GPL-3.0-only) AND ISC",
            "Apache-2.0 WITH LLVM-exception OR X",
        ] {
            assert!(allows(good, &LICENCES), "{good}");
        }
        for bad in ["", "MIT AND GPL-3.0-only", "MIT WITH exception", "(MIT", "MIT ISC"] {
            assert!(!allows(bad, &LICENCES), "{bad}");
        }
    }

    #[test]
    fn several_versions_need_a_reason_and_a_reason_needs_several_versions() {
        assert!(versions(&parse(TREE), &[("syn", "because")]).is_empty());
        assert_eq!(versions(&parse(TREE), &[]), ["syn is built in the versions 1.0.0 and 2.0.0"]);
        let found = versions(&parse(TREE), &[("syn", "because"), ("a", "because")]);
        assert_eq!(found, ["a is on the list of several versions, and has one"]);
    }
}
