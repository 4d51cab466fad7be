//! One CSV file: its header, its rows, and what is wrong with a row.

use std::cell::RefCell;
use std::rc::Rc;

use csv::{ByteRecord, DeserializeErrorKind, Reader, ReaderBuilder};
use serde::de::DeserializeOwned;

use super::input::open;
use super::row_feed::{Feed, GivenUp, Place, RowFeed, Trouble};
use super::rows::Rows;
use super::split::{FileSplit, Malformed};
use crate::ConnectorError;

/// The longest row if nothing else is said.
const LONGEST_ROW: u64 = 1 << 20;

/// How a file is written.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    pub has_header: bool,
    pub delimiter: u8,
    /// Text of fields that are read as empty.
    pub null: Option<Vec<u8>>,
    /// Bytes of the longest row.
    pub longest_row: u64,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { has_header: true, delimiter: b',', null: None, longest_row: LONGEST_ROW }
    }
}

impl Dialect {
    pub fn check(&self) -> Result<(), ConnectorError> {
        if matches!(self.delimiter, b'\n' | b'\r' | b'"') || !self.delimiter.is_ascii() {
            return Err(ConnectorError::Setting {
                setting: "delimiter",
                found: format!("b'{}'", self.delimiter.escape_ascii()),
                expected: "an ASCII character that is neither a line end nor a quote",
            });
        }
        if self.longest_row == 0 {
            return Err(ConnectorError::Setting {
                setting: "max_row_bytes",
                found: "0".into(),
                expected: "a number above 0",
            });
        }
        Ok(())
    }
}

type CsvReader = Reader<Feed>;

pub(crate) struct CsvRows {
    dialect: Dialect,
    header: Option<ByteRecord>,
    reader: CsvReader,
    feed: Rc<RefCell<RowFeed>>,
    record: ByteRecord,
    /// The byte of the file at which the reader began.
    base: i64,
}

