//! A log for programs that have set up none.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;

/// What is written where nobody has said it: what the job says of itself, and warnings of everything else in
/// the program. Kafka's client warns of producers that are dropped with their transaction, as those of an
/// attempt that is over must be.
const DEFAULT: &str = "warn,krafka::producer=error,stillstream=info";

/// Writes what it is given and never fails: a reader that goes away, as in `job 2>&1 | head -1`, is no reason
/// for the job to end. What is written then is lost.
struct Forgiving<W>(W);

impl<W: Write> Write for Forgiving<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // nobody is left who could be told
        let _ = self.0.write_all(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// Writes the log to standard error, unless the program has set a subscriber of its own; says which of the
/// two it is.
///
/// `STILLSTREAM_LOG`, or else `RUST_LOG`, says what is written, such as `warn` or
/// `stillstream_runtime=debug`.
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
            .with_writer(|| Forgiving(io::stderr()))
            .log_internal_errors(false)
            .with_ansi(io::stderr().is_terminal())
            // a subscriber that the program sets at this very moment wins
            .try_init()
            .is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe whose reader has gone.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_line_for_a_reader_that_has_gone_is_lost_and_no_error() {
        let mut log = Forgiving(Closed);
        assert!(log.write_all(b"a line").is_ok() && log.flush().is_ok());
    }
}
