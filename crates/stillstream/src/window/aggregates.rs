//! The aggregates behind `reduce` and `count`.

use std::marker::PhantomData;

use stillstream_state::{Aggregate, Data};

/// Folds records of one type into one.
pub(crate) struct Reduce<T, F>(F, PhantomData<fn(T)>);

impl<T, F> Reduce<T, F> {
    pub fn new(f: F) -> Self {
        Self(f, PhantomData)
    }
}

impl<T: Data, F: Fn(T, T) -> T + 'static> Aggregate for Reduce<T, F> {
    type In = T;
    type Acc = Option<T>;
    type Out = Option<T>;

    fn create(&self) -> Option<T> {
        None
    }

    fn add(&self, acc: &mut Option<T>, value: T) {
        *acc = Some(match acc.take() {
            Some(before) => (self.0)(before, value),
            None => value,
        });
    }

    fn merge(&self, acc: &mut Option<T>, other: Option<T>) {
        if let Some(other) = other {
            self.add(acc, other);
        }
    }

    fn result(&self, acc: &Option<T>) -> Option<T> {
        acc.clone()
    }
}

/// Counts records.
pub(crate) struct Count<T>(pub PhantomData<fn(T)>);

impl<T: 'static> Aggregate for Count<T> {
    type In = T;
    type Acc = u64;
    type Out = u64;

    fn create(&self) -> u64 {
        0
    }

    fn add(&self, acc: &mut u64, _: T) {
        *acc += 1;
    }

    fn merge(&self, acc: &mut u64, other: u64) {
        *acc += other;
    }

    fn result(&self, acc: &u64) -> u64 {
        *acc
    }
}
