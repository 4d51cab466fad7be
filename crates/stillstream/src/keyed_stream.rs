//! [`KeyedStream`]: a stream partitioned by key, and what can be done with state by key.

use std::fmt;
use std::sync::Arc;

use stillstream_runtime::Operator;
use stillstream_runtime::exchange::{KeySelector, by_key};
use stillstream_runtime::plan::Exchange;
use stillstream_state::Data;
use stillstream_types::Result;

use crate::data_stream::DataStream;
use crate::graph::{Graph, NodeSpec, Upstream};
use crate::join::{Merged, Ports};

/// A stream partitioned by key, as [`key_by`](DataStream::key_by) makes it.
///
/// `S` finds the key of a record. A function that returns one writes
/// `KeyedStream<T, impl KeySelector<T, Key = K>>`.
pub struct KeyedStream<T, S> {
    input: DataStream<T>,
    /// For two streams that are joined: `input` then stands for their graph only.
    ports: Option<Ports>,
    selector: Arc<S>,
}

impl<T, S> Clone for KeyedStream<T, S> {
    fn clone(&self) -> Self {
        Self { input: self.input.clone(), ports: self.ports.clone(), selector: self.selector.clone() }
    }
}

impl<T, S> fmt::Debug for KeyedStream<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedStream").field("input", &self.input).finish_non_exhaustive()
    }
}

/// For building operators: used by every module that adds one.
impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    pub(crate) fn new(input: &DataStream<T>, selector: S) -> Self {
        Self { input: input.clone(), ports: None, selector: Arc::new(selector) }
    }

    /// Several streams with the same key as one.
    pub(crate) fn of_ports(graph: Graph, ports: Ports, selector: S) -> Self {
        Self { input: DataStream::of_nothing(graph), ports: Some(ports), selector: Arc::new(selector) }
    }

    pub(crate) fn graph(&self) -> &Graph {
        self.input.graph()
    }

    pub(crate) fn check_same(&self, other: &Graph, what: &str) {
        self.input.check_same(other, what);
    }

    /// Finds the key of a record.
    pub(crate) fn selector(&self) -> Arc<S> {
        self.selector.clone()
    }

    /// The inputs, partitioned by key: batches that come over them have their hashes.
    pub(crate) fn upstreams(&self) -> Vec<Upstream> {
        let selector = self.selector.clone();
        let exchange = Exchange::Key(Arc::new(move |groups, parallelism| {
            by_key::<T, S>(selector.clone(), groups, parallelism)
        }));
        let upstreams = self.input.upstreams().iter();
        upstreams.map(|upstream| Upstream { exchange: exchange.clone(), ..upstream.clone() }).collect()
    }

    /// Appends an operator whose only input is this stream; `make` makes one parallel instance. Its batches
    /// have hashes.
    pub(crate) fn operator<U: Data, O: Operator>(
        &self,
        spec: NodeSpec,
        make: impl Fn(Arc<S>) -> Result<O> + Send + Sync + 'static,
    ) -> DataStream<U> {
        let (graph, selector) = (self.graph(), self.selector.clone());
        let upstream = match self.ports.clone() {
            None => graph.operator(spec, &[&self.upstreams()], move || make(selector.clone())),
            Some(Ports { upstreams, merge }) => {
                let ports: Vec<&[Upstream]> = upstreams.iter().map(Vec::as_slice).collect();
                graph.operator(spec, &ports, move || {
                    Ok(Merged { inner: make(selector.clone())?, merge: merge.clone() })
                })
            }
        };
        DataStream::new(graph.clone(), upstream)
    }
}
