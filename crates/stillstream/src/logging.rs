//! A log for programs that have set up none.

use std::io::IsTerminal;
use std::sync::Once;

use tracing_subscriber::EnvFilter;

/// Writes warnings and errors to standard error, unless the program has set a subscriber of its own.
///
/// `STILLSTREAM_LOG`, or else `RUST_LOG`, says what else is written, such as `info` or `stillstream_runtime=debug`.
#[expect(clippy::disallowed_methods, reason = "the start-up shell: the log's filter is no setting of a job")]
pub(crate) fn init_logging() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if tracing::dispatcher::has_been_set() {
            return;
        }
        let chosen = ["STILLSTREAM_LOG", "RUST_LOG"].iter().find_map(|name| std::env::var(name).ok());
        let filter = EnvFilter::new(chosen.as_deref().filter(|text| !text.is_empty()).unwrap_or("warn"));
        // a subscriber that the program sets at this very moment wins
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .try_init();
    });
}
