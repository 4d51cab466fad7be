//! What can be done with state by key: the methods of [`KeyedStream`], and of two streams that are joined.

use std::fmt;
use std::sync::Arc;

use stillstream_runtime::exchange::{KeySelector, OwnedKey};
use stillstream_runtime::plan::Exchange;
use stillstream_state::{Aggregate, Data, Key};
use stillstream_types::Result;

use crate::data_stream::DataStream;
use crate::functions::{BroadcastProcess, BroadcastStates, CoProcess, KeyedProcess, KeyedStates};
use crate::graph::{NodeSpec, Upstream};
use crate::keyed_stream::KeyedStream;
use crate::operators::keyed_process::{OneInput, TwoInputs, WithBroadcast};
use crate::operators::keyed_value::{FromDefault, KeyedValueOperator, Step};
use crate::side_output::Sides;

/// Folds records of one type into one record.
struct Reduce<F>(F);

impl<T: Data, F: Fn(T, T) -> T + Send + Sync + 'static> Step<T, Option<T>, T> for Reduce<F> {
    #[inline(always)]
    fn init(&self) -> Option<T> {
        None
    }
    #[inline(always)]
    fn step(&self, value: &mut Option<T>, record: T) -> T {
        let next = match value.take() {
            Some(old) => (self.0)(old, record),
            None => record,
        };
        *value = Some(next.clone());
        next
    }
}

/// Folds records into an accumulator.
struct Fold<A>(A);

impl<A: Aggregate + Send + Sync> Step<A::In, A::Acc, A::Out> for Fold<A> {
    fn init(&self) -> A::Acc {
        self.0.create()
    }
    fn step(&self, value: &mut A::Acc, record: A::In) -> A::Out {
        self.0.add(value, record);
        self.0.result(value)
    }
}

