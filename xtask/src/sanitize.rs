//! The tests of the crate with nearly all of the unsafe code, and of the state above it, under a sanitizer of
//! the compiler.
//!
//! The stable compiler has them behind a switch. Everything is built anew into a target folder of its own,
//! some minutes; so it is not part of `verify`. RocksDB is left out: it is C++ that would have to be
//! instrumented too.

use crate::cargo::{cargo, has_standard_source, root, succeeds};

/// With a target named, build scripts and macros are built without the sanitizer.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Nearly all `unsafe` code is in the table; the backend in memory shows that it is used well.
const PACKAGES: [&str; 4] = ["-p", "stillstream-table", "-p", "stillstream-heap"];

struct Sanitizer {
    name: &'static str,
    /// Beside those that every run has.
    cargo: &'static [&'static str],
}

/// Memory that is used after it was freed, or beside what was taken; leaks. All tests.
const ADDRESS: Sanitizer = Sanitizer { name: "address", cargo: &["--tests"] };

/// Data races: tests with a second thread. The standard library is built with it too, or its locks and
/// counters would look like races.
const THREAD: Sanitizer = Sanitizer {
    name: "thread",
    cargo: &["-Zbuild-std", "--lib", "--test", "race", "--test", "writing", "--test", "incremental"],
};

/// Runs the sanitizers with these names, or both.
pub(crate) fn run(names: &[&str]) -> bool {
    let chosen: Vec<_> =
        [ADDRESS, THREAD].into_iter().filter(|s| names.is_empty() || names.contains(&s.name)).collect();
    if names.iter().any(|name| !chosen.iter().any(|s| s.name == *name)) {
        eprintln!("error: `{}`: expected `address`, `thread` or nothing", names.join(" "));
        return false;
    }
    chosen.iter().all(under)
}

fn under(sanitizer: &Sanitizer) -> bool {
    println!("==> {}", sanitizer.name);
    if sanitizer.cargo.contains(&"-Zbuild-std") && !has_standard_source() {
        eprintln!(
            "error: the source of the standard library is not installed: rustup component add rust-src"
        );
        return false;
    }
    let mut command = cargo(&["test", "--locked"]);
    command
        .args(PACKAGES)
        .args(["--target", TARGET])
        .args(sanitizer.cargo)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", format!("-Zsanitizer={}", sanitizer.name))
        .env("CARGO_TARGET_DIR", root().join("target").join(format!("sanitize-{}", sanitizer.name)));
    succeeds(command)
}
