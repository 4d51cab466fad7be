//! One CSV file: its header, its rows, and what is wrong with a row.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;

use csv::{ByteRecord, DeserializeErrorKind, Reader, ReaderBuilder};
use serde::de::DeserializeOwned;

use super::input::{Input, open};
use super::rows::Rows;
use super::split::{FileSplit, Malformed};
use crate::ConnectorError;

/// How a file is written.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    pub has_header: bool,
    pub delimiter: u8,
    /// Text of fields that are read as empty.
    pub null: Option<Vec<u8>>,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { has_header: true, delimiter: b',', null: None }
    }
}

/// Where the line ends are among the bytes that were read and not yet parsed. The crate's own line numbers leave out line
/// ends in quoted fields.
#[derive(Clone, Default)]
struct LineEnds(Rc<RefCell<VecDeque<u64>>>);

struct Noting<R> {
    inner: R,
    at: u64,
    ends: LineEnds,
}

impl<R: Read> Read for Noting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let mut ends = self.ends.0.borrow_mut();
        let at = self.at;
        let found = buffer[..read].iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        ends.extend(found.map(|(offset, _)| at + offset as u64));
        self.at += read as u64;
        Ok(read)
    }
}

impl LineEnds {
    /// Forgets those before byte `at`: how many there were, and whether the last of them is just before it.
    fn pass(&self, at: u64) -> (u64, bool) {
        let mut ends = self.0.borrow_mut();
        let (mut count, mut last) = (0, None);
        while ends.front().is_some_and(|end| *end < at) {
            last = ends.pop_front();
            count += 1;
        }
        (count, last.is_some_and(|end| end + 1 == at))
    }
}

type CsvReader = Reader<Noting<Input>>;

pub(crate) struct CsvRows {
    dialect: Dialect,
    header: Option<ByteRecord>,
    reader: CsvReader,
    line_ends: LineEnds,
    record: ByteRecord,
    raw: Rc<Cell<u64>>,
    /// The byte of the file at which the reader began.
    base: u64,
}

fn reader(dialect: &Dialect, input: Input) -> (CsvReader, LineEnds) {
    // the number of fields is checked here and not by the crate, which would take the first row after a restart as the measure
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).delimiter(dialect.delimiter);
    let ends = LineEnds::default();
    (builder.from_reader(Noting { inner: input, at: 0, ends: ends.clone() }), ends)
}

fn read_error(split: &FileSplit, error: csv::Error) -> ConnectorError {
    let source = match error.into_kind() {
        csv::ErrorKind::Io(source) => source,
        other => std::io::Error::other(format!("{other:?}")),
    };
    ConnectorError::Read { path: split.path.clone().into(), source }
}

impl CsvRows {
    pub fn open(dialect: &Dialect, split: &mut FileSplit, fine: bool) -> Result<Self, ConnectorError> {
        let input = open(split, 0, fine && split.next == 0)?;
        let mut raw = input.raw.clone();
        let (mut from_start, mut line_ends) = reader(dialect, input);
        let header = if dialect.has_header {
            let mut header = ByteRecord::new();
            from_start.read_byte_record(&mut header).map_err(|error| read_error(split, error))?;
            split.columns = header.len() as u32;
            Some(header)
        } else {
            None
        };
        let base = split.next;
        if split.next > 0 {
            let input = open(split, split.next, fine)?;
            raw = input.raw.clone();
            (from_start, line_ends) = reader(dialect, input);
        } else {
            // a restart before the first row reads the header again
            split.lines = line_ends.pass(from_start.position().byte()).0;
        }
        let (dialect, record) = (dialect.clone(), ByteRecord::new());
        Ok(Self { dialect, header, reader: from_start, line_ends, record, raw, base })
    }

    fn name(&self, column: usize) -> String {
        let name = self.header.as_ref().and_then(|header| header.get(column));
        let name = name.map(|name| format!(" `{}`", String::from_utf8_lossy(name)));
        format!("column {}{}", column + 1, name.unwrap_or_default())
    }

    fn text(&self, record: &ByteRecord) -> Vec<u8> {
        record.iter().collect::<Vec<_>>().join(&self.dialect.delimiter)
    }

    /// What is wrong with the row, or the file's fault if it is.
    fn explain(&self, split: &FileSplit, error: csv::Error) -> Result<String, ConnectorError> {
        let csv::ErrorKind::Deserialize { err, .. } = error.kind() else { return Ok(error.to_string()) };
        if let (DeserializeErrorKind::Message(why), Some(header)) = (err.kind(), &self.header)
            && why.starts_with("missing field")
        {
            // rows have as many fields as the header: every row would fail, so it is no matter of this row
            let columns: Vec<_> =
                header.iter().map(|name| format!("`{}`", String::from_utf8_lossy(name))).collect();
            return Err(ConnectorError::Column {
                path: split.path.clone(),
                why: why.clone(),
                columns: columns.join(", "),
            });
        }
        Ok(match err.field() {
            Some(column) => {
                let value = self.record.get(column as usize).unwrap_or_default();
                let value = String::from_utf8_lossy(&value[..value.len().min(80)]);
                format!("{}: {} in `{value}`", self.name(column as usize), err.kind())
            }
            None => err.kind().to_string(),
        })
    }
}

