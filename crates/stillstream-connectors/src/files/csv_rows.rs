//! One CSV file: its header, its rows, and what is wrong with a row.

use std::cell::Cell;
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

type Bytes = Box<dyn std::io::Read>;

pub(crate) struct CsvRows {
    dialect: Dialect,
    header: Option<ByteRecord>,
    reader: Reader<Bytes>,
    record: ByteRecord,
    raw: Rc<Cell<u64>>,
    /// Where the reader began in the file: byte, and lines before it.
    base: (u64, u64),
}

fn reader(dialect: &Dialect, input: Input) -> Reader<Bytes> {
    // the number of fields is checked here and not by the crate, which would take the first row after a restart as the measure
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).delimiter(dialect.delimiter);
    builder.from_reader(Box::new(input.bytes))
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
        let mut from_start = reader(dialect, input);
        let header = if dialect.has_header {
            let mut header = ByteRecord::new();
            from_start.read_byte_record(&mut header).map_err(|error| read_error(split, error))?;
            split.columns = header.len() as u32;
            Some(header)
        } else {
            None
        };
        let mut base = (0, 0);
        if split.next > 0 {
            base = (split.next, split.lines);
            let input = open(split, split.next, fine)?;
            raw = input.raw.clone();
            from_start = reader(dialect, input);
        }
        let (dialect, record) = (dialect.clone(), ByteRecord::new());
        Ok(Self { dialect, header, reader: from_start, record, raw, base })
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
        split.next = self.base.0 + position.byte();
        split.lines = self.base.1 + position.line().saturating_sub(1);
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
            let at = self.record.position();
            let (byte, line) = at.map_or((0, 1), |at| (at.byte(), at.line()));
            let text = self.text(&self.record);
            Malformed::new(split, self.base.1 + line, self.base.0 + byte, &text, why)
        })))
    }

    fn raw(&self) -> u64 {
        self.raw.get()
    }
}
