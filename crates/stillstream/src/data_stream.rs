//! [`DataStream`]: records of one type on their way, and what can be done with them one by one.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::Operator;
use stillstream_runtime::exchange::{BorrowedKey, OwnedKey};
use stillstream_runtime::plan::{Exchange, Node};
use stillstream_state::{Data, Key};
use stillstream_types::Result;

use crate::collector::Collector;
use crate::graph::{Graph, NodeSpec, Upstream};
use crate::keyed_stream::KeyedStream;
use crate::operators::stateless::{Filter, FlatMap, Map, TryFlatMap, TryMap};
use crate::side_output::OutputTag;

/// A stream of records of type `T`.
///
/// A transformation returns a new stream and leaves this one as it is, so that one stream can feed several.
/// Nothing runs until [`execute`](crate::StreamExecutionEnvironment::execute).
///
/// ```
/// use stillstream::prelude::*;
///
/// let env = StreamExecutionEnvironment::new();
/// let numbers = env.from_collection(1..=10u64);
/// let even = numbers.filter(|n| n % 2 == 0);
/// let squares = numbers.map(|n| n * n).name("squares");
/// let both = even.union(&squares);
/// # let _ = both;
/// ```
pub struct DataStream<T> {
    graph: Graph,
    upstreams: Vec<Upstream>,
    records: PhantomData<fn() -> T>,
}

impl<T> Clone for DataStream<T> {
    /// The same stream, not a copy of the records.
    fn clone(&self) -> Self {
        Self { graph: self.graph.clone(), upstreams: self.upstreams.clone(), records: PhantomData }
    }
}

impl<T> fmt::Debug for DataStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.upstreams.iter().map(|upstream| self.graph.sides(upstream.node).1);
        write!(f, "DataStream<{}> from {:?}", std::any::type_name::<T>(), names.collect::<Vec<_>>())
    }
}

/// For building operators: used by every module that adds one.
impl<T: Data> DataStream<T> {
    pub(crate) fn new(graph: Graph, upstream: Upstream) -> Self {
        Self { graph, upstreams: vec![upstream], records: PhantomData }
    }

    /// A stream that no operator makes, for one that has its inputs otherwise.
    pub(crate) fn of_nothing(graph: Graph) -> Self {
        Self { graph, upstreams: Vec::new(), records: PhantomData }
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn upstreams(&self) -> &[Upstream] {
        &self.upstreams
    }

    /// Appends an operator whose only input is this stream; `make` makes one parallel instance.
    pub(crate) fn operator<U: Data, O: Operator>(
        &self,
        spec: NodeSpec,
        make: impl Fn() -> Result<O> + Send + Sync + 'static,
    ) -> DataStream<U> {
        DataStream::new(self.graph.clone(), self.graph.operator(spec, &[&self.upstreams], make))
    }

    /// Whether this is what a source emits, as it comes.
    pub(crate) fn is_source(&self) -> bool {
        matches!(self.upstreams.as_slice(), [Upstream { node, side: None, exchange: Exchange::Forward }]
            if self.graph.is_source(*node))
    }

    pub(crate) fn with_exchange(&self, exchange: Exchange) -> Self {
        let mut stream = self.clone();
        stream.upstreams.iter_mut().for_each(|upstream| upstream.exchange = exchange.clone());
        stream
    }

    /// Changes the operator that this stream comes from.
    pub(crate) fn change(self, what: &str, f: impl FnOnce(&mut Node)) -> Self {
        match self.upstreams.as_slice() {
            [Upstream { node, side: None, exchange: Exchange::Forward }] => self.graph.change(*node, f),
            _ => self.graph.mistake(format!(
                "{what} names no operator: it was called on a union, a side output, or after rebalance() or \
                 another partitioning; call it directly after the operator that it is meant for"
            )),
        }
        self
    }
}

/// Transformations record by record.
impl<T: Data> DataStream<T> {
    /// One record out for each record in.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let lengths = env.from_collection(vec!["a".to_string()]).map(|word| word.len() as u64);
    /// ```
    pub fn map<U: Data>(&self, f: impl Fn(T) -> U + Send + Sync + 'static) -> DataStream<U> {
        let f = Arc::new(f);
        self.operator(NodeSpec::stateless("map"), move || Ok(Map::new(f.clone())))
    }

