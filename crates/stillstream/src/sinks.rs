//! Where streams end: `sink_to` and its short forms, and the settings of a sink.

use std::any::TypeId;
use std::fmt;
use std::sync::{Arc, PoisonError};

use stillstream_connectors::{Collect, Discard, Print};
use stillstream_runtime::connect::{Sink, SinkOperator};
use stillstream_runtime::plan::{Node, NodeId};
use stillstream_state::Data;

use crate::data_stream::DataStream;
use crate::graph::{Graph, NodeSpec};

/// The end of a stream, for the settings of its sink.
pub struct StreamSink {
    graph: Graph,
    node: NodeId,
}

impl fmt::Debug for StreamSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamSink({:?})", self.graph.sides(self.node).1)
    }
}

impl StreamSink {
    fn change(self, f: impl FnOnce(&mut Node)) -> Self {
        self.graph.change(self.node, f);
        self
    }

    /// Names the sink's state, which is what it has written and not yet committed: with it that is found
    /// again in a later version of the program.
    pub fn uid(self, uid: impl Into<String>) -> Self {
        self.change(|node| node.uid = Some(uid.into()))
    }

    /// Names the sink for people.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.change(|node| node.name = name.into())
    }

    /// How many parallel subtasks the sink has; 1 or more. Without it, the environment's parallelism.
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        self.change(|node| node.parallelism = Some(parallelism))
    }

    /// Gives the sink a task of its own.
    pub fn disable_chaining(self) -> Self {
        self.change(|node| node.chaining = false)
    }
}

/// Sinks.
impl<T: Data> DataStream<T> {
    /// Writes the stream to a sink.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let env = StreamExecutionEnvironment::new();
    /// env.from_collection(vec!["a".to_string()]).sink_to("lines", FileSink::lines("out")).uid("lines");
    /// ```
    pub fn sink_to<S: Sink<T>>(&self, name: impl Into<String>, sink: S) -> StreamSink {
        let (graph, sink) = (self.graph(), Arc::new(sink));
        let (checked, policy) = (sink.clone(), graph.commit_policy());
        let stateful = TypeId::of::<S::Committable>() != TypeId::of::<()>();
        let spec = NodeSpec { name: name.into(), stateful, sides: None };
        let make = SinkOperator::<T, S>::factory(sink, move || {
            *policy.lock().unwrap_or_else(PoisonError::into_inner)
        });
        let node = graph.operator(spec, &[self.upstreams()], move || Ok(make())).node;
        graph.check(node, move |job| checked.validate_for(job));
        StreamSink { graph: graph.clone(), node }
    }

    /// Prints each record on a line of standard output: text as it is, and everything else as `{:?}` does. After a failure records
    /// are printed again. [`Print::with_prefix`] puts a word before each.
    pub fn print(&self) -> StreamSink
    where
        T: fmt::Debug,
    {
        self.sink_to("print", Print::new())
    }

    /// Ends the stream; the records are counted and dropped.
    pub fn discard(&self) -> StreamSink {
        self.sink_to("discard", Discard::new())
    }

    /// Collects the records in memory, for tests. They are there when the job has ended.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let env = StreamExecutionEnvironment::new();
    /// let squares = env.from_collection(1..=3u64).map(|n| n * n).collect();
    /// env.execute("squares")?;
    /// assert_eq!(squares.items(), [1, 4, 9]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn collect(&self) -> Collect<T> {
        let collect = Collect::new();
        // in the program's memory, which ends with it: a missing uid is nothing to warn of
        self.sink_to("collect", collect.clone()).change(|node| node.stateful = false);
        collect
    }
}
