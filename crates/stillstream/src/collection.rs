//! A source of records that the program has at hand.

use std::sync::Arc;

use stillstream_runtime::connect::{SourceContext, SplitReader, SplitSource};
use stillstream_runtime::{Batch, SourceStatus};
use stillstream_state::Data;
use stillstream_types::{Error, ErrorKind, Result};

/// One split, whose position is the index of the next record.
pub(crate) struct Collection<T>(Arc<[T]>);

impl<T> Collection<T> {
    pub fn new(records: impl IntoIterator<Item = T>) -> Self {
        Self(records.into_iter().collect())
    }
}

impl<T: Data> SplitSource for Collection<T> {
    type Item = T;
    type Split = u64;

    fn splits(&self) -> Result<Vec<u64>> {
        Ok(vec![0])
    }

    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<T, u64>>> {
        Ok(Box::new(Reader { records: self.0.clone(), next: Vec::new() }))
    }
}

struct Reader<T> {
    records: Arc<[T]>,
    /// At most one: the subtask may have no split.
    next: Vec<u64>,
}

impl<T: Data> SplitReader<T, u64> for Reader<T> {
    fn assign(&mut self, splits: Vec<u64>) -> Result<()> {
        if let Some(read) = splits.iter().find(|read| **read > self.records.len() as u64) {
            // a restart of this program would find the same collection
            return Err(Error::new(
                ErrorKind::Plan,
                format!(
                    "the collection has {} records, but {read} were read before the restart: it must hold the same records \
                     each time the program is started",
                    self.records.len()
                ),
            ));
        }
        self.next = splits;
        Ok(())
    }

    fn poll(&mut self, max_records: usize, out: &mut Batch<T>) -> Result<SourceStatus> {
        let Some(next) = self.next.first_mut() else { return Ok(SourceStatus::Ended) };
        let from = *next as usize;
        let until = self.records.len().min(from.saturating_add(max_records));
        out.values.extend_from_slice(&self.records[from..until]);
        *next = until as u64;
        Ok(if until == self.records.len() { SourceStatus::Ended } else { SourceStatus::More })
    }

    fn positions(&self) -> Vec<u64> {
        self.next.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(at: u64) -> Result<Box<dyn SplitReader<u32, u64>>> {
        let mut reader = Collection::new(0..5u32).reader(&SourceContext::for_test("c", 0, 1))?;
        reader.assign(vec![at])?;
        Ok(reader)
    }

    #[test]
    fn a_restored_reader_goes_on_where_it_stopped() {
        let mut first = reader(0).unwrap();
        let mut out = Batch::default();
        assert_eq!(first.poll(3, &mut out).unwrap(), SourceStatus::More);
        let mut second = reader(first.positions()[0]).unwrap();
        assert_eq!(second.poll(9, &mut out).unwrap(), SourceStatus::Ended);
        assert_eq!(out.values, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_collection_that_has_become_shorter_is_refused() {
        let error = reader(6).err().unwrap();
        assert!(error.is_fatal(), "no restart mends it");
        let error = error.to_string();
        assert!(error.contains("5 records") && error.contains("6 were read"), "{error}");
    }
}
