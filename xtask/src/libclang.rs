//! What building RocksDB needs beside Rust: a C++ compiler, and libclang with its headers (bindings are made
//! from the C headers).

use std::path::{Path, PathBuf};

use stillstream_services::packages::install;

use crate::cargo::runs;

const PACKAGES: [&str; 2] = ["g++", "libclang-dev"];

/// Makes sure that it is there: on Debian and its kin by installing it, elsewhere by saying what is missing.
pub(crate) fn provide() -> Result<(), String> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let hint = format!(
        "building RocksDB needs {}: apt-get install -y {} (Debian, Ubuntu), dnf install gcc-c++ clang-devel (Fedora), \
         or set LIBCLANG_PATH to the folder of libclang.so",
        missing.join(" and "),
        PACKAGES.join(" ")
    );
    if !install(&PACKAGES) {
        return Err(hint);
    }
    match self::missing().as_slice() {
        [] => Ok(()),
        _ => Err(hint),
    }
}

fn missing() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if std::env::var_os("CXX").is_none() && !runs("c++", &["--version"]) {
        missing.push("a C++ compiler");
    }
    // whoever sets the path knows where the headers are too
    if std::env::var_os("LIBCLANG_PATH").is_none() && !has_libclang() {
        missing.push("libclang with its headers");
    }
    missing
}

/// Where distributions put LLVM. A release of it counts if library and headers are there.
fn has_libclang() -> bool {
    let llvm = folders(Path::new("/usr/lib"), "llvm").into_iter();
    let homes = llvm.chain([
        PathBuf::from("/usr"),
        PathBuf::from("/usr/local"),
        PathBuf::from("/opt/homebrew/opt/llvm"),
    ]);
    homes.into_iter().any(|home| {
        // `libclang-cpp` is another library
        let is_libclang = |path: &PathBuf| !path.to_string_lossy().contains("libclang-cpp");
        let library =
            ["lib", "lib64"].iter().any(|lib| folders(&home.join(lib), "libclang").iter().any(is_libclang));
        let releases = ["lib", "lib64"].iter().flat_map(|lib| folders(&home.join(lib).join("clang"), ""));
        library && releases.into_iter().any(|release| release.join("include/stdbool.h").exists())
    })
}

/// What lies in a folder and begins like this.
fn folders(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect()
}