/// Functions with state.
impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    fn by_value<V: Data, U: Data, F: Step<T, V, U>>(
        &self,
        name: &str,
        state: &str,
        step: F,
    ) -> DataStream<U> {
        let (state, step): (Arc<str>, _) = (state.into(), Arc::new(step));
        self.operator(NodeSpec::stateful(name), move |selector| {
            Ok(KeyedValueOperator::<T, S, V, U, U, F>::new(state.clone(), selector, step.clone(), Ok))
        })
    }

    /// One value for each key, whose steps can fail.
    pub(crate) fn by_fallible_value<V: Data, U: Data, F: Step<T, V, Result<U>>>(
        &self,
        name: &str,
        state: &str,
        step: F,
    ) -> DataStream<U> {
        let (state, step): (Arc<str>, _) = (state.into(), Arc::new(step));
        let settle = |results: Vec<Result<U>>| results.into_iter().collect();
        self.operator(NodeSpec::stateful(name), move |selector| {
            let (state, step) = (state.clone(), step.clone());
            Ok(KeyedValueOperator::<T, S, V, Result<U>, U, F>::new(state, selector, step, settle))
        })
    }

    /// One record out for each record in, with one value of state for each key, which starts as
    /// `V::default()`.
    ///
    /// The fast path: the value is changed in place, with one look-up, by batch.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// env.from_collection(vec!["a".to_string(), "b".to_string(), "a".to_string()])
    ///     .key_by_ref(|word| word)
    ///     .map_with_state("seen", |seen: &mut u64, word| { *seen += 1; (word, *seen) })
    ///     .uid("count")
    ///     .discard();
    /// ```
    pub fn map_with_state<V: Data + Default, U: Data>(
        &self,
        state: &str,
        f: impl Fn(&mut V, T) -> U + Send + Sync + 'static,
    ) -> DataStream<U> {
        self.by_value::<V, U, _>("map_with_state", state, FromDefault(f))
    }

    /// Folds the records of each key into one, and emits it after each record.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// env.from_collection(vec![("a".to_string(), 1u64), ("a".to_string(), 2)])
    ///     .key_by_ref(|pair| &pair.0)
    ///     .reduce(|a, b| (a.0, a.1 + b.1))
    ///     .uid("sums")
    ///     .discard();
    /// ```
    pub fn reduce(&self, f: impl Fn(T, T) -> T + Send + Sync + 'static) -> DataStream<T> {
        self.by_value::<Option<T>, T, _>("reduce", "reduced", Reduce(f))
    }

    /// Folds the records of each key into an accumulator, and emits its result after each record.
    ///
    /// ```
    /// # use stillstream::prelude::*;
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
    /// # let env = StreamExecutionEnvironment::new();
    /// let values = env.from_collection(vec![1.0, 2.5]);
    /// values.key_by(|value| *value as i64 % 2).aggregate(Mean).uid("means").discard();
    /// ```
    pub fn aggregate<A: Aggregate<In = T> + Send + Sync>(&self, aggregate: A) -> DataStream<A::Out>
    where
        A::Out: Data,
    {
        self.by_value::<A::Acc, A::Out, _>("aggregate", "accumulator", Fold(aggregate))
    }

    /// A function with state and timers; see [`KeyedProcess`].
    pub fn process<F>(&self) -> DataStream<F::Out>
    where
        F: KeyedProcess<In = T, Key = S::Key>,
    {
        self.process_with(F::open)
    }

    /// A function with state and timers that is made by a closure, so that it can be given parameters.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// struct EveryNth { n: u64, seen: ValueState<u64> }
    /// impl KeyedProcess for EveryNth {
    ///     type Key = String;
    ///     type In = String;
    ///     type Out = String;
    ///     fn open(states: &mut States<Self>) -> Result<Self> {
    ///         Ok(Self { n: 1, seen: states.value("seen")? })
    ///     }
    ///     fn process(&mut self, word: String, ctx: &mut Context<Self>) -> Result<()> {
    ///         let seen = self.seen.update(ctx, || 0, |seen| { *seen += 1; *seen })?;
    ///         if seen % self.n == 0 { ctx.emit(word); }
    ///         Ok(())
    ///     }
    /// }
    /// # let env = StreamExecutionEnvironment::new();
    /// env.from_collection(vec!["a".to_string()])
    ///     .key_by_ref(|word| word)
    ///     .process_with(|states| Ok(EveryNth { n: 3, ..EveryNth::open(states)? }))
    ///     .uid("third")
    ///     .discard();
    /// ```
    pub fn process_with<F>(
        &self,
        open: impl Fn(&mut KeyedStates<F::Key>) -> Result<F> + Send + Sync + 'static,
    ) -> DataStream<F::Out>
    where
        F: KeyedProcess<In = T, Key = S::Key>,
    {
        let (sides, open) = (Sides::new(), Arc::new(open));
        self.operator(NodeSpec::stateful("process").with_sides(sides.clone()), move |selector| {
            Ok(OneInput::<F, S>::operator(open.clone(), selector, sides.clone()))
        })
    }

    /// Joins the stream with one whose every record goes to every subtask; see [`BroadcastProcess`].
    pub fn connect_broadcast<R: Data>(&self, rules: &DataStream<R>) -> BroadcastConnected<T, S, R> {
        rules.check_same(self.graph(), "connect_broadcast");
        BroadcastConnected { keyed: self.clone(), rules: rules.clone() }
    }
}

/// A keyed stream beside a broadcast one.
pub struct BroadcastConnected<T, S, R> {
    keyed: KeyedStream<T, S>,
    rules: DataStream<R>,
}

impl<T, S, R> fmt::Debug for BroadcastConnected<T, S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastConnected").field("keyed", &self.keyed).field("rules", &self.rules).finish()
    }
}

impl<T: Data, S: KeySelector<T>, R: Data> BroadcastConnected<T, S, R> {
    /// Applies a function; see [`BroadcastProcess`].
    pub fn process<F>(&self) -> DataStream<F::Out>
    where
        F: BroadcastProcess<In = T, Rule = R, Key = S::Key>,
    {
        self.process_with(F::open)
    }

