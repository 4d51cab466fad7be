//! The graph under construction: what the streams of one environment share.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use stillstream_runtime::Operator;
use stillstream_runtime::connect::{CommitPolicy, JobOutline, SplitSource, source_body};
use stillstream_runtime::plan::{EventTimeRole, Exchange, Node, NodeBody, NodeId, NodeInput, Plan};
use stillstream_types::{Error, ErrorKind, Result};

use crate::side_output::Sides;

#[derive(Default)]
pub(crate) struct GraphState {
    plan: Plan,
    /// Side outputs, by node.
    sides: Vec<Sides>,
    /// Mistakes found while the graph was written; `execute` reports the first.
    mistakes: Vec<String>,
    /// What sources and sinks want to see before the job starts.
    checks: Vec<(NodeId, Check)>,
    /// How commits are tried again, which is known when the job starts.
    commit_policy: Arc<Mutex<CommitPolicy>>,
}

/// Looks whether the other end of a connector is there.
type Check = Box<dyn Fn(&JobOutline) -> Result<()>>;

/// The graph, shared by an environment and all its streams.
#[derive(Clone, Default)]
pub(crate) struct Graph(Rc<RefCell<GraphState>>);

/// An output that a stream reads from, and how.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub node: NodeId,
    pub side: Option<u32>,
    pub exchange: Exchange,
}

impl Upstream {
    fn main(node: NodeId) -> Self {
        Self { node, side: None, exchange: Exchange::Forward }
    }
}

/// What a new operator is, its inputs aside.
pub(crate) struct NodeSpec {
    pub name: String,
    /// Keeps state, so that a missing uid is worth a warning.
    pub stateful: bool,
    /// Has side outputs that may be read.
    pub sides: Option<Sides>,
}

impl NodeSpec {
    /// An operator without state and side outputs.
    pub fn stateless(name: &str) -> Self {
        Self { name: name.into(), stateful: false, sides: None }
    }

    /// An operator with state.
    pub fn stateful(name: &str) -> Self {
        Self { name: name.into(), stateful: true, sides: None }
    }

    /// Lets `stream.side_output(..)` read what the operator emits into these.
    pub fn with_sides(mut self, sides: Sides) -> Self {
        self.sides = Some(sides);
        self
    }
}

impl Graph {
    fn add(&self, spec: NodeSpec, body: NodeBody, inputs: Vec<NodeInput>) -> Upstream {
        let mut graph = self.0.borrow_mut();
        let node = graph.plan.add(Node {
            name: spec.name,
            uid: None,
            parallelism: None,
            max_parallelism: None,
            stateful: spec.stateful,
            chaining: true,
            starts_chain: false,
            buffer_timeout: None,
            with_source: false,
            event_time: EventTimeRole::Passes,
            body,
            inputs,
        });
        graph.sides.push(spec.sides.unwrap_or_else(Sides::none));
        Upstream::main(node)
    }

    /// Adds a source, with its check and its one side output.
    pub fn source<S: SplitSource>(&self, name: String, source: S) -> Upstream {
        let source = Arc::new(source);
        let checked = source.clone();
        let spec = NodeSpec::stateful(&name).with_sides(Sides::of_source());
        let upstream = self.add(spec, source_body(source), Vec::new());
        self.check(upstream.node, move |_| checked.validate());
        upstream
    }

    /// Has `check` called before the job starts.
    pub fn check(&self, node: NodeId, check: impl Fn(&JobOutline) -> Result<()> + 'static) {
        self.0.borrow_mut().checks.push((node, Box::new(check)));
    }

    /// How sinks try a commit again; set when the job starts.
    pub fn commit_policy(&self) -> Arc<Mutex<CommitPolicy>> {
        self.0.borrow().commit_policy.clone()
    }

    /// How many operators there are.
    pub fn len(&self) -> usize {
        self.0.borrow().plan.nodes.len()
    }

    /// Calls the checks of all sources and sinks.
    ///
    /// # Errors
    /// The first that fails, with the name of the source or sink.
    pub fn run_checks(&self, job: &JobOutline) -> Result<()> {
        let graph = self.0.borrow();
        graph.checks.iter().try_for_each(|(node, check)| {
            let at = &graph.plan.nodes[node.0];
            let what = if at.inputs.is_empty() { "source" } else { "sink" };
            check(job).map_err(|error| error.context(format!("{what} `{}`", at.name)))
        })
    }

    /// Adds an operator that reads `ports[i]` as its logical input `i`; `make` makes one parallel instance.
    pub fn operator<O: Operator>(
        &self,
        spec: NodeSpec,
        ports: &[&[Upstream]],
        make: impl Fn() -> Result<O> + Send + Sync + 'static,
    ) -> Upstream {
        let inputs = ports.iter().enumerate().flat_map(|(port, upstreams)| {
            upstreams.iter().map(move |upstream| NodeInput {
                from: upstream.node,
                side: upstream.side,
                port,
                exchange: upstream.exchange.clone(),
            })
        });
        let body = NodeBody::Operator(Arc::new(move || Ok(Box::new(make()?) as Box<dyn Operator>)));
        self.add(spec, body, inputs.collect())
    }

    /// Whether a node is a source.
    pub fn is_source(&self, node: NodeId) -> bool {
        self.0.borrow().plan.nodes[node.0].inputs.is_empty()
    }

    /// Changes the node that a stream comes from.
    pub fn change(&self, node: NodeId, f: impl FnOnce(&mut Node)) {
        f(&mut self.0.borrow_mut().plan.nodes[node.0]);
    }

    /// The side outputs of a node, and its name.
    pub fn sides(&self, node: NodeId) -> (Sides, String) {
        let graph = self.0.borrow();
        (graph.sides[node.0].clone(), graph.plan.nodes[node.0].name.clone())
    }

    /// Notes a mistake, which `execute` reports.
    pub fn mistake(&self, message: String) {
        self.0.borrow_mut().mistakes.push(message);
    }

    /// Whether two streams belong to one environment.
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The finished plan.
    ///
    /// # Errors
    /// The first mistake that was made while the graph was written.
    pub fn plan(&self) -> Result<Plan> {
        let graph = self.0.borrow();
        match graph.mistakes.first() {
            Some(mistake) => Err(Error::new(ErrorKind::Plan, mistake.clone())),
            None => Ok(graph.plan.clone()),
        }
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.borrow().plan.fmt(f)
    }
}
