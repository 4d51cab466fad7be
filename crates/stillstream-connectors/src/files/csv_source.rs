//! [`CsvSource`]: typed rows of CSV files.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use stillstream_runtime::connect::{Enumerator, EnumeratorContext, SourceContext, SplitReader, SplitSource};
use stillstream_state::Data;
use stillstream_types::{ErrorKind, Result, ResultExt};

use super::csv_rows::{CsvRows, Dialect};
use super::enumerator::{Cut, FileEnumerator};
use super::paths::{Found, IntoPaths, find};
use super::reader::FileReader;
use super::split::{FileSplit, OnMalformed};
use crate::ConnectorError;
use crate::pace::Rate;

/// Reads CSV files; each row becomes a `T` by `serde`: by column name where there is a header, else by
/// position. Files ending in `.gz`, or that begin like gzip, are decompressed.
///
/// A quote that is never closed takes no other rows with it: a row that is still inside quotes after
/// [`max_row_bytes`](Self::max_row_bytes) or at the end of the file is malformed, and what follows its first
/// line is read as rows of their own.
///
/// Positions are byte offsets of rows, so a restart goes on with exactly the next row (a compressed file is
/// decompressed up to there). A file is one split, as a quoted field may hold line ends. The files are listed
/// when the job starts for the first time, and a restored job reads the files of its checkpoint; or files are
/// looked for again and again ([`watch`](Self::watch)).
///
/// ```
/// use stillstream_connectors::{CsvSource, OnMalformed};
/// #[derive(Clone, serde::Deserialize, stillstream_state::Data)]
/// # #[data(crate = stillstream_state)]
/// struct Flight {
///     carrier: String,
///     dep_delay: Option<i32>, // an empty field is `None`
/// }
/// let flights = CsvSource::<Flight>::new("flights.csv.gz")
///     .null("NA")
///     .on_malformed(OnMalformed::SkipAndCount);
/// # fn check(_: impl stillstream_runtime::connect::SplitSource<Item = Flight>) {}
/// # check(flights);
/// ```
pub struct CsvSource<T> {
    paths: Vec<PathBuf>,
    dialect: Dialect,
    on_malformed: OnMalformed,
    rate: Rate,
    watch: Option<Duration>,
    rows: PhantomData<fn() -> T>,
}

impl<T> Clone for CsvSource<T> {
    fn clone(&self) -> Self {
        Self { paths: self.paths.clone(), dialect: self.dialect.clone(), ..*self }
    }
}

impl<T> fmt::Debug for CsvSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvSource").field("paths", &self.paths).field("dialect", &self.dialect).finish()
    }
}

impl<T> CsvSource<T> {
    /// Reads these files, which begin with a header; a folder stands for the files in it, sorted by name.
    pub fn new(paths: impl IntoPaths) -> Self {
        Self {
            paths: paths.into_paths(),
            dialect: Dialect::default(),
            on_malformed: OnMalformed::Fail,
            rate: Rate::Unlimited,
            watch: None,
            rows: PhantomData,
        }
    }

    /// Whether each file begins with a header, which names the columns (`true` if not said). Without one,
    /// `T`'s fields are the columns in their order.
    pub fn has_header(mut self, has_header: bool) -> Self {
        self.dialect.has_header = has_header;
        self
    }

    /// What separates fields (`,` if not said).
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.dialect.delimiter = delimiter;
        self
    }

    /// A row has at most this many bytes, quoted line ends included. Default: 1 MiB.
    pub fn max_row_bytes(mut self, bytes: u64) -> Self {
        self.dialect.longest_row = bytes;
        self
    }

    /// Reads fields of this text as empty, so that they become `None`.
    pub fn null(mut self, text: impl Into<String>) -> Self {
        self.dialect.null = Some(text.into().into_bytes());
        self
    }

    /// What happens to rows that do not fit `T`.
    pub fn on_malformed(mut self, policy: OnMalformed) -> Self {
        self.on_malformed = policy;
        self
    }

    /// Emits `rate` rows per second over all subtasks together.
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

    /// Reads at the speed at which each subtask's files take about this long together: a recorded day can be
    /// replayed in a minute.
    pub fn spread_over(mut self, duration: Duration) -> Self {
        self.rate = Rate::SpreadOver(duration);
        self
    }
}

impl<T> CsvSource<T> {
    fn cut(&self) -> Cut {
        let watched = self.watch.is_some();
        Arc::new(move |found: Vec<Found>| {
            let of = if watched { u32::MAX } else { found.len() as u32 };
            let split = |file: Found| FileSplit {
                path: file.path,
                gzip: file.gzip,
                start: 0,
                end: u64::MAX,
                next: 0,
                lines: 0,
                columns: 0,
                done: false,
                bytes: file.bytes,
                of,
            };
            found.into_iter().map(split).collect()
        })
    }
}

impl<T: Data + DeserializeOwned> SplitSource for CsvSource<T> {
    type Item = T;
    type Split = FileSplit;

    fn splits(&self) -> Result<Vec<FileSplit>> {
        let found = find(&self.paths, self.watch.is_some()).map_err(ConnectorError::into_error)?;
        Ok(self.cut()(found))
    }

    fn enumerator(&self, context: &EnumeratorContext) -> Result<Option<Enumerator<FileSplit>>> {
        let files = FileEnumerator::new(context, &self.paths, self.watch, self.cut());
        Ok(Some(Enumerator::new(files)))
    }

    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<T, FileSplit>>> {
        let dialect = self.dialect.clone();
        Ok(Box::new(FileReader {
            context: context.clone(),
            open: Arc::new(move |split, fine| Ok(Box::new(CsvRows::open(&dialect, split, fine)?))),
            on_malformed: self.on_malformed,
            rate: self.rate,
            started: None,
        }))
    }

    fn validate(&self) -> Result<()> {
        self.dialect.check().kind(ErrorKind::Configuration)?;
        self.rate.check().kind(ErrorKind::Configuration)?;
        self.rate.check_watched(self.watch.is_some()).kind(ErrorKind::Configuration)?;
        self.splits().kind(ErrorKind::Configuration).map(drop)
    }
}
