//! What the user wrote: nodes, and how records get from one to the next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stillstream_types::{KeyGroups, Result};

use crate::operator::batch::AnyBatch;
use crate::operator::enumeration::EnumeratorFactory;
use crate::operator::{Operator, Source};

/// Makes one parallel instance of a source.
pub type SourceFactory = Arc<dyn Fn() -> Result<Box<dyn Source>> + Send + Sync>;
/// Makes one parallel instance of an operator.
pub type OperatorFactory = Arc<dyn Fn() -> Result<Box<dyn Operator>> + Send + Sync>;
/// Makes the splitter of a keyed edge for a number of key groups and a parallelism.
pub type SplitterFactory = Arc<dyn Fn(KeyGroups, u32) -> Box<dyn Splitter> + Send + Sync>;

/// Splits batches over the subtasks of the consumer: typed inside, erased outside. Each subtask gets its part
/// of the records, in order, and every mark at its place between them.
pub trait Splitter: 'static {
    /// Splits one batch; `send(target, batch)` takes each part that is full.
    fn split(&mut self, batch: AnyBatch, send: &mut dyn FnMut(usize, AnyBatch)) -> Result<()>;
    /// Sends what is left.
    fn flush(&mut self, send: &mut dyn FnMut(usize, AnyBatch));
}

/// What a node runs.
#[derive(Clone)]
pub enum NodeBody {
    /// A source whose subtasks know what to read.
    Source(SourceFactory),
    /// A source whose subtasks are assigned splits by an enumerator.
    SplitSource(SourceFactory, EnumeratorFactory),
    /// An operator with inputs.
    Operator(OperatorFactory),
}

impl fmt::Debug for NodeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source(_) => "Source",
            Self::SplitSource(..) => "SplitSource",
            Self::Operator(_) => "Operator",
        })
    }
}

/// How records get from one node to the next.
#[derive(Clone)]
pub enum Exchange {
    /// Within the subtask; becomes [`Rebalance`](Self::Rebalance) where the parallelism differs.
    Forward,
    /// Within the subtask; a mistake where the parallelism differs.
    ForwardOnly,
    /// Records of each batch to all subtasks in turn.
    Rebalance,
    /// Records of each batch in turn to those subtasks that are this one's share: no record goes further than
    /// it must.
    Rescale,
    /// Every record to the first subtask.
    Global,
    /// Every record to every subtask.
    Broadcast,
    /// By key group.
    Key(SplitterFactory),
    /// As a partitioner says, record by record.
    Partition(SplitterFactory),
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "Forward",
            Self::ForwardOnly => "ForwardOnly",
            Self::Rebalance => "Rebalance",
            Self::Rescale => "Rescale",
            Self::Global => "Global",
            Self::Broadcast => "Broadcast",
            Self::Key(_) => "Key",
            Self::Partition(_) => "Partition",
        })
    }
}

/// Number of a node in its plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub usize);

/// One input of a node. Several inputs with the same `port` are a union.
#[derive(Clone, Debug)]
pub struct NodeInput {
    /// The node whose output is read.
    pub from: NodeId,
    /// The side output that is read, or the main output.
    pub side: Option<u32>,
    /// The logical input that the operator is told.
    pub port: usize,
    /// How records get here.
    pub exchange: Exchange,
}

/// What a node has to do with event time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EventTimeRole {
    /// It passes on what comes.
    #[default]
    Passes,
    /// It makes watermarks.
    Assigns,
    /// It does nothing without watermarks.
    Needs,
}

/// A source or an operator, as the user wrote it.
#[derive(Clone, Debug)]
pub struct Node {
    /// For people.
    pub name: String,
    /// Names the operator's state.
    pub uid: Option<String>,
    /// Its own parallelism, or the job's.
    pub parallelism: Option<u32>,
    /// Number of key groups, or Flink's default for the parallelism.
    pub max_parallelism: Option<u32>,
    /// Whether it keeps state, so that a missing `uid` is worth a warning.
    pub stateful: bool,
    /// Whether it may run in one task with its neighbour.
    pub chaining: bool,
    /// It shares no task with what is in front of it.
    pub starts_chain: bool,
    /// How long what it emits may wait for more, in place of the job's setting; `Some(None)`: until a batch
    /// is full.
    pub buffer_timeout: Option<Option<Duration>>,
    /// It belongs to the source in front of it and shares its task in any case, also where chaining is off or
    /// where others read from the source too: it is told of the source's splits.
    pub with_source: bool,
    /// What it has to do with event time.
    pub event_time: EventTimeRole,
    /// What it runs.
    pub body: NodeBody,
    /// Where its records come from; empty for a source.
    pub inputs: Vec<NodeInput>,
}

/// The job as a graph of nodes, in an order in which inputs come first.
#[derive(Clone, Default)]
pub struct Plan {
    /// The nodes.
    pub nodes: Vec<Node>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes.iter().map(|node| &node.name)).finish()
    }
}

impl Plan {
    /// Adds a node and returns its number.
    pub fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }
}
