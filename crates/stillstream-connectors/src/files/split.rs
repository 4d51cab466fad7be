//! [`FileSplit`]: a file, or a range of one, and how far it has been read.

use stillstream_state::Data;
use stillstream_types::paths::absolute;

/// A file, or a range of bytes of one, with the position from which to go on. Kept in checkpoints.
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct FileSplit {
    /// The file.
    pub path: String,
    /// Whether it is compressed; then all offsets count decompressed bytes.
    pub gzip: bool,
    /// First byte of the split.
    pub start: u64,
    /// First byte that is not the split's; `u64::MAX` for the whole rest of the file.
    pub end: u64,
    /// The byte from which to go on.
    pub next: u64,
    /// Lines before `next`; counted from the beginning of the file, so only known in splits that begin there.
    pub lines: u64,
    /// Fields of a row of a CSV file without header; 0 while no row was read.
    pub columns: u32,
    /// Whether all of it was read.
    pub done: bool,
    /// Size on disk of the part that the split stands for, for `spread_over`.
    pub bytes: u64,
    /// How many splits the source has, for `records_per_second`.
    pub of: u32,
}

impl FileSplit {
    /// How far it has been read, for messages; `None` if it was not begun.
    pub(crate) fn place(&self) -> Option<String> {
        let line = self.line(self.lines).filter(|line| *line > 0);
        let line = line.map_or_else(String::new, |line| format!("line {line}, "));
        (self.next > self.start)
            .then(|| format!("{line}byte {} of `{}`", self.next, absolute(&self.path).display()))
    }

    /// The number of line `line` of the split, where it is known.
    pub(crate) fn line(&self, line: u64) -> Option<u64> {
        (self.start == 0).then_some(line)
    }
}

/// A row that does not fit the source's type.
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct Malformed {
    /// The file.
    pub file: String,
    /// The line, from 1, if the file is read from its beginning.
    pub line: Option<u64>,
    /// Where the row starts: the byte, decompressed, from 0.
    pub byte: u64,
    /// The row, shortened.
    pub text: String,
    /// What is wrong with it.
    pub error: String,
}

/// What happens to rows that do not fit the source's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnMalformed {
    /// The job fails, with an error that names file, line and what is wrong.
    #[default]
    Fail,
    /// They are left out, and counted as `<source>.malformed`.
    SkipAndCount,
    /// They go to the source's side output 0, as [`Malformed`] records.
    SideOutput,
}

/// Longest row that messages show.
const SHOWN: usize = 200;

impl Malformed {
    /// `text`, shortened.
    pub(crate) fn new(split: &FileSplit, line: u64, byte: u64, text: &[u8], error: String) -> Self {
        let mut shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]).into_owned();
        if text.len() > SHOWN {
            shown.push_str("...");
        }
        Self { file: split.path.clone(), line: split.line(line), byte, text: shown, error }
    }

    pub(crate) fn into_error(self) -> crate::ConnectorError {
        let line = self.line.map_or_else(String::new, |line| format!(" line {line}"));
        crate::ConnectorError::Malformed {
            place: format!("`{}`{line} (byte {})", absolute(&self.file).display(), self.byte),
            why: self.error,
            row: self.text,
        }
    }
}
