//! Pages that are made from the code.

use crate::cargo::{cargo, root};

/// Writes `docs/configuration.md`; a test of `stillstream-config` fails while it is out of date.
pub(crate) fn config() -> bool {
    let page =
        match cargo(&["run", "--quiet", "-p", "stillstream-config", "--example", "docs-config"]).output() {
            Ok(output) if output.status.success() => output.stdout,
            Ok(output) => {
                eprint!("{}", String::from_utf8_lossy(&output.stderr));
                return false;
            }
            Err(error) => {
                eprintln!("error: cargo could not be started: {error}");
                return false;
            }
        };
    let path = root().join("docs/configuration.md");
    match std::fs::write(&path, page) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("error: {}: {error}", path.display());
            false
        }
    }
}