    /// Applies a function that is made by a closure, so that it can be given parameters; as
    /// [`KeyedStream::process_with`].
    pub fn process_with<F>(
        &self,
        open: impl Fn(&mut KeyedStates<F::Key>, &mut BroadcastStates<'_>) -> Result<F> + Send + Sync + 'static,
    ) -> DataStream<F::Out>
    where
        F: BroadcastProcess<In = T, Rule = R, Key = S::Key>,
    {
        let open = Arc::new(open);
        let (sides, selector, graph) = (Sides::new(), self.keyed.selector(), self.keyed.graph().clone());
        let rules: Vec<Upstream> = self
            .rules
            .upstreams()
            .iter()
            .map(|upstream| Upstream { exchange: Exchange::Broadcast, ..upstream.clone() })
            .collect();
        let spec = NodeSpec::stateful("process").with_sides(sides.clone());
        let upstream = graph.operator(spec, &[&self.keyed.upstreams(), &rules], move || {
            Ok(WithBroadcast::<F, S>::operator(open.clone(), selector.clone(), sides.clone()))
        });
        DataStream::new(graph.clone(), upstream)
    }
}

impl<T: Data> DataStream<T> {
    /// Puts two streams side by side, for a function that sees both: by key, see [`CoProcess`]; without keys,
    /// see [`ConnectedProcess`](crate::functions::ConnectedProcess).
    pub fn connect<U: Data>(&self, other: &DataStream<U>) -> ConnectedStreams<T, U> {
        self.check_same(other.graph(), "connect");
        ConnectedStreams { first: self.clone(), second: other.clone() }
    }
}

/// Two streams side by side.
#[derive(Debug)]
pub struct ConnectedStreams<T, U> {
    first: DataStream<T>,
    second: DataStream<U>,
}

impl<T: Data, U: Data> ConnectedStreams<T, U> {
    /// Appends an operator that reads both.
    pub(crate) fn operator<R: Data, O: stillstream_runtime::Operator>(
        &self,
        spec: NodeSpec,
        make: impl Fn() -> Result<O> + Send + Sync + 'static,
    ) -> DataStream<R> {
        let graph = self.first.graph().clone();
        let upstream = graph.operator(spec, &[self.first.upstreams(), self.second.upstreams()], make);
        DataStream::new(graph, upstream)
    }

    /// Partitions both by the same key.
    pub fn key_by<K: Key, F1, F2>(
        &self,
        first: F1,
        second: F2,
    ) -> KeyedConnected<T, U, OwnedKey<F1>, OwnedKey<F2>>
    where
        F1: Fn(&T) -> K + Send + Sync + 'static,
        F2: Fn(&U) -> K + Send + Sync + 'static,
    {
        KeyedConnected { first: self.first.key_by(first), second: self.second.key_by(second) }
    }
}

/// Two streams partitioned by the same key.
#[derive(Debug)]
pub struct KeyedConnected<T, U, S1, S2> {
    first: KeyedStream<T, S1>,
    second: KeyedStream<U, S2>,
}

impl<T: Data, U: Data, S1: KeySelector<T>, S2: KeySelector<U, Key = S1::Key>> KeyedConnected<T, U, S1, S2> {
    /// Applies a function; see [`CoProcess`].
    pub fn process<F>(&self) -> DataStream<F::Out>
    where
        F: CoProcess<In1 = T, In2 = U, Key = S1::Key>,
    {
        self.process_with(F::open)
    }

    /// Applies a function that is made by a closure, so that it can be given parameters; as
    /// [`KeyedStream::process_with`].
    pub fn process_with<F>(
        &self,
        open: impl Fn(&mut KeyedStates<F::Key>) -> Result<F> + Send + Sync + 'static,
    ) -> DataStream<F::Out>
    where
        F: CoProcess<In1 = T, In2 = U, Key = S1::Key>,
    {
        let open = Arc::new(open);
        let (sides, graph) = (Sides::new(), self.first.graph().clone());
        let (first, second) = (self.first.selector(), self.second.selector());
        let spec = NodeSpec::stateful("co_process").with_sides(sides.clone());
        let upstream =
            graph.operator(spec, &[&self.first.upstreams(), &self.second.upstreams()], move || {
                let (first, second) = (first.clone(), second.clone());
                Ok(TwoInputs::<F, S1, S2>::operator(open.clone(), first, second, sides.clone()))
            });
        DataStream::new(graph.clone(), upstream)
    }
}
