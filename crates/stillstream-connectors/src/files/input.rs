//! Opening a file at a position, compressed or not.

use std::cell::Cell;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use flate2::read::MultiGzDecoder;

use super::paths::open_file;
use super::split::FileSplit;
use crate::ConnectorError;

const BUFFER: usize = 64 * 1024;

/// Counts what is read from disk.
struct Counting<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

/// An open file; its bytes are decompressed.
pub(crate) struct Input {
    pub bytes: BufReader<Box<dyn Read>>,
    /// Bytes read from disk so far.
    pub raw: Rc<Cell<u64>>,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer)
    }
}

/// Opens the split's file at byte `at`. A compressed file is decompressed up to there: there is no way to
/// jump.
///
/// With `fine` small pieces are read, so that [`Input::raw`] follows closely what was decompressed.
pub(crate) fn open(split: &FileSplit, at: u64, fine: bool) -> Result<Input, ConnectorError> {
    let read_error = |error| ConnectorError::read(&split.path)(error);
    let mut file = open_file(Path::new(&split.path))?;
    let raw = Rc::new(Cell::new(0));
    if !split.gzip {
        let found = file.metadata().map_err(read_error)?.len();
        if found < at {
            return Err(ConnectorError::FileShrank { path: split.path.clone(), expected: at, found });
        }
        file.seek(SeekFrom::Start(at)).map_err(read_error)?;
        let counting = Counting { inner: file, count: raw.clone() };
        return Ok(Input { bytes: BufReader::with_capacity(BUFFER, Box::new(counting)), raw });
    }
    let counting = Counting { inner: file, count: raw.clone() };
    let pieces = BufReader::with_capacity(if fine { 1024 } else { BUFFER }, counting);
    let mut decoder = MultiGzDecoder::new(pieces);
    let skipped = io::copy(&mut decoder.by_ref().take(at), &mut io::sink()).map_err(read_error)?;
    if skipped < at {
        return Err(ConnectorError::FileShrank { path: split.path.clone(), expected: at, found: skipped });
    }
    raw.set(0);
    Ok(Input { bytes: BufReader::with_capacity(if fine { 4096 } else { BUFFER }, Box::new(decoder)), raw })
}
