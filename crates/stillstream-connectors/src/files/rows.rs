//! The loop of the reading thread: rows of one split after another, in chunks.

use std::sync::Arc;

use stillstream_runtime::Batch;
use stillstream_runtime::connect::{Chunk, ChunkSender};
use stillstream_state::Data;
use stillstream_types::Result;

use super::split::{FileSplit, Malformed, OnMalformed};
use crate::ConnectorError;

/// Rows of one open split.
pub(crate) trait Rows<T> {
    /// The next row, good or bad; moves `split` past it. `None` at the end.
    fn next(&mut self, split: &mut FileSplit) -> Result<Option<Result<T, Malformed>>, ConnectorError>;
    /// Bytes read from disk so far.
    fn raw(&self) -> u64;
}

/// Opens a split where it says; with `fine` in small pieces.
pub(crate) type OpenRows<T> =
    Arc<dyn Fn(&mut FileSplit, bool) -> Result<Box<dyn Rows<T>>, ConnectorError> + Send + Sync>;

/// A chunk is sent when it has this many records or has read this many bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkSize {
    pub records: usize,
    /// Bytes on disk.
    pub raw: u64,
    /// Whether the weight of a chunk is in bytes on disk, and not in records.
    pub by_bytes: bool,
}

/// Most decompressed bytes of a chunk: bounds the memory that waits in the channel when rows are long.
const MOST_BYTES: u64 = 1 << 20;

pub(crate) fn read_splits<T: Data>(
    splits: Vec<(usize, FileSplit)>,
    open: &OpenRows<T>,
    on_malformed: OnMalformed,
    size: ChunkSize,
    chunks: &ChunkSender<T, FileSplit>,
) -> Result<()> {
    for (at, split) in splits.into_iter().filter(|(_, split)| !split.done) {
        let sent = read_split(at, split, open, on_malformed, size, chunks);
        if !sent.map_err(ConnectorError::into_error)? {
            return Ok(()); // nobody takes them any more
        }
    }
    Ok(())
}

fn read_split<T: Data>(
    at: usize,
    mut split: FileSplit,
    open: &OpenRows<T>,
    on_malformed: OnMalformed,
    size: ChunkSize,
    chunks: &ChunkSender<T, FileSplit>,
) -> Result<bool, ConnectorError> {
    let mut rows = open(&mut split, size.by_bytes)?;
    let mut raw_before = 0;
    while !split.done {
        let (mut records, mut malformed) = (Vec::with_capacity(size.records), Vec::new());
        let (mut skipped, from) = (0, split.next);
        while records.len() + malformed.len() < size.records
            && split.next - from < MOST_BYTES
            && rows.raw() - raw_before < size.raw
        {
            match rows.next(&mut split)? {
                Some(Ok(record)) => records.push(record),
                Some(Err(row)) => match on_malformed {
                    OnMalformed::Fail => return Err(row.into_error()),
                    OnMalformed::SkipAndCount => skipped += 1,
                    OnMalformed::SideOutput => malformed.push(row),
                },
                None => {
                    split.done = true;
                    break;
                }
            }
        }
        let raw = rows.raw() - raw_before;
        raw_before += raw;
        let chunk = Chunk {
            split: at,
            position: split.clone(),
            weight: if size.by_bytes { raw } else { (records.len() + malformed.len()) as u64 + skipped },
            records: Batch::new(records),
            side: (!malformed.is_empty()).then(|| Batch::new(malformed).into()),
            skipped,
        };
        if !chunks.send(chunk) {
            return Ok(false);
        }
    }
    Ok(true)
}