    /// Like [`map`](Self::map), with a function that can fail. An error fails the job, which then restarts by
    /// its restart strategy.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let numbers = env.from_collection(vec!["7".to_string()]).try_map(|text| Ok(text.parse::<u64>()?));
    /// ```
    pub fn try_map<U: Data>(&self, f: impl Fn(T) -> Result<U> + Send + Sync + 'static) -> DataStream<U> {
        let f = Arc::new(f);
        self.operator(NodeSpec::stateless("map"), move || Ok(TryMap::new(f.clone())))
    }

    /// Only the records for which `f` is true.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let even = env.from_collection(0..10u32).filter(|n| n % 2 == 0);
    /// ```
    pub fn filter(&self, f: impl Fn(&T) -> bool + Send + Sync + 'static) -> DataStream<T> {
        let f = Arc::new(f);
        self.operator(NodeSpec::stateless("filter"), move || Ok(Filter::new(f.clone())))
    }

    /// Any number of records out for each record in: a vector, an option, an iterator.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let numbers = env.from_collection(vec![3u32]).flat_map(|n| 0..n);
    /// let parsed = env.from_collection(vec!["1".to_string()]).flat_map(|text| text.parse::<u32>().ok());
    /// ```
    pub fn flat_map<I>(&self, f: impl Fn(T) -> I + Send + Sync + 'static) -> DataStream<I::Item>
    where
        I: IntoIterator,
        I::Item: Data,
    {
        self.flat_map_into(move |record, out| f(record).into_iter().for_each(|value| out.emit(value)))
            .name("flat_map")
    }

    /// Any number of records out for each record in, without a collection in between; here the output may
    /// borrow from the record while it is made.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let words = env
    ///     .from_collection(vec!["to be".to_string()])
    ///     .flat_map_into(|line, out| line.split(' ').for_each(|word| out.emit(word.to_string())));
    /// # fn is(_: DataStream<String>) {}
    /// # is(words);
    /// ```
    pub fn flat_map_into<U: Data>(
        &self,
        f: impl Fn(T, &mut Collector<U>) + Send + Sync + 'static,
    ) -> DataStream<U> {
        let f = Arc::new(f);
        self.operator(NodeSpec::stateless("flat_map"), move || Ok(FlatMap::new(f.clone())))
    }

    /// Like [`flat_map_into`](Self::flat_map_into), with a function that can fail.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let numbers = env.from_collection(vec!["1 2".to_string()]).try_flat_map(|line, out| {
    ///     for word in line.split(' ') {
    ///         out.emit(word.parse::<u32>()?);
    ///     }
    ///     Ok(())
    /// });
    /// ```
    pub fn try_flat_map<U: Data>(
        &self,
        f: impl Fn(T, &mut Collector<U>) -> Result<()> + Send + Sync + 'static,
    ) -> DataStream<U> {
        let f = Arc::new(f);
        self.operator(NodeSpec::stateless("flat_map"), move || Ok(TryFlatMap::new(f.clone())))
    }

    /// Calls `f` for each record and passes it on.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// env.from_collection(0..3u32).inspect(|n| println!("{n}")).discard();
    /// ```
    pub fn inspect(&self, f: impl Fn(&T) + Send + Sync + 'static) -> DataStream<T> {
        self.map(move |record| {
            f(&record);
            record
        })
        .name("inspect")
    }
}

/// Partitioning, and joining of streams.
impl<T: Data> DataStream<T> {
    /// Partitions the stream by key: all records of a key go to one subtask, and state is kept by key.
    ///
    /// The key must be the same whenever it is taken of the record, in every process: it follows from the
    /// record alone. Two keys must be equal exactly when their binary forms are, as they are for all types
    /// whose `Eq` is derived; see [`Key`](crate::state::Key) for those that have an `Eq` of their own.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let by_length = env.from_collection(vec!["a".to_string()]).key_by(|word| word.len() as u64);
    /// ```
    pub fn key_by<K: Key, F>(&self, key: F) -> KeyedStream<T, OwnedKey<F>>
    where
        F: Fn(&T) -> K + Send + Sync + 'static,
    {
        KeyedStream::new(self, OwnedKey(key))
    }

