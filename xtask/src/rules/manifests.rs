//! The packages of the workspace, and what each depends on, as their `Cargo.toml` say.

use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Of the library or program.
    Normal,
    /// Of tests, examples and benchmarks.
    Dev,
    Build,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its folder below the root.
    pub(crate) folder: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// Whether it may be published.
    pub(crate) published: bool,
    /// What its `[package]` says, also where it takes that from the workspace.
    pub(crate) keys: Vec<String>,
}

/// A dependency that the root names for all packages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) has_path: bool,
    pub(crate) has_version: bool,
}

/// All packages of the workspace.
pub(crate) fn read(root: &Path) -> Result<Vec<Package>, String> {
    let manifests = super::sources::read(root, &["toml"])?.into_iter();
    let manifests = manifests.filter_map(|file| {
        let folder = file.path.strip_suffix("Cargo.toml")?.trim_end_matches('/').to_string();
        parse(&folder, &file.text)
    });
    Ok(manifests.collect())
}

/// The dependencies that the root names for all packages.
pub(crate) fn shared(root: &Path) -> Result<Vec<Shared>, String> {
    let path = root.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(shared_in(&text))
}

fn shared_in(text: &str) -> Vec<Shared> {
    let table = text.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let table = table.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    let dependencies = table.filter_map(|line| line.split_once('='));
    dependencies
        .map(|(name, value)| Shared {
            name: name.trim().to_string(),
            has_path: value.contains("path = "),
            has_version: value.contains("version = ") || value.trim().starts_with('"'),
        })
        .collect()
}

/// Reads what is needed here of a manifest in the plain form that ours have: one key a line. `None`: it has
/// no package.
fn parse(folder: &str, text: &str) -> Option<Package> {
    let (mut name, mut published, mut dependencies, mut keys) = (None, true, Vec::new(), Vec::new());
    let mut table = "";
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            table = header.trim_end_matches(']');
            // `[dependencies.serde]`
            if let Some((kind, name)) = table.split_once("dependencies.") {
                dependencies.push(Dependency { name: name.to_string(), kind: kind_of(kind) });
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        let (key, value) = (key.trim(), value.trim());
        if table == "package" {
            keys.push(key.split('.').next().unwrap_or(key).to_string());
        }
        match (table, key) {
            ("package", "name") => name = Some(value.trim_matches('"').to_string()),
            ("package", "publish") => published = value != "false",
            _ => {
                // `[target.'cfg(..)'.dependencies]` ends in the same way
                if let Some(kind) =
                    table.strip_suffix("dependencies").filter(|_| !table.starts_with("workspace"))
                {
                    let name = key.split('.').next().unwrap_or(key);
                    dependencies.push(Dependency { name: name.to_string(), kind: kind_of(kind) });
                }
            }
        }
    }
    Some(Package { name: name?, folder: folder.to_string(), dependencies, published, keys })
}

/// What stands before `dependencies` in the name of a table.
fn kind_of(prefix: &str) -> Kind {
    match prefix {
        _ if prefix.ends_with("dev-") => Kind::Dev,
        _ if prefix.ends_with("build-") => Kind::Build,
        _ => Kind::Normal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_all_kinds_are_read() {
        let text = "\
[package]
name = \"a\"
license.workspace = true
publish = false

[dependencies]
# a comment with = in it
serde = { version = \"1\" }
bytes.workspace = true

[dependencies.csv]
version = \"1\"

[target.'cfg(unix)'.dependencies]
libc = \"0.2\"

[dev-dependencies]
tempfile = \"3\"

[build-dependencies]
cc = \"1\"
";
        let package = parse("crates/a", text).unwrap();
        let of = |kind| -> Vec<&str> {
            let all = package.dependencies.iter().filter(|dependency| dependency.kind == kind);
            all.map(|dependency| dependency.name.as_str()).collect()
        };
        assert_eq!(of(Kind::Normal), ["serde", "bytes", "csv", "libc"]);
        assert_eq!((of(Kind::Dev), of(Kind::Build)), (vec!["tempfile"], vec!["cc"]));
        assert_eq!((package.published, package.keys.join(" ")), (false, "name license publish".into()));
        let root = "[workspace.dependencies]\n# why\na = { path = \"a\" }\nserde = \"1\"\n\n[profile.dev]\ndebug = 1\n";
        assert_eq!(parse("", root), None);
        let shared = |name: &str, has_path| Shared { name: name.into(), has_path, has_version: !has_path };
        assert_eq!(shared_in(root), [shared("a", true), shared("serde", false)]);
    }
}
