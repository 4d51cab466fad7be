//! [`TextSource`]: lines of text files.

use std::fmt;
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::connect::{Enumerator, EnumeratorContext, SourceContext, SplitReader, SplitSource};
use stillstream_types::{ErrorKind, Result, ResultExt};

use super::input::{Input, open};
use super::enumerator::{Cut, FileEnumerator};
use super::paths::{Found, IntoPaths, find};
use super::reader::FileReader;
use super::rows::Rows;
use super::split::{FileSplit, Malformed, OnMalformed};
use crate::ConnectorError;
use crate::pace::Rate;

/// A plain file of more than this many bytes is cut into several splits.
const SPLIT_SIZE: u64 = 64 << 20;

/// Reads lines of text files, without their line ends (`\n` or `\r\n`). Files ending in `.gz`, or that begin
/// like gzip, are decompressed. Positions are byte offsets, so a restart goes on with exactly the next line.
///
/// A large plain file is cut into several splits that different subtasks read; a line belongs to the split in
/// which it starts. The files are listed when the job starts for the first time; a restored job reads the
/// files of its checkpoint.
///
/// ```
/// use stillstream_connectors::TextSource;
/// let lines = TextSource::new("logs"); // a file, a folder or several: ["a.log", "b.log.gz"]
/// # fn check(_: impl stillstream_runtime::connect::SplitSource<Item = String>) {}
/// # check(lines);
/// ```
#[derive(Clone)]
pub struct TextSource {
    paths: Vec<PathBuf>,
    split_size: u64,
    on_malformed: OnMalformed,
    rate: Rate,
    watch: Option<Duration>,
}

impl fmt::Debug for TextSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextSource").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl TextSource {
    /// Reads these files; a folder stands for the files in it, sorted by name.
    pub fn new(paths: impl IntoPaths) -> Self {
        Self {
            paths: paths.into_paths(),
            split_size: SPLIT_SIZE,
            on_malformed: OnMalformed::Fail,
            rate: Rate::Unlimited,
            watch: None,
        }
    }

    /// Cuts plain files into splits of this many bytes. Default: 64 MiB.
    pub fn split_size(mut self, bytes: u64) -> Self {
        self.split_size = bytes;
        self
    }

    /// What happens to lines that are not UTF-8.
    pub fn on_malformed(mut self, policy: OnMalformed) -> Self {
        self.on_malformed = policy;
        self
    }

    /// Emits `rate` lines per second over all subtasks together.
    pub fn records_per_second(mut self, rate: f64) -> Self {
        self.rate = Rate::RecordsPerSecond(rate);
        self
    }

    /// Looks for new files as often as this, for ever: the source does not end, and a folder may be empty at first.
    /// A file is recognised by its path and read once, as it is then: move files into the folder when they are
    /// whole, or write them under a name that begins with `.` or `_` first. One that changes after it was found is
    /// said in the log, and counted as `<source>.changed-files`. Every checkpoint has the paths of all files that
    /// were found.
    pub fn watch(mut self, every: Duration) -> Self {
        self.watch = Some(every);
        self
    }

    /// Reads at the speed at which all files together take about this long.
    pub fn spread_over(mut self, duration: Duration) -> Self {
        self.rate = Rate::SpreadOver(duration);
        self
    }
}

/// Cuts a file into splits of this size, or leaves it whole.
fn cut_file(file: &Found, split_size: u64) -> Vec<FileSplit> {
    let whole = file.gzip || file.bytes <= split_size.max(1);
    let size = if whole { u64::MAX } else { split_size.max(1) };
    let (mut splits, mut start) = (Vec::new(), 0u64);
    loop {
        let end = start.saturating_add(size);
        let last = whole || end >= file.bytes;
        splits.push(FileSplit {
            path: file.path.clone(),
            gzip: file.gzip,
            start,
            end: if last { u64::MAX } else { end },
            next: start,
            lines: 0,
            columns: 0,
            done: false,
            bytes: end.min(file.bytes) - start,
            of: 0,
        });
        if last {
            return splits;
        }
        start = end;
    }
}

impl TextSource {
    fn cut(&self) -> Cut {
        let (split_size, watched) = (self.split_size, self.watch.is_some());
        Arc::new(move |found: Vec<Found>| {
            let mut splits: Vec<FileSplit> =
                found.iter().flat_map(|file| cut_file(file, split_size)).collect();
            let of = if watched { u32::MAX } else { splits.len() as u32 };
            splits.iter_mut().for_each(|split| split.of = of);
            splits
        })
    }
}

impl SplitSource for TextSource {
    type Item = String;
    type Split = FileSplit;

    fn splits(&self) -> Result<Vec<FileSplit>> {
        let found = find(&self.paths, self.watch.is_some()).map_err(ConnectorError::into_error)?;
        Ok(self.cut()(found))
    }

    fn enumerator(&self, context: &EnumeratorContext) -> Result<Option<Enumerator<FileSplit>>> {
        let files = FileEnumerator::new(context, &self.paths, self.watch, self.cut());
        Ok(Some(Enumerator::new(files)))
    }

    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<String, FileSplit>>> {
        Ok(Box::new(FileReader {
            context: context.clone(),
            open: Arc::new(|split, fine| Ok(Box::new(Lines::open(split, fine)?))),
            on_malformed: self.on_malformed,
            rate: self.rate,
            started: None,
        }))
    }

    fn validate(&self) -> Result<()> {
        self.rate.check().kind(ErrorKind::Configuration)?;
        self.rate.check_watched(self.watch.is_some()).kind(ErrorKind::Configuration)?;
        self.splits().kind(ErrorKind::Configuration).map(drop)
    }
}

struct Lines {
    input: Input,
    line: Vec<u8>,
}

impl Lines {
    fn open(split: &mut FileSplit, fine: bool) -> Result<Self, ConnectorError> {
        if split.start == 0 || split.next > split.start {
            return Ok(Self { input: open(split, split.next, fine)?, line: Vec::new() });
        }
        // the line that the range begins in is the range's only if it starts here: look at the byte before
        let input = open(split, split.start - 1, fine)?;
        let mut lines = Self { input, line: Vec::new() };
        split.next = split.start - 1 + lines.read(split)?;
        Ok(lines)
    }

    fn read(&mut self, split: &FileSplit) -> Result<u64, ConnectorError> {
        self.line.clear();
        let read = self.input.bytes.read_until(b'\n', &mut self.line);
        Ok(read.map_err(ConnectorError::read(&split.path))? as u64)
    }
}

impl Rows<String> for Lines {
    fn next(&mut self, split: &mut FileSplit) -> Result<Option<Result<String, Malformed>>, ConnectorError> {
        let byte = split.next;
        if byte >= split.end {
            return Ok(None);
        }
        let read = self.read(split)?;
        if read == 0 {
            return Ok(None);
        }
        split.next += read;
        split.lines += 1;
        let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        Ok(Some(match std::str::from_utf8(text) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => {
                let why = format!("the line is not UTF-8: byte {} of it is wrong", error.valid_up_to());
                Err(Malformed::new(split, split.lines, byte, text, why))
            }
        }))
    }

    fn raw(&self) -> u64 {
        self.input.raw.get()
    }
}