impl<T: DeserializeOwned> Rows<T> for CsvRows {
    fn next(&mut self, split: &mut FileSplit) -> Result<Option<Result<T, Malformed>>, ConnectorError> {
        let read =
            self.reader.read_byte_record(&mut self.record).map_err(|error| read_error(split, error))?;
        let position = self.reader.position();
        let (lines, ended) = self.line_ends.pass(position.byte());
        split.next = self.base + position.byte();
        split.lines += lines;
        if !read {
            return Ok(None);
        }
        if let Some(null) = &self.dialect.null
            && self.record.iter().any(|field| field == null)
        {
            let position = self.record.position().cloned();
            self.record = self.record.iter().map(|f| if f == null { &[][..] } else { f }).collect();
            self.record.set_position(position);
        }
        let fields = self.record.len();
        if split.columns == 0 {
            split.columns = fields as u32;
        }
        let result = if fields != split.columns as usize {
            let measure = if self.header.is_some() { "the header" } else { "the first row" };
            Err(format!("the row has {fields} fields, {measure} has {}", split.columns))
        } else {
            match self.record.deserialize(self.header.as_ref()) {
                Ok(row) => Ok(row),
                Err(error) => Err(self.explain(split, error)?),
            }
        };
        Ok(Some(result.map_err(|why| {
            let text = self.text(&self.record);
            let within = text.iter().filter(|byte| **byte == b'\n').count() as u64 + u64::from(ended);
            let byte = self.base + self.record.position().map_or(0, |at| at.byte());
            Malformed::new(split, split.lines.saturating_sub(within) + 1, byte, &text, why)
        })))
    }

    fn raw(&self) -> u64 {
        self.raw.get()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::files::CsvSource;
    use stillstream_runtime::connect::SplitSource;

    type Row = (u32, String, Option<i32>);

    fn split(folder: &tempfile::TempDir, content: &str, gzip: bool) -> FileSplit {
        let path = folder.path().join(if gzip { "a.csv.gz" } else { "a.csv" });
        let mut file = std::fs::File::create(&path).unwrap();
        if gzip {
            // two members, as `cat a.gz b.gz` makes them
            let (one, two) = content.as_bytes().split_at(content.len() / 2);
            for part in [one, two] {
                let mut encoder = flate2::write::GzEncoder::new(&mut file, flate2::Compression::fast());
                encoder.write_all(part).unwrap();
                encoder.finish().unwrap();
            }
        } else {
            file.write_all(content.as_bytes()).unwrap();
        }
        CsvSource::<Row>::new(&path).splits().unwrap().remove(0)
    }

    fn rest(dialect: &Dialect, split: &FileSplit) -> Vec<(Option<u64>, Result<Row, Malformed>)> {
        let mut split = split.clone();
        let mut rows = CsvRows::open(dialect, &mut split, false).unwrap();
        let mut all = Vec::new();
        while let Some(row) = Rows::<Row>::next(&mut rows, &mut split).unwrap() {
            all.push((split.line(split.lines), row));
        }
        all
    }

    #[test]
    fn reading_can_go_on_after_any_row() {
        let header = "n,text,maybe\n";
        let body =
            "1,a,5\n2,\"two\nlines, \"\"quoted\"\"\",\n\n3,,7\n4,wrong,x\n5,short\n6,\u{e9},NA\n7,last,1";
        let folder = tempfile::tempdir().unwrap();
        for (bom, has_header, crlf, gzip) in
            (0..16).map(|bits| (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0, bits & 8 > 0))
        {
            let content = format!(
                "{}{}{body}",
                if bom { "\u{feff}" } else { "" },
                if has_header { header } else { "" }
            );
            let content = if crlf { content.replace('\n', "\r\n") } else { content };
            let dialect = Dialect { has_header, null: Some(b"NA".into()), ..Dialect::default() };
            let start = split(&folder, &content, gzip);
            let all = rest(&dialect, &start);
            let bad: Vec<_> = all.iter().filter_map(|(_, row)| row.as_ref().err()).collect();
            assert_eq!((all.len(), bad.len()), (7, 2), "{content:?}: {all:?}");
            assert_eq!(bad[1].line, Some(if has_header { 8 } else { 7 }), "{bad:?}");
            assert_eq!(all[5].1.as_ref().unwrap(), &(6, "\u{e9}".to_owned(), None));

            let mut split = start.clone();
            let mut rows = CsvRows::open(&dialect, &mut split, true).unwrap();
            for read in 1..=all.len() {
                Rows::<Row>::next(&mut rows, &mut split).unwrap();
                assert_eq!(rest(&dialect, &split), all[read..], "after row {read} of {content:?}");
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_row_is_said_with_its_column_and_place() {
        let folder = tempfile::tempdir().unwrap();
        let start = split(&folder, "n,text,maybe\n1,a,5\n2,b,much\n3,c\n", false);
        let errors: Vec<String> = rest(&Dialect::default(), &start)
            .into_iter()
            .filter_map(|(_, row)| Some(row.err()?.into_error().to_string()))
            .collect();
        for part in ["a.csv` line 3 (byte 19)", "column 3 `maybe`: invalid digit", "in `much`", "`2,b,much`"]
        {
            assert!(errors[0].contains(part), "{part} in {}", errors[0]);
        }
        assert!(errors[1].contains("line 4") && errors[1].contains("the row has 2 fields, the header has 3"));
    }

    #[test]
    fn a_column_that_the_file_does_not_have_is_an_error_of_the_file_under_any_policy() {
        #[derive(serde::Deserialize, Debug)]
        #[expect(dead_code, reason = "it is never read: the point is that it can't be")]
        struct Wanted {
            other: u32,
        }
        let folder = tempfile::tempdir().unwrap();
        let mut split = split(&folder, "n,text,maybe\n1,a,5\n", false);
        let mut rows = CsvRows::open(&Dialect::default(), &mut split, false).unwrap();
        let error = Rows::<Wanted>::next(&mut rows, &mut split).unwrap_err().to_string();
        assert!(error.contains("missing field `other`") && error.contains("`n`, `text`, `maybe`"), "{error}");
    }
}
