//! Exit codes by kind of error, so that whoever supervises the process knows whether another start can help.

use std::io::Write;
use std::process::ExitCode;

use stillstream_types::{ErrorKind, Result};

/// The exit code of a program that ends with this result, which it says on standard error, once, if it is an
/// error.
///
/// [`#[stillstream::main]`](crate::main) does this for `main`. A `main` that returns [`Result`] without it
/// prints the same line, and ends with 1 whatever the error is.
///
/// | code | kinds | would another start help? |
/// |---|---|---|
/// | 0 | | it has finished, or was stopped in order |
/// | 1 | [`User`](ErrorKind::User), [`Panic`](ErrorKind::Panic) | if the cause has gone; it resumes from the last checkpoint |
/// | 2 | [`Configuration`](ErrorKind::Configuration), [`Plan`](ErrorKind::Plan) | no: mend arguments, settings or program |
/// | 3 | [`State`](ErrorKind::State), [`CorruptSnapshot`](ErrorKind::CorruptSnapshot), [`Incompatible`](ErrorKind::Incompatible) | no: the state cannot be used |
/// | 4 | [`Storage`](ErrorKind::Storage), [`Checkpoint`](ErrorKind::Checkpoint) | when checkpoint storage is there again |
/// | 5 | [`Connector`](ErrorKind::Connector) | when the other end, or the disk, is there again |
/// | 6 | [`Peer`](ErrorKind::Peer), [`Timeout`](ErrorKind::Timeout) | yes |
/// | 7 | [`Fenced`](ErrorKind::Fenced) | no: another process runs the job |
/// | 8 | [`Cancelled`](ErrorKind::Cancelled) | it was asked to end |
///
/// ```
/// use std::process::ExitCode;
/// use stillstream::prelude::*;
///
/// let wrong = || -> Result<()> { Err(Error::new(ErrorKind::Configuration, "no such folder")) };
/// assert_eq!(stillstream::exit_with(wrong()), ExitCode::from(2));
/// assert_eq!(stillstream::exit_with(Ok(())), ExitCode::SUCCESS);
/// ```
pub fn exit_with<T>(result: Result<T>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // whoever reads standard error may have gone away: the code is all that is left to say
    let _ = writeln!(std::io::stderr(), "Error: {error}");
    ExitCode::from(exit_code(error.kind()))
}

/// The code of [`exit_with`] for a kind of error.
pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::User | ErrorKind::Panic => 1,
        ErrorKind::Configuration | ErrorKind::Plan => 2,
        ErrorKind::State | ErrorKind::CorruptSnapshot | ErrorKind::Incompatible => 3,
        ErrorKind::Storage | ErrorKind::Checkpoint => 4,
        ErrorKind::Connector => 5,
        ErrorKind::Peer | ErrorKind::Timeout => 6,
        ErrorKind::Fenced => 7,
        ErrorKind::Cancelled => 8,
    }
}
