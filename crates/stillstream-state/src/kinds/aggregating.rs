//! [`AggregatingState`]: an accumulator per key, whose type differs from what goes in and comes out.

use std::fmt;
use std::rc::Rc;

use super::{
    CurrentKey, Keyed, ValueStore,
    value::{read_once, update_once},
};
use crate::{Data, StateError};

/// How inputs become an accumulator, and an accumulator a result (Flink's `AggregateFunction`).
///
/// ```
/// use stillstream_state::Aggregate;
///
/// struct Mean;
/// impl Aggregate for Mean {
///     type In = f64;
///     type Acc = (f64, u64);
///     type Out = f64;
///     fn create(&self) -> (f64, u64) { (0.0, 0) }
///     fn add(&self, acc: &mut (f64, u64), value: f64) { acc.0 += value; acc.1 += 1; }
///     fn merge(&self, acc: &mut (f64, u64), other: (f64, u64)) { acc.0 += other.0; acc.1 += other.1; }
///     fn result(&self, acc: &(f64, u64)) -> f64 { acc.0 / acc.1 as f64 }
/// }
/// ```
pub trait Aggregate: 'static {
    /// What is added.
    type In;
    /// What is kept.
    type Acc: Data;
    /// What is read.
    type Out;

    /// The accumulator of nothing.
    fn create(&self) -> Self::Acc;
    /// Takes one input in.
    fn add(&self, acc: &mut Self::Acc, value: Self::In);
    /// Takes another accumulator in: windows that merge need it.
    fn merge(&self, acc: &mut Self::Acc, other: Self::Acc);
    /// What the accumulator stands for.
    fn result(&self, acc: &Self::Acc) -> Self::Out;
}

/// What a backend offers for an accumulator per key, with the accumulator's type out of sight.
pub(crate) trait AggregatingStore<In, Out> {
    fn add(&self, key: CurrentKey<'_>, value: In) -> Result<(), StateError>;
    fn get(&self, key: CurrentKey<'_>) -> Result<Option<Out>, StateError>;
    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError>;
}

/// An aggregate over a value store.
pub(crate) struct Fold<A: Aggregate> {
    pub(crate) store: Rc<dyn ValueStore<A::Acc>>,
    pub(crate) aggregate: A,
}

impl<A: Aggregate> AggregatingStore<A::In, A::Out> for Fold<A> {
    fn add(&self, key: CurrentKey<'_>, value: A::In) -> Result<(), StateError> {
        update_once(&*self.store, key, || self.aggregate.create(), |acc| self.aggregate.add(acc, value))
    }

    fn get(&self, key: CurrentKey<'_>) -> Result<Option<A::Out>, StateError> {
        read_once(&*self.store, key, |acc| acc.map(|acc| self.aggregate.result(acc)))
    }

    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError> {
        self.store.clear(key)
    }
}

/// An accumulator per key.
pub struct AggregatingState<In, Out>(Rc<dyn AggregatingStore<In, Out>>);

impl<In, Out> AggregatingState<In, Out> {
    pub(crate) fn new(store: Rc<dyn AggregatingStore<In, Out>>) -> Self {
        Self(store)
    }

    /// Takes one input into the key's accumulator.
    pub fn add<C: Keyed + ?Sized>(&self, ctx: &C, value: In) -> Result<(), StateError> {
        self.0.add(ctx.current_key(), value)
    }

    /// The result for the key; `None` if nothing was added.
    pub fn get<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<Option<Out>, StateError> {
        self.0.get(ctx.current_key())
    }

    /// Forgets the key's accumulator.
    pub fn clear<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<(), StateError> {
        self.0.clear(ctx.current_key())
    }
}

impl<In, Out> Clone for AggregatingState<In, Out> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<In, Out> fmt::Debug for AggregatingState<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggregatingState").finish_non_exhaustive()
    }
}