/// A parser of what the feed hands out from now on, and the byte of the file at which it begins.
fn reader(dialect: &Dialect, feed: &Rc<RefCell<RowFeed>>) -> (CsvReader, i64) {
    // the number of fields is checked here and not by the crate, which would take the first row after a
    // restart as the measure
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).delimiter(dialect.delimiter);
    let base = feed.borrow().base();
    (builder.from_reader(Feed(feed.clone())), base)
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
        let feed = |split: &FileSplit, place: Place, fine| {
            let input = open(split, place.byte, fine)?;
            Ok(Rc::new(RefCell::new(RowFeed::new(input, place, dialect.longest_row))))
        };
        let start = Place { byte: 0, lines: 0 };
        let restarts = split.next > 0;
        let mut rows = Self::over(dialect, feed(split, start, fine && !restarts)?);
        if dialect.has_header {
            let mut header = ByteRecord::new();
            rows.feed.borrow_mut().begin_row(0);
            if let Err(error) = rows.reader.read_byte_record(&mut header) {
                return Err(match rows.give_up(split)? {
                    Some(row) => row.into_error(),
                    None => read_error(split, error),
                });
            }
            split.columns = header.len() as u32;
            rows.header = Some(header);
        }
        if restarts {
            let header = rows.header.take();
            rows = Self::over(dialect, feed(split, Place { byte: split.next, lines: split.lines }, fine)?);
            rows.header = header;
        } else {
            // a restart before the first row reads the header again
            split.lines = rows.feed.borrow().place(rows.at()).lines;
        }
        Ok(rows)
    }

    fn over(dialect: &Dialect, feed: Rc<RefCell<RowFeed>>) -> Self {
        let (reader, base) = reader(dialect, &feed);
        Self { dialect: dialect.clone(), header: None, reader, feed, record: ByteRecord::new(), base }
    }

    /// The byte of the file that the parser has come to.
    fn at(&self) -> i64 {
        self.base + self.reader.position().byte() as i64
    }

    /// Gives up a row that does not end, if that is what is wrong, and goes on after its first line.
    fn give_up(&mut self, split: &FileSplit) -> Result<Option<Malformed>, ConnectorError> {
        let mut feed = self.feed.borrow_mut();
        let (byte, line) = feed.row_start();
        let given_up = feed.give_up().map_err(ConnectorError::read(&split.path))?;
        drop(feed);
        let Some(GivenUp { why, text }) = given_up else { return Ok(None) };
        (self.reader, self.base) = reader(&self.dialect, &self.feed);
        let longest = self.dialect.longest_row;
        let why = match why {
            Trouble::OpenAtEnd => {
                "a quote is opened in this line and not closed before the end of the file".into()
            }
            Trouble::OpenTooLong => format!(
                "a quote is opened in this line and not closed within {longest} bytes (`max_row_bytes` lets rows be longer)"
            ),
            Trouble::LineTooLong => {
                format!("the line has more than {longest} bytes (`max_row_bytes` lets rows be longer)")
            }
        };
        Ok(Some(Malformed::new(split, line, byte, text.trim_ascii_end(), why)))
    }

    /// Moves the split to where the parser is.
    fn move_on(&self, split: &mut FileSplit) {
        let Place { byte, lines } = self.feed.borrow().place(self.at());
        (split.next, split.lines) = (byte, lines);
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
        let at = self.at();
        self.feed.borrow_mut().begin_row(at);
        let read = match self.reader.read_byte_record(&mut self.record) {
            Ok(read) => read,
            Err(error) => match self.give_up(split)? {
                Some(row) => {
                    self.move_on(split);
                    return Ok(Some(Err(row)));
                }
                None => return Err(read_error(split, error)),
            },
        };
        self.move_on(split);
        if !read {
            return Ok(None);
        }
        if let Some(null) = &self.dialect.null
            && self.record.iter().any(|field| field == null)
        {
            self.record = self.record.iter().map(|f| if f == null { &[][..] } else { f }).collect();
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
            let (byte, line) = self.feed.borrow().row_start();
            Malformed::new(split, line, byte, &self.text(&self.record), why)
        })))
    }

    fn raw(&self) -> u64 {
        self.feed.borrow().raw()
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

    /// All rows as text, bad ones as `line: text: why`, and the same after a restart at each of them.
    fn texts(dialect: &Dialect, content: &str, gzip: bool) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let start = split(&folder, content, gzip);
        let show = |row: Result<(String, String), Malformed>| match row {
            Ok((a, b)) => format!("{a}|{b}"),
            Err(bad) => format!("{}: {}: {}", bad.line.unwrap(), bad.text, bad.error),
        };
        let rest = |mut split: FileSplit| {
            let mut rows = CsvRows::open(dialect, &mut split, false).unwrap();
            let mut all = Vec::new();
            while let Some(row) = Rows::<(String, String)>::next(&mut rows, &mut split).unwrap() {
                all.push(show(row));
            }
            all
        };
        let all = rest(start.clone());
        let mut split = start;
        let mut rows = CsvRows::open(dialect, &mut split, false).unwrap();
        for read in 1..=all.len() {
            Rows::<(String, String)>::next(&mut rows, &mut split).unwrap();
            assert_eq!(rest(split.clone()), all[read..], "after row {read} of {content:?}");
        }
        all
    }

    #[test]
    fn a_quote_that_is_never_closed_costs_its_own_line_and_no_other() {
        let dialect = Dialect { has_header: false, ..Dialect::default() };
        for end in ["", "\n", "\r\n", "\n\n"] {
            for gzip in [false, true] {
                let found = texts(&dialect, &format!("1,a\n2,\"b\n3,c\n\n4,d\n5,e{end}"), gzip);
                let bad =
                    "2: 2,\"b: a quote is opened in this line and not closed before the end of the file";
                assert_eq!(found, ["1|a", bad, "3|c", "4|d", "5|e"], "{end:?}");
            }
        }
        // in the last line, with and without its end; and a quote that belongs to a field's text
        let bad = "2: 2,\"b: a quote is opened in this line and not closed before the end of the file";
        assert_eq!(texts(&dialect, "1,a\n2,\"b\n", false), ["1|a", bad]);
        assert_eq!(texts(&dialect, "1,a\n2,\"b", false), ["1|a", bad]);
        assert_eq!(texts(&dialect, "1,a\n2,5\" pipe", false), ["1|a", "2|5\" pipe"]);
        assert_eq!(texts(&dialect, "1,\"a\n\nb\"\n2,\"c\"", false), ["1|a\n\nb", "2|c"]);
    }

    #[test]
    fn a_row_that_is_longer_than_rows_may_be_is_given_up_after_that_many_bytes() {
        let dialect = Dialect { has_header: false, longest_row: 40, ..Dialect::default() };
        let rows: String = (3..200).map(|n| format!("{n},row\n")).collect();
        let expected = |bad: [&str; 2]| -> Vec<String> {
            let good = (3..200).map(|n| format!("{n}|row"));
            bad.iter().map(|bad| (*bad).to_owned()).chain(good).collect()
        };
        // the quote is closed in the end, so that the parser would take all of it for one field
        let why =
            "is opened in this line and not closed within 40 bytes (`max_row_bytes` lets rows be longer)";
        let found = texts(&dialect, &format!("1,a\n2,\"b\n{rows}200,c\"\n"), false);
        assert_eq!(found[..199], expected(["1|a", &format!("2: 2,\"b: a quote {why}")]));
        assert_eq!(found[199..], ["200|c\""]);

        let long = "x".repeat(1000);
        let found = texts(&dialect, &format!("1,a\n2,{long}\n{rows}"), false);
        assert!(found[1].contains("the line has more than 40 bytes"), "{}", found[1]);
        assert_eq!((found.len(), &found[2..]), (199, &expected(["", ""])[2..]));

        // a long line inside quotes is a row of its own, and so is what follows it
        let found = texts(&dialect, &format!("1,a\n2,\"b\nc,{long}\n{rows}"), false);
        assert!(found[1].starts_with("2: 2,\"b: a quote") && found[2].starts_with("3: c,xxx"), "{found:?}");
        assert_eq!((found.len(), &found[3..]), (200, &expected(["", ""])[2..]));
    }

    #[test]
    fn lines_may_end_with_a_carriage_return_alone() {
        let dialect = Dialect { has_header: false, ..Dialect::default() };
        assert_eq!(texts(&dialect, "1,a\r2,b\r\r3,c\n4,d\r5,e", false), ["1|a", "2|b", "3|c", "4|d", "5|e"]);
        let found = texts(&dialect, "1,a\r2,\"b", false);
        assert_eq!((found.len(), &*found[0]), (2, "1|a"));
        assert!(found[1].contains("a quote is opened"), "{found:?}");
    }

    #[test]
    fn a_byte_order_mark_inside_a_file_is_text_also_after_a_restart() {
        let dialect = Dialect { has_header: false, ..Dialect::default() };
        for gzip in [false, true] {
            let found = texts(&dialect, "\u{feff}1,2\n\u{feff}3,4\n5,6\n", gzip);
            assert_eq!(found, ["1|2", "\u{feff}3|4", "5|6"]);
            let found = texts(&dialect, "\u{feff}1,2\n3,\"4\n\u{feff}5,6\n", gzip);
            assert_eq!((found.len(), &*found[2]), (3, "\u{feff}5|6"), "also after a row that was given up");
        }
    }

    #[test]
    fn a_delimiter_that_ends_lines_or_quotes_is_refused_before_the_start() {
        for delimiter in [b'\n', b'\r', b'"', 0xc3] {
            let source = CsvSource::<Row>::new("x.csv").delimiter(delimiter);
            let error = source.validate().unwrap_err();
            assert_eq!(error.kind(), stillstream_types::ErrorKind::Configuration);
            let shown = format!("b'{}'", delimiter.escape_ascii());
            assert!(error.to_string().contains(&format!("delimiter is {shown}")), "{error}");
        }
        let error = CsvSource::<Row>::new("x.csv").max_row_bytes(0).validate().unwrap_err().to_string();
        assert!(error.contains("max_row_bytes is 0"), "{error}");
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
