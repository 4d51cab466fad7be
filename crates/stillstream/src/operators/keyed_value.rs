//! The fast path: one value for each key, changed in place, by batch and with prefetch.

use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_runtime::backends::{KeyedStateBackend, KeyedValue};
use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output};
use stillstream_state::{Data, Key, KeyedBackend, KeyedValues, StateError};
use stillstream_types::{CheckpointId, Error, ErrorKind, Result, SnapshotForm};

use super::in_order::InOrder;
use super::keyed_state::{checkpoint_notices, freeze, open_keyed};
use super::records::KeysOf;

/// What is done with a record and the value of its key.
pub(crate) trait Step<T, V, U>: Send + Sync + 'static {
    fn init(&self) -> V;
    fn step(&self, value: &mut V, record: T) -> U;
}

/// A closure over a state that starts as `V::default()`.
pub(crate) struct FromDefault<F>(pub F);

impl<T, V: Default, U, F: Fn(&mut V, T) -> U + Send + Sync + 'static> Step<T, V, U> for FromDefault<F> {
    #[inline(always)]
    fn init(&self) -> V {
        V::default()
    }
    #[inline(always)]
    fn step(&self, value: &mut V, record: T) -> U {
        (self.0)(value, record)
    }
}

/// A value and where it was opened.
struct Opened<K: Key, V: Data> {
    backend: KeyedStateBackend<K>,
    value: KeyedValue<K, V>,
    name: Arc<str>,
}

/// Makes the records that go on of what the steps of a batch made, or finds the first error among it.
pub(crate) type Settle<U, R> = fn(Vec<U>) -> Result<Vec<R>>;

/// `F` makes a `U` of each record, and `R` goes on.
pub(crate) struct KeyedValueOperator<T, S: KeySelector<T>, V: Data, U, R, F> {
    state: Arc<str>,
    selector: Arc<S>,
    step: Arc<F>,
    settle: Settle<U, R>,
    opened: Option<Opened<S::Key, V>>,
    types: PhantomData<fn(T) -> U>,
}

impl<T, S: KeySelector<T>, V: Data, U, R, F> KeyedValueOperator<T, S, V, U, R, F> {
    pub fn new(state: Arc<str>, selector: Arc<S>, step: Arc<F>, settle: Settle<U, R>) -> Self {
        Self { state, selector, step, settle, opened: None, types: PhantomData }
    }
}

impl<T, S, V, U, R, F> Operator for KeyedValueOperator<T, S, V, U, R, F>
where
    T: Data,
    S: KeySelector<T>,
    V: Data,
    U: 'static,
    R: Data,
    F: Step<T, V, U>,
{
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let mut backend = open_keyed::<S::Key>(context)?;
        let value = backend.keyed_value::<V>(&self.state).map_err(StateError::into_error)?;
        self.opened = Some(Opened { backend, value, name: context.name.clone() });
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let Some(opened) = &self.opened else {
            return Err(Error::new(ErrorKind::Plan, "the operator is not open"));
        };
        let Batch { values, times, hashes } = batch.take::<T>()?;
        if hashes.len() != values.len() {
            return Err(Error::new(ErrorKind::Plan, "a keyed operator got records without key hashes"));
        }
        let (step, selector) = (&*self.step, &*self.selector);
        let mut results: Vec<U> = Vec::with_capacity(values.len());
        let updated = if std::mem::needs_drop::<T>() {
            let records = InOrder::new(values, selector);
            let each = |_, value: &mut V| {
                if let Some(record) = records.take() {
                    results.push(step.step(value, record));
                }
            };
            opened.value.update_batch(&hashes, &records, || step.init(), each)
        } else {
            let records = &values[..];
            let keys = KeysOf { records, selector };
            // written where they belong, without a look at the capacity for each
            let (mut room, mut done) = (results.spare_capacity_mut().iter_mut(), 0);
            let each = |i: usize, value: &mut V| {
                if let Some(place) = room.next() {
                    place.write(step.step(value, records[i].clone()));
                    done += 1;
                }
            };
            let updated = opened.value.update_batch(&hashes, &keys, || step.init(), each);
            // SAFETY: the first `done` places of the room, which begins behind the empty vector's end, have
            // been written
            unsafe { results.set_len(done) };
            updated
        };
        updated.map_err(StateError::into_error)?;
        out.batch(Batch::timed((self.settle)(results)?, times));
        Ok(())
    }

    fn snapshot(&mut self, id: CheckpointId, form: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        let Some(opened) = &mut self.opened else { return Ok(None) };
        freeze(&mut opened.backend, None, &opened.name, id, form).map(Some)
    }

    checkpoint_notices!(opened => backend);
}
