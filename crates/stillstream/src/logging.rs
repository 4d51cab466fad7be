//! A log for programs that have set up none.

use std::io::{self, IsTerminal, Write};
use std::sync::Once;

use tracing_subscriber::EnvFilter;

/// Writes what it is given and never fails: a reader that goes away, as in `job 2>&1 | head -1`, is no reason for the job to
/// end. What is written then is lost.
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
            .with_writer(|| Forgiving(io::stderr()))
            .log_internal_errors(false)
            .with_ansi(io::stderr().is_terminal())
            .try_init();
    });
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
