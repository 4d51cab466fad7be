//! From an enumerator with types to one of bytes, which the runtime runs.

use std::sync::Arc;
use std::time::Duration;

use stillstream_state::{Compatibility, Data, DecodeError, Schema};
use stillstream_types::{Error, ErrorKind, Result, SubtaskIndex};

use super::enumerator::{Assignments, Enumerator, SplitEnumerator};
use super::list_state::{RestoredList, restored_list};
use super::source::SplitSource;
use super::source_operator::SPLITS;
use crate::operator::enumeration::{Enumerate, EnumeratorContext, EnumeratorFactory, Found, RestoredSplits};

/// The first byte of an enumerator's state: the version of its form. Then the schema of the state's type with
/// its length, and the state.
const STATE_VERSION: u8 = 1;

/// A [`SplitEnumerator`] whose state is bytes.
pub(crate) trait Erased<S>: Send {
    fn restore(&mut self, state: Option<&[u8]>, held: Vec<S>) -> Result<()>;
    fn discover(&mut self, assignments: &mut Assignments<S>) -> Result<Option<Duration>>;
    fn requested(&mut self, reader: SubtaskIndex, assignments: &mut Assignments<S>) -> Result<()>;
    fn state(&self) -> Vec<u8>;
}

pub(crate) struct Typed<E>(pub E);

impl<E: SplitEnumerator> Erased<E::Split> for Typed<E> {
    fn restore(&mut self, state: Option<&[u8]>, held: Vec<E::Split>) -> Result<()> {
        let state = state.map(decode_state::<E::State>).transpose()?;
        self.0.restore(state, held)
    }
    fn discover(&mut self, assignments: &mut Assignments<E::Split>) -> Result<Option<Duration>> {
        self.0.discover(assignments)
    }
    fn requested(&mut self, reader: SubtaskIndex, assignments: &mut Assignments<E::Split>) -> Result<()> {
        self.0.requested(reader, assignments)
    }
    fn state(&self) -> Vec<u8> {
        encode_state(&self.0.state())
    }
}

fn encode_state<T: Data>(state: &T) -> Vec<u8> {
    let schema = T::schema().to_bytes();
    let mut bytes = vec![STATE_VERSION];
    (schema.len() as u32).encode(&mut bytes);
    bytes.extend_from_slice(&schema);
    state.encode(&mut bytes);
    bytes
}

/// Why the state of an enumerator cannot be taken up.
fn damaged(why: impl std::fmt::Display) -> Error {
    let text =
        format!("the enumerator's state in the snapshot cannot be read: {why}; restore an older snapshot");
    Error::new(ErrorKind::CorruptSnapshot, text)
}

fn decode_state<T: Data>(bytes: &[u8]) -> Result<T> {
    let (version, mut rest) = bytes.split_first().ok_or_else(|| damaged("it is empty"))?;
    if *version != STATE_VERSION {
        let text = format!(
            "the enumerator's state in the snapshot has version {version}, and this program reads version \
             {STATE_VERSION}: start with the release that wrote it"
        );
        return Err(Error::new(ErrorKind::CorruptSnapshot, text));
    }
    let decoded = |error: DecodeError| damaged(error);
    let len = u32::decode(&mut rest).map_err(decoded)? as usize;
    let (schema, mut rest) = rest.split_at_checked(len).ok_or_else(|| damaged("it ends in its schema"))?;
    let stored = Schema::from_bytes(schema).map_err(decoded)?;
    let ours = T::schema();
    let state = match ours.compatible_with(&stored) {
        Compatibility::Incompatible(why) => {
            let text = format!(
                "the enumerator's state in the snapshot is of another type ({why}): start with the source that wrote \
                 it, or give this one another uid to begin it afresh"
            );
            return Err(Error::new(ErrorKind::Configuration, text));
        }
        Compatibility::AsIs => T::decode(&mut rest).map_err(decoded)?,
        _ => T::decode_evolved(&stored, &mut rest).map_err(decoded)?,
    };
    match rest {
        [] => Ok(state),
        rest => Err(damaged(format!("{} bytes are left over", rest.len()))),
    }
}

/// The enumerator of a source, as the runtime runs it.
struct SourceEnumerator<S: SplitSource> {
    source: Arc<S>,
    inner: Box<dyn Erased<S::Split>>,
    /// How many splits each reader has been given.
    given: Vec<usize>,
}

/// Makes the enumerator of `source`: its own, or one that lists its splits once.
pub fn enumerator_factory<S: SplitSource>(source: Arc<S>) -> EnumeratorFactory {
    EnumeratorFactory::new(move |context: &EnumeratorContext| {
        let enumerator = source.enumerator(context)?;
        let Enumerator(inner) = enumerator.unwrap_or_else(|| {
            let source = source.clone();
            Enumerator::once(move || source.splits())
        });
        let given = vec![0; context.parallelism.max(1) as usize];
        Ok(Box::new(SourceEnumerator { source: source.clone(), inner, given }))
    })
}

impl<S: SplitSource> SourceEnumerator<S> {
    fn readers(&self) -> u32 {
        self.given.len() as u32
    }

    /// Decides who gets what was assigned to nobody in particular.
    fn found(&mut self, assignments: Assignments<S::Split>, again: Option<Duration>) -> Result<Found> {
        let (assigned, no_more) = assignments.into_parts();
        let mut splits = Vec::with_capacity(assigned.len());
        for (reader, split) in assigned {
            let readers = self.readers();
            let reader = reader.or_else(|| self.source.reader_of(&split, readers).map(SubtaskIndex));
            let fewest =
                || self.given.iter().enumerate().min_by_key(|(_, given)| **given).map_or(0, |(at, _)| at);
            let at = reader.map_or_else(fewest, |reader| reader.0 as usize);
            let Some(given) = self.given.get_mut(at) else {
                let text = format!(
                    "the enumerator assigned a split to reader {at} of {readers}: readers are numbered from 0, and their                      number is the source's parallelism (Assignments::readers)"
                );
                return Err(Error::new(ErrorKind::Connector, text));
            };
            *given += 1;
            let mut bytes = Vec::new();
            split.encode(&mut bytes);
            splits.push((SubtaskIndex(at as u32), bytes));
        }
        Ok(Found { splits, no_more, state: self.inner.state(), again })
    }
}

impl<S: SplitSource> Enumerate for SourceEnumerator<S> {
    fn open(&mut self, restored: Option<RestoredSplits>) -> Result<()> {
        let Some(RestoredSplits { state, readers, store }) = restored else { return Ok(()) };
        let held = restored_list::<S::Split>(&readers.operator, &*store, SPLITS)?;
        let held = held.unwrap_or(RestoredList { items: Vec::new(), parts: Vec::new() });
        let readers = self.readers();
        for owner in held.owners(self.given.len(), |split| self.source.reader_of(split, readers)) {
            self.given[owner] += 1;
        }
        if state.is_none() && held.items.is_empty() {
            // it was taken before the first splits were assigned
            return Ok(());
        }
        self.inner.restore(state.as_deref(), held.items)
    }

    fn discover(&mut self) -> Result<Found> {
        let mut assignments = Assignments::new(self.readers());
        let again = self.inner.discover(&mut assignments)?;
        self.found(assignments, again)
    }

    fn requested(&mut self, reader: SubtaskIndex) -> Result<Found> {
        let mut assignments = Assignments::new(self.readers());
        self.inner.requested(reader, &mut assignments)?;
        self.found(assignments, None)
    }
}

#[cfg(test)]
#[path = "enumerator_tests.rs"]
mod tests;