    /// Like [`key_by`](Self::key_by), for a key that is a part of the record: it is borrowed, not copied.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let by_name = env.from_collection(vec![("a".to_string(), 1u32)]).key_by_ref(|record| &record.0);
    /// ```
    pub fn key_by_ref<K: Key, F>(&self, key: F) -> KeyedStream<T, BorrowedKey<F, K>>
    where
        F: Fn(&T) -> &K + Send + Sync + 'static,
    {
        KeyedStream::new(self, BorrowedKey::new(key))
    }

    /// This stream and another one as one. Their order to one another is not defined.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let all = env.from_collection(0..3u32).union(&env.from_collection(7..9u32));
    /// ```
    pub fn union(&self, other: &DataStream<T>) -> DataStream<T> {
        self.check_same(other.graph(), "union");
        let mut stream = self.clone();
        stream.upstreams.extend_from_slice(&other.upstreams);
        stream
    }

    /// The records that the operator of this stream emits into a side output.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// const ODD: OutputTag<u32> = OutputTag::new("odd");
    ///
    /// let env = StreamExecutionEnvironment::new();
    /// let even = env.from_collection(0..10u32).split_off(&ODD, |n| n % 2 == 1);
    /// let odd = even.side_output(&ODD);
    /// ```
    pub fn side_output<U: Data>(&self, tag: &OutputTag<U>) -> DataStream<U> {
        let mut streams =
            DataStream { graph: self.graph.clone(), upstreams: Vec::new(), records: PhantomData };
        for upstream in &self.upstreams {
            let (sides, name) = self.graph.sides(upstream.node);
            match sides.declare(tag, &name) {
                Ok(side) => streams.upstreams.push(Upstream {
                    node: upstream.node,
                    side: Some(side),
                    exchange: Exchange::Forward,
                }),
                Err(mistake) => self.graph.mistake(mistake),
            }
        }
        streams
    }

    pub(crate) fn check_same(&self, other: &Graph, what: &str) {
        if !self.graph.same(other) {
            let mistake = format!("{what} of streams of two environments: make both from one environment");
            other.mistake(mistake.clone());
            self.graph.mistake(mistake);
        }
    }
}

/// Settings of the operator that the stream comes from.
impl<T: Data> DataStream<T> {
    /// Names the operator's state. With it state is found again in a later version of the program, whatever
    /// else changed; every operator with state should have one, and no two the same.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let counts = env
    ///     .from_collection(vec!["a".to_string()])
    ///     .key_by_ref(|word| word)
    ///     .map_with_state("seen", |seen: &mut u64, word| { *seen += 1; (word, *seen) })
    ///     .uid("word-counts");
    /// ```
    pub fn uid(self, uid: impl Into<String>) -> Self {
        self.change("uid()", |node| node.uid = Some(uid.into()))
    }

    /// Names the operator for people: in logs, errors and the dashboard.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.change("name()", |node| node.name = name.into())
    }

    /// How many parallel subtasks the operator has; 1 or more. Without it, the environment's parallelism.
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        self.change("set_parallelism()", |node| node.parallelism = Some(parallelism))
    }

    /// The number of the operator's key groups: the most that its parallelism can ever be, fixed for the life
    /// of its state. 1 to 32768.
    pub fn set_max_parallelism(self, max_parallelism: u32) -> Self {
        self.change("set_max_parallelism()", |node| node.max_parallelism = Some(max_parallelism))
    }

    /// Puts the operator, and what can share a task with it behind it, into a task that begins with it.
    pub fn start_new_chain(self) -> Self {
        self.change("start_new_chain()", |node| node.starts_chain = true)
    }

    /// How long a record that the operator emits may wait for more to be sent with it, in place of
    /// [`execution.buffer-timeout`](crate::config); zero sends each record by itself, and `None` waits until
    /// a batch is full. It holds for all operators that share its task; of several the shortest counts.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// let alerts = env.from_collection(vec![1u64]).filter(|n| *n > 100).set_buffer_timeout(Duration::ZERO);
    /// # let _ = alerts;
    /// ```
    pub fn set_buffer_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        let timeout = timeout.into();
        self.change("set_buffer_timeout()", |node| node.buffer_timeout = Some(timeout))
    }

    /// Gives the operator a task of its own, so that it does not share a thread's turn with its neighbours.
    pub fn disable_chaining(self) -> Self {
        self.change("disable_chaining()", |node| node.chaining = false)
    }
}
