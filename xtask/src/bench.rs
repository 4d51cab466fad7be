//! `cargo xtask bench`.

use crate::cargo::{cargo, root, succeeds};

/// Builds the benchmarks in release and runs those that `arguments` name, or all.
pub(crate) fn run(arguments: &[&str]) -> bool {
    // the benchmarks measure state in RocksDB too
    if let Err(hint) = crate::libclang::provide() {
        eprintln!("error: {hint}");
        return false;
    }
    let mut command =
        cargo(&["run", "--release", "--locked", "--package", "stillstream-bench", "--", "suite", "--page"]);
    command.arg(root().join("docs/benchmarks.md")).args(arguments);
    // `--json FILE` is where the caller is
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    succeeds(command)
}
