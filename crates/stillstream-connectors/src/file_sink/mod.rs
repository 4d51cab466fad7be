//! [`FileSink`]: part files that appear whole, exactly once, by rename.
//!
//! | module | what is inside |
//! |---|---|
//! | `committed` | which commits were made, known without the files that they made |
//! | `names` | names of part files, and what they say after a crash |
//! | `rename` | a rename that replaces nothing |
//! | `staged_file` | a part from its creation to its pre-commit |
//! | `writer` | the writer of one subtask: roll, pre-commit, commit, recovery |

mod committed;
mod names;
mod rename;
mod staged_file;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use stillstream_runtime::connect::{Committer, Sink, SinkContext, SinkWriter};
use stillstream_state::Data;
use stillstream_types::file_access::FileAccess;
use stillstream_types::{ErrorKind, Result, ResultExt};

use crate::ConnectorError;
pub use writer::FileCommittable;

/// Appends the rows of a batch; the flag says whether they are the first of their file.
pub(crate) type Encode<T> = Arc<dyn Fn(&[T], bool, &mut Vec<u8>) -> Result<(), String> + Send + Sync>;

/// Parts end at this size if nothing else is said.
const ROLL_AT: u64 = 128 << 20;

/// File systems allow names of 255 bytes; a part's other parts take up to 80.
const MAX_EXTENSION: usize = 64;

/// Writes part files into a folder, exactly-once:
/// `<folder>/part-<sink>-<subtask>-<generation>-<number>.<extension>`.
///
/// Parts are written in `<folder>/.staging-<sink>/`. At the barrier of checkpoint n a part is closed and made
/// durable; when n is complete it is renamed into the folder. So whoever reads `part-*` sees only whole files
/// of completed checkpoints, each record once. Without checkpointing the parts appear when the job ends.
///
/// Parts that are there may be taken away at any time: what was committed is noted in
/// `<folder>/.committed-<sink>/`, by the names of empty files. `<sink>` is made of the job's name, the sink's
/// uid and the place of the job's checkpoints, so several sinks, several jobs and several runs of one job
/// that know nothing of each other may share a folder; no part ever takes the place of another file. Parts of
/// earlier runs stay as they are. A job that goes on with its checkpoints in another place commits what waits
/// for it; what the old place's run had begun and not prepared stays in its `.staging-<sink>`, for a person
/// to delete.
///
/// The folder must be the same file system on all machines of the job. Files are readable for the user that
/// runs the job alone, unless `stillstream.files.access` says otherwise.
///
/// ```
/// use stillstream_connectors::FileSink;
/// #[derive(Clone, serde::Serialize, stillstream_state::Data)]
/// # #[data(crate = stillstream_state)]
/// struct CarrierDay { carrier: String, delayed: u64 }
/// let rows = FileSink::<CarrierDay>::csv("out/carrier_days");
/// let lines = FileSink::<String>::lines("out/lines").roll_at(16 << 20);
/// # fn check<T: stillstream_state::Data>(_: impl stillstream_runtime::connect::Sink<T>) {}
/// # check(rows); check(lines);
/// ```
pub struct FileSink<T> {
    folder: PathBuf,
    extension: String,
    roll_at: u64,
    encode: Encode<T>,
}

impl<T> Clone for FileSink<T> {
    fn clone(&self) -> Self {
        Self {
            folder: self.folder.clone(),
            extension: self.extension.clone(),
            roll_at: self.roll_at,
            encode: self.encode.clone(),
        }
    }
}

impl<T> fmt::Debug for FileSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSink").field("folder", &self.folder).field("roll_at", &self.roll_at).finish()
    }
}

fn encode_csv<T: Serialize>(rows: &[T], first: bool, out: &mut Vec<u8>) -> Result<(), String> {
    let mut writer = csv::WriterBuilder::new().has_headers(first).from_writer(std::mem::take(out));
    let written = rows.iter().try_for_each(|row| writer.serialize(row));
    *out = writer.into_inner().map_err(|error| error.to_string())?;
    written.map_err(|error| error.to_string())
}

impl<T: Data + Serialize> FileSink<T> {
    /// CSV rows by `serde`; each file begins with a header if `T` is a struct.
    pub fn csv(folder: impl Into<PathBuf>) -> Self {
        Self::new(folder.into(), "csv", Arc::new(encode_csv::<T>))
    }
}

impl<T: Data + fmt::Display> FileSink<T> {
    /// Each record's `Display` form on a line.
    pub fn lines(folder: impl Into<PathBuf>) -> Self {
        let encode = |rows: &[T], _: bool, out: &mut Vec<u8>| {
            use std::io::Write;
            rows.iter().try_for_each(|row| writeln!(out, "{row}")).map_err(|error| error.to_string())
        };
        Self::new(folder.into(), "txt", Arc::new(encode))
    }
}

impl<T> FileSink<T> {
    fn new(folder: PathBuf, extension: &str, encode: Encode<T>) -> Self {
        Self { folder, extension: extension.to_owned(), roll_at: ROLL_AT, encode }
    }

    /// Begins a new part when one has reached this many bytes (128 MiB if not said); parts also end at each
    /// checkpoint.
    pub fn roll_at(mut self, bytes: u64) -> Self {
        self.roll_at = bytes;
        self
    }

    /// What follows the `.` in the names of parts (`csv` or `txt` if not said): letters, digits, `-`, `_`,
    /// and `.` between them, as in `csv.part`.
    pub fn extension(mut self, extension: impl Into<String>) -> Self {
        self.extension = extension.into();
        self
    }
}

impl<T: Data> Sink<T> for FileSink<T> {
    type Committable = FileCommittable;

    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<T, FileCommittable>>> {
        let writer = writer::FileWriter::open(self, context);
        Ok(Box::new(writer.map_err(ConnectorError::into_error)?))
    }

    fn committer(&self, context: &SinkContext) -> Result<Box<dyn Committer<FileCommittable>>> {
        Ok(Box::new(writer::FileCommitter::open(self, context)))
    }

    /// Checks the extension, and that a file can be made in the folder, or in the nearest one above it that
    /// is there.
    fn validate(&self) -> Result<()> {
        ConnectorError::check_home(&self.folder).kind(ErrorKind::Configuration)?;
        check_extension(&self.extension)
            .map_err(ConnectorError::into_error)
            .kind(ErrorKind::Configuration)?;
        // the folder itself is made by the writers, which know who may read it
        let there = self.folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
        // one name for all: what a killed process has left is taken over, and stops no start; another process
        // may be faster
        let probe = there.join(PROBE);
        let tried = FileAccess::Owner.options().write(true).create(true).truncate(false).open(&probe);
        let tried = tried.and_then(|_| match std::fs::remove_file(&probe) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        });
        tried.map_err(ConnectorError::write(&self.folder)).kind(ErrorKind::Configuration)
    }
}

/// The file that shows that files can be made in a folder; it is there for a moment.
const PROBE: &str = ".stillstream-probe";

/// Refuses what would put parts into another folder, hide their end, or make their names unreadable.
fn check_extension(extension: &str) -> Result<(), ConnectorError> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let parts_are_there = extension.split('.').all(|part| !part.is_empty());
    if parts_are_there && extension.chars().all(plain) && extension.len() <= MAX_EXTENSION {
        return Ok(());
    }
    Err(ConnectorError::Setting {
        setting: "the extension of a `FileSink`",
        found: format!("`{extension}`"),
        expected: "1 to 64 letters, digits, `-`, `_`, and `.` between them but not in front, as in `csv`,",
    })
}
