//! A log for programs that have set up none.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;

/// What is written where nobody has said it: what the job says of itself, and warnings of everything else in the program.
const DEFAULT: &str = "warn,stillstream=info";

/// Writes the log to standard error, unless the program has set a subscriber of its own; says which of the two it is.
///
/// `STILLSTREAM_LOG`, or else `RUST_LOG`, says what is written, such as `warn` or `stillstream_runtime=debug`.
#[expect(clippy::disallowed_methods, reason = "the start-up shell: the log's filter is no setting of a job")]
pub(crate) fn init_logging() -> bool {
    static OURS: OnceLock<bool> = OnceLock::new();
    *OURS.get_or_init(|| {
        if tracing::dispatcher::has_been_set() {
            return false;
        }
        let chosen = ["STILLSTREAM_LOG", "RUST_LOG"].iter().find_map(|name| std::env::var(name).ok());
        let chosen = chosen.filter(|text| !text.is_empty());
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(chosen.as_deref().unwrap_or(DEFAULT)))
            // where a line comes from matters to those who choose by it
            .with_target(chosen.is_some())
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            // a subscriber that the program sets at this very moment wins
            .try_init()
            .is_ok()
    })
}
