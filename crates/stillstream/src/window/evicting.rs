//! [`EvictingWindowedStream`]: windows whose records are all kept, for an evictor.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::exchange::KeySelector;
use stillstream_state::{Aggregate, Data};
use stillstream_types::Result;

use super::general::Evicted;
use super::process::{Apply, Plain, Process, ProcessWindow};
use super::states::WindowStates;
use super::trigger::{CountTrigger, Trigger};
use super::{CountEvictor, Evictor, TimeWindow, WindowedStream, With};
use crate::collector::Collector;
use crate::data_stream::DataStream;
use crate::side_output::OutputTag;

/// A stream in windows with an evictor, as [`WindowedStream::evictor`] makes it.
///
/// It has no `aggregate`, `reduce` and `count`: all records are kept, since the evictor may throw out any of
/// them. Only [sliding count windows](super::KeyedStream::count_window_sliding) have them, computed from the
/// records that are left.
pub struct EvictingWindowedStream<T, S, Tr, E> {
    windows: WindowedStream<T, S, Tr>,
    evictor: Arc<E>,
}

impl<T, S, Tr, E> Clone for EvictingWindowedStream<T, S, Tr, E> {
    fn clone(&self) -> Self {
        Self { windows: self.windows.clone(), evictor: self.evictor.clone() }
    }
}

impl<T, S, Tr, E> fmt::Debug for EvictingWindowedStream<T, S, Tr, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvictingWindowedStream")
            .field("windows", &self.windows)
            .field("evictor", &std::any::type_name::<E>())
            .finish()
    }
}

impl<T: Data, S: KeySelector<T>, Tr: Trigger<T>, E: Evictor<T>> EvictingWindowedStream<T, S, Tr, E> {
    pub(crate) fn new(windows: WindowedStream<T, S, Tr>, evictor: Arc<E>) -> Self {
        Self { windows, evictor }
    }

    /// As [`WindowedStream::trigger`].
    pub fn trigger<Other: Trigger<T>>(self, trigger: Other) -> EvictingWindowedStream<T, S, Other, E> {
        EvictingWindowedStream { windows: self.windows.trigger(trigger), evictor: self.evictor }
    }

    /// As [`WindowedStream::allowed_lateness`].
    pub fn allowed_lateness(self, lateness: Duration) -> Self {
        Self { windows: self.windows.allowed_lateness(lateness), ..self }
    }

    /// As [`WindowedStream::late_output`].
    pub fn late_output(self, tag: &OutputTag<T>) -> Self {
        Self { windows: self.windows.late_output(tag), ..self }
    }

    /// What a function makes of the records that the evictor leaves; as [`WindowedStream::apply`]. They may
    /// be none.
    pub fn apply<R: Data>(
        self,
        f: impl Fn(&S::Key, TimeWindow, Vec<T>, &mut Collector<R>) -> Result<()> + Send + Sync + 'static,
    ) -> DataStream<R> {
        let contents = Evicted { evictor: self.evictor, finish: Some };
        self.windows.general(contents, Plain(Arc::new(Apply(f, PhantomData)))).name("window.apply")
    }

    /// What a [`ProcessWindow`] makes of the records that the evictor leaves; as [`WindowedStream::process`].
    /// They may be none.
    pub fn process<P>(self) -> DataStream<P::Out>
    where
        P: ProcessWindow<Key = S::Key, In = Vec<T>>,
    {
        self.process_with(P::open)
    }

    /// As [`WindowedStream::process_with`].
    pub fn process_with<P>(
        self,
        open: impl Fn(&mut WindowStates<'_, S::Key>) -> Result<P> + Send + Sync + 'static,
    ) -> DataStream<P::Out>
    where
        P: ProcessWindow<Key = S::Key, In = Vec<T>>,
    {
        let contents = Evicted { evictor: self.evictor, finish: Some };
        self.windows.general(contents, Process::<P>(Arc::new(open))).name("window.process")
    }
}

/// Sliding count windows: the records that a window holds are known, so they have a sum.
impl<T: Data, S: KeySelector<T>> EvictingWindowedStream<T, S, CountTrigger, CountEvictor> {
    /// Folds the last records of each key into one, whenever the window slides.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// /// The highest of the last hundred bids, after each tenth bid.
    /// fn highest(bids: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     let hundred = bids.key_by_ref(|bid| &bid.0).count_window_sliding(100, 10);
    ///     hundred.reduce(|a, b| if b.1 > a.1 { b } else { a })
    /// }
    /// ```
    pub fn reduce(self, f: impl Fn(T, T) -> T + Send + Sync + 'static) -> DataStream<T> {
        let finish = move |records: Vec<T>| records.into_iter().reduce(&f);
        let emit = With(|_: &S::Key, _, out: T| Some(out), PhantomData);
        let contents = Evicted { evictor: self.evictor, finish };
        self.windows.general(contents, Plain(Arc::new(emit))).name("window.reduce")
    }

    /// The aggregate of the last records of each key, whenever the window slides.
    pub fn aggregate<A>(self, aggregate: A) -> DataStream<A::Out>
    where
        A: Aggregate<In = T> + Send + Sync,
        A::Out: Data,
    {
        let finish = move |records: Vec<T>| {
            let mut acc = aggregate.create();
            records.into_iter().for_each(|record| aggregate.add(&mut acc, record));
            Some(aggregate.result(&acc))
        };
        let emit = With(|_: &S::Key, _, out: A::Out| Some(out), PhantomData);
        let contents = Evicted { evictor: self.evictor, finish };
        self.windows.general(contents, Plain(Arc::new(emit)))
    }
}
