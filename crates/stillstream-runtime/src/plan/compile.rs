//! From the nodes of a plan to the tasks that run: chains operators, numbers edges, derives operator ids and
//! finds, for each operator, the edges that its output can reach.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use stillstream_types::key_group::UPPER_MAX_PARALLELISM;
use stillstream_types::murmur::murmur3_128;
use stillstream_types::{Error, ErrorKind, KeyGroups, OperatorId, Result, VertexId};

use super::{
    ChainedOperator, Delivery, EventTimeRole, Exchange, Node, NodeId, NodeInput, PhysicalPlan, Placement,
    Plan, Sets, Task, TaskInput, TaskOutput,
};

fn plan_error(message: String) -> Error {
    Error::new(ErrorKind::Plan, message)
}

impl Plan {
    /// The same plan with these numbers of key groups, where the user set none.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub(crate) fn with_key_groups(&self, key_groups: &BTreeMap<OperatorId, u32>) -> Result<Self> {
        let mut plan = self.clone();
        for (node, id) in plan.nodes.iter_mut().zip(self.operator_ids()?) {
            node.max_parallelism = node.max_parallelism.or_else(|| key_groups.get(&id).copied());
        }
        Ok(plan)
    }

    fn parallelism(&self, node: &Node, default: u32) -> Result<(u32, KeyGroups)> {
        let parallelism = node.parallelism.unwrap_or(default);
        let max = node.max_parallelism.unwrap_or_else(|| KeyGroups::default_max_parallelism(parallelism));
        if parallelism == 0 {
            return Err(plan_error(format!(
                "operator `{}` has parallelism 0; set_parallelism takes 1 or more",
                node.name
            )));
        }
        if max == 0 || max > UPPER_MAX_PARALLELISM {
            return Err(plan_error(format!(
                "operator `{}` has max parallelism {max}; set_max_parallelism takes 1 to {UPPER_MAX_PARALLELISM}",
                node.name
            )));
        }
        if parallelism > max {
            return Err(plan_error(format!(
                "operator `{}` has parallelism {parallelism} and max parallelism {max}: a subtask without a key group \
                 could never get a record; lower set_parallelism or raise set_max_parallelism",
                node.name
            )));
        }
        Ok((parallelism, KeyGroups::new(max)))
    }

    /// Ids: by uid, or by position, name and the ids of the inputs.
    fn operator_ids(&self) -> Result<Vec<OperatorId>> {
        let mut ids: Vec<OperatorId> = Vec::new();
        let mut seen: HashMap<OperatorId, &Node> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let id = match &node.uid {
                Some(uid) => OperatorId::from_uid(uid),
                None => {
                    let mut description = format!("{at}/{}", node.name).into_bytes();
                    node.inputs.iter().for_each(|input| description.extend_from_slice(&ids[input.from.0].0));
                    OperatorId(murmur3_128(&description))
                }
            };
            if let Some(other) = seen.insert(id, node) {
                return Err(plan_error(format!(
                    "operators `{}` and `{}` have the same uid `{}`; a uid names the state of one operator",
                    other.name,
                    node.name,
                    node.uid.as_deref().unwrap_or("none")
                )));
            }
            ids.push(id);
        }
        Ok(ids)
    }

    /// Whether `node` runs in the same task as its only input.
    fn chains(
        &self,
        node: &Node,
        parallelism: &[(u32, KeyGroups)],
        at: usize,
        consumers: &[usize],
        chaining: bool,
        taken: bool,
    ) -> bool {
        let [NodeInput { from, side: None, exchange: Exchange::Forward | Exchange::ForwardOnly, .. }] =
            node.inputs.as_slice()
        else {
            return false;
        };
        if node.with_source && !taken && parallelism[from.0].0 == parallelism[at].0 {
            return true;
        }
        chaining
            && node.chaining
            && !node.starts_chain
            && self.nodes[from.0].chaining
            && consumers[from.0] == 1
            && parallelism[from.0].0 == parallelism[at].0
    }

    /// Makes the plan ready to run.
    ///
    /// # Errors
    /// An empty plan, a parallelism out of range, a uid used twice.
    pub(crate) fn compile(&self, default_parallelism: u32, chaining: bool) -> Result<PhysicalPlan> {
        if self.nodes.is_empty() {
            return Err(plan_error("the job has no sources; add one with `from_source`".into()));
        }
        let ids = self.operator_ids()?;
        let parallelism = self
            .nodes
            .iter()
            .map(|node| self.parallelism(node, default_parallelism))
            .collect::<Result<Vec<_>>>()?;
        let mut consumers = vec![0usize; self.nodes.len()];
        for input in self.nodes.iter().flat_map(|node| &node.inputs) {
            if input.side.is_none() {
                consumers[input.from.0] += 1;
            }
        }
        let workers = parallelism.iter().map(|(parallelism, _)| *parallelism).max().unwrap_or(1);
        let mut spread = Spread { workers, next: 0 };
        let mut tasks: Vec<Task> = Vec::new();
        let mut place: Vec<(usize, usize)> = Vec::new(); // node -> (task, index in the chain)
        let mut edges = 0u32;
        for (at, node) in self.nodes.iter().enumerate() {
            let operator = ChainedOperator {
                id: ids[at],
                name: node.name.as_str().into(),
                uid: node.uid.clone(),
                key_groups: parallelism[at].1,
                sets: Sets {
                    parallelism: node.parallelism.is_some(),
                    max_parallelism: node.max_parallelism.is_some(),
                },
                needs_uid: node.stateful && node.uid.is_none(),
                body: node.body.clone(),
                reach: Arc::from([]),
            };
            let taken = node.inputs.first().is_some_and(|input| tasks[place[input.from.0].0].chain.len() > 1);
            if self.chains(node, &parallelism, at, &consumers, chaining, taken) {
                let task = place[node.inputs[0].from.0].0;
                place.push((task, tasks[task].chain.len()));
                tasks[task].name = format!("{} -> {}", tasks[task].name, node.name).into();
                tasks[task].chain.push(operator);
                tasks[task].buffer_timeout = shorter(tasks[task].buffer_timeout, node.buffer_timeout);
                tasks[task].needs_event_time |= node.event_time == EventTimeRole::Needs;
                continue;
            }
            let to_parallelism = parallelism[at].0;
            let placement = spread.place(node, to_parallelism, |from| &tasks[place[from.0].0]);
            let mut inputs = Vec::new();
            for input in &node.inputs {
                let (from_task, owner) = place[input.from.0];
                let edge = edges;
                edges += 1;
                let from = &tasks[from_task];
                let (from_parallelism, from_placement) = (from.parallelism, from.placement);
                let same = from_parallelism == to_parallelism;
                let delivery = match &input.exchange {
                    Exchange::ForwardOnly if !same => {
                        return Err(plan_error(format!(
                            "forward() leads from `{}`, which has parallelism {from_parallelism}, to `{}`, which has {to_parallelism}: \
                             give both the same by set_parallelism, or use rescale() or rebalance()",
                            self.nodes[input.from.0].name, node.name
                        )));
                    }
                    Exchange::Forward | Exchange::ForwardOnly if same => match from_placement == placement {
                        true => Delivery::Local,
                        false => Delivery::SameSubtask,
                    },
                    Exchange::Forward | Exchange::ForwardOnly | Exchange::Rebalance => Delivery::Rebalance,
                    Exchange::Rescale => Delivery::Rescale,
                    Exchange::Global => Delivery::Global,
                    Exchange::Broadcast => Delivery::Broadcast,
                    Exchange::Key(factory) => Delivery::Key(factory.clone(), parallelism[at].1),
                    Exchange::Partition(factory) => Delivery::Partition(factory.clone()),
                };
                let from_output = tasks[from_task].outputs.len();
                let (side, to) = (input.side, placement);
                tasks[from_task].outputs.push(TaskOutput { edge, owner, side, delivery, to_parallelism, to });
                let (port, from) = (input.port, from_placement);
                inputs.push(TaskInput { edge, from_task, from_output, from_parallelism, from, port });
            }
            place.push((tasks.len(), 0));
            let vertex = VertexId(tasks.len() as u32);
            tasks.push(Task {
                vertex,
                name: node.name.as_str().into(),
                parallelism: to_parallelism,
                placement,
                buffer_timeout: node.buffer_timeout,
                chain: vec![operator],
                inputs,
                outputs: Vec::new(),
                needs_event_time: node.event_time == EventTimeRole::Needs,
            });
        }
        find_reach(&mut tasks);
        let without_watermarks = self.without_watermarks();
        Ok(PhysicalPlan { tasks, edges: edges as usize, workers, without_watermarks })
    }

    /// Operators that need watermarks, with the sources whose records come to them past no strategy.
    fn without_watermarks(&self) -> Vec<(String, Vec<String>)> {
        // by node: the sources whose records leave it without watermarks
        let mut bare: Vec<BTreeSet<usize>> = Vec::new();
        let mut found = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let above: BTreeSet<usize> =
                node.inputs.iter().flat_map(|input| bare[input.from.0].iter().copied()).collect();
            if node.event_time == EventTimeRole::Needs && !above.is_empty() {
                let names = above.iter().map(|source| self.nodes[*source].name.clone()).collect();
                found.push((node.name.clone(), names));
            }
            bare.push(match node.event_time {
                EventTimeRole::Assigns => BTreeSet::new(),
                _ if node.inputs.is_empty() => BTreeSet::from([at]),
                EventTimeRole::Passes | EventTimeRole::Needs => above,
            });
        }
        found
    }
}

/// The shorter one of two buffer timeouts: what waits for nothing waits for no neighbour either.
fn shorter(one: Option<Option<Duration>>, other: Option<Option<Duration>>) -> Option<Option<Duration>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.into_iter().chain(other).min()),
        (one, other) => one.or(other),
    }
}

/// Deals tasks of a lower parallelism out over the workers, so that they do not all burden the first ones.
struct Spread {
    workers: u32,
    /// The worker that has got least so far.
    next: u32,
}

impl Spread {
    /// Where a node runs that begins a task. One that reads within the subtask stays where its first such
    /// input is.
    fn place<'a>(
        &mut self,
        node: &Node,
        parallelism: u32,
        task_of: impl Fn(NodeId) -> &'a Task,
    ) -> Placement {
        let workers = self.workers;
        if parallelism == workers {
            return Placement { first: 0, workers };
        }
        let forward =
            |input: &&NodeInput| matches!(input.exchange, Exchange::Forward | Exchange::ForwardOnly);
        let mut neighbours = node.inputs.iter().filter(forward).map(|input| task_of(input.from));
        if let Some(neighbour) = neighbours.find(|task| task.parallelism == parallelism) {
            return neighbour.placement;
        }
        let first = self.next;
        self.next = (first + parallelism) % workers;
        Placement { first, workers }
    }
}

/// For each operator the edges downstream of it, from the last task to the first.
fn find_reach(tasks: &mut [Task]) {
    let consumer: HashMap<u32, usize> = tasks
        .iter()
        .enumerate()
        .flat_map(|(at, task)| task.inputs.iter().map(move |input| (input.edge, at)))
        .collect();
    for at in (0..tasks.len()).rev() {
        for index in (0..tasks[at].chain.len()).rev() {
            let mut reach = BTreeSet::new();
            for output in tasks[at].outputs.iter().filter(|output| output.owner >= index) {
                reach.insert(output.edge);
                if let Some(task) = consumer.get(&output.edge) {
                    reach.extend(tasks[*task].chain[0].reach.iter().copied());
                }
            }
            tasks[at].chain[index].reach = reach.into_iter().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::batch::AnyBatch;
    use crate::operator::{Operator, Output};
    use crate::plan::{NodeBody, NodeId};

    struct Nothing;
    impl Operator for Nothing {
        fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
            out.batch(batch);
            Ok(())
        }
    }

    fn node(name: &str, inputs: &[(usize, Exchange)]) -> Node {
        let inputs = inputs.iter().enumerate();
        let inputs = inputs.map(|(port, (from, exchange))| NodeInput {
            from: NodeId(*from),
            side: None,
            port,
            exchange: exchange.clone(),
        });
        Node {
            name: name.into(),
            uid: None,
            parallelism: None,
            max_parallelism: None,
            stateful: false,
            chaining: true,
            starts_chain: false,
            buffer_timeout: None,
            with_source: false,
            event_time: EventTimeRole::Passes,
            body: NodeBody::Operator(Arc::new(|| Ok(Box::new(Nothing)))),
            inputs: inputs.collect(),
        }
    }

    fn plan(nodes: Vec<Node>) -> Plan {
        Plan { nodes }
    }

    #[test]
    fn forward_operators_share_a_task_and_an_exchange_starts_a_new_one() {
        let physical = plan(vec![
            node("source", &[]),
            node("map", &[(0, Exchange::Forward)]),
            node("count", &[(1, Exchange::Rebalance)]),
            node("sink", &[(2, Exchange::Forward)]),
        ])
        .compile(2, true)
        .unwrap();
        let names: Vec<_> = physical.tasks.iter().map(|task| &*task.name).collect();
        assert_eq!(names, ["source -> map", "count -> sink"]);
        assert_eq!(physical.edges, 1);
    }

    #[test]
    fn an_operator_reaches_only_edges_below_itself() {
        // a window and a second source into a join: neither may wait for the other's edge
        let physical = plan(vec![
            node("left", &[]),
            node("window", &[(0, Exchange::Rebalance)]),
            node("right", &[]),
            node("join", &[(1, Exchange::Rebalance), (2, Exchange::Rebalance)]),
            node("sink", &[(3, Exchange::Rebalance)]),
        ])
        .compile(2, true)
        .unwrap();
        let reach = |task: usize| physical.tasks[task].chain[0].reach.to_vec();
        assert_eq!(reach(0), [0, 1, 3], "left: its own edge, the window's to the join, the join's");
        assert_eq!(reach(1), [1, 3], "the window does not wait for its own input");
        assert_eq!(reach(2), [2, 3], "right does not wait for the window's edge");
        assert!(reach(4).is_empty());
    }

    #[test]
    fn a_stream_with_two_consumers_ends_its_task() {
        let physical = plan(vec![
            node("source", &[]),
            node("a", &[(0, Exchange::Forward)]),
            node("b", &[(0, Exchange::Forward)]),
        ])
        .compile(1, true)
        .unwrap();
        assert_eq!(physical.tasks.len(), 3);
    }

    #[test]
    fn operator_ids_are_a_function_of_the_program() {
        let build = || {
            plan(vec![node("source", &[]), node("map", &[(0, Exchange::Forward)])]).operator_ids().unwrap()
        };
        assert_eq!(build(), build());
    }

    #[test]
    fn the_id_of_an_operator_without_a_uid_depends_on_the_graph_and_on_nothing_else() {
        let nodes = |renamed: &str, extra: bool| {
            let mut nodes = vec![
                node("source", &[]),
                node(renamed, &[(0, Exchange::Forward)]),
                node("count", &[(1, Exchange::Rebalance)]),
                node("sink", &[(2, Exchange::Forward)]),
            ];
            nodes.extend(extra.then(|| node("second sink", &[(2, Exchange::Forward)])));
            nodes
        };
        let ids = |nodes: Vec<Node>, parallelism: u32, chaining: bool| -> BTreeMap<String, OperatorId> {
            let physical = plan(nodes).compile(parallelism, chaining).unwrap();
            let chains = physical.tasks.iter().flat_map(|task| &task.chain);
            chains.map(|operator| (operator.name.to_string(), operator.id)).collect()
        };
        let expected = ids(nodes("map", false), 2, true);
        assert_eq!(expected.len(), 4);
        let distinct: BTreeSet<_> = expected.values().collect();
        assert_eq!(distinct.len(), 4, "{expected:?}");
        for (parallelism, chaining) in [(1, true), (2, false), (90, true), (7, false)] {
            assert_eq!(ids(nodes("map", false), parallelism, chaining), expected, "{parallelism} {chaining}");
        }
        // neither does what is set for one operator, nor what is added behind it
        let mut set = nodes("map", true);
        (set[2].parallelism, set[2].max_parallelism, set[2].chaining) = (Some(3), Some(64), false);
        let set = ids(set, 2, true);
        assert!(expected.iter().all(|(name, id)| set[name] == *id), "{set:?} {expected:?}");
        // another graph above it does
        assert_ne!(ids(nodes("filter", false), 2, true)["count"], expected["count"]);
    }

    #[test]
    fn a_uid_used_twice_is_refused_with_both_names() {
        let mut nodes = vec![node("source", &[]), node("map", &[(0, Exchange::Forward)])];
        nodes.iter_mut().for_each(|node| node.uid = Some("same".into()));
        let error = plan(nodes).compile(1, true).err().unwrap().to_string();
        assert!(error.contains("`source` and `map`") && error.contains("`same`"), "{error}");
    }

    #[test]
    fn an_operator_that_needs_watermarks_is_named_with_the_sources_that_have_none() {
        let mut nodes = vec![
            node("orders", &[]),
            node("time", &[(0, Exchange::Forward)]),
            node("clicks", &[]),
            node("join", &[(1, Exchange::Rebalance), (2, Exchange::Rebalance)]),
            node("windows", &[(3, Exchange::Rebalance)]),
            node("good", &[(1, Exchange::Rebalance)]),
        ];
        nodes[1].event_time = EventTimeRole::Assigns;
        nodes[4].event_time = EventTimeRole::Needs;
        nodes[5].event_time = EventTimeRole::Needs;
        let physical = plan(nodes).compile(2, true).unwrap();
        assert_eq!(physical.without_watermarks, [("windows".to_string(), vec!["clicks".to_string()])]);
    }

    #[test]
    fn a_strategy_on_a_source_shares_its_task_whoever_else_reads_it() {
        let mut nodes = vec![
            node("source", &[]),
            node("other", &[(0, Exchange::Forward)]),
            node("time", &[(0, Exchange::Forward)]),
            node("second", &[(0, Exchange::Forward)]),
        ];
        (nodes[2].with_source, nodes[3].with_source) = (true, true);
        let physical = plan(nodes).compile(2, false).unwrap();
        let names: Vec<_> = physical.tasks.iter().map(|task| &*task.name).collect();
        assert_eq!(names, ["source -> time", "other", "second"], "a source has one such neighbour");
        assert_eq!(physical.tasks[0].outputs.len(), 2);
        assert!(physical.tasks[0].outputs.iter().all(|output| output.owner == 0));
    }

    #[test]
    fn tasks_of_a_lower_parallelism_are_spread_over_the_workers() {
        let mut nodes = vec![
            node("a", &[]),
            node("b", &[]),
            node("wide", &[(0, Exchange::Rebalance), (1, Exchange::Rebalance)]),
            node("two", &[(2, Exchange::Rebalance)]),
            node("sink", &[(3, Exchange::Forward)]),
            node("both", &[(0, Exchange::Forward), (1, Exchange::Forward)]),
        ];
        [0, 1, 5].iter().for_each(|at| nodes[*at].parallelism = Some(1));
        nodes[4].chaining = false;
        [3, 4].iter().for_each(|at| nodes[*at].parallelism = Some(2));
        let physical = plan(nodes).compile(4, true).unwrap();
        let workers = |task: &Task| {
            (0..task.parallelism as usize).map(|s| task.placement.worker_of(s)).collect::<Vec<_>>()
        };
        let all: Vec<_> = physical.tasks.iter().map(|task| (&*task.name, workers(task))).collect();
        let expected = [
            ("a", vec![0]),
            ("b", vec![1]),
            ("wide", vec![0, 1, 2, 3]),
            ("two", vec![2, 3]),
            ("sink", vec![2, 3]),
            ("both", vec![0]),
        ];
        assert_eq!(all, expected);
        for task in &physical.tasks {
            for subtask in 0..task.parallelism as usize {
                assert_eq!(task.placement.subtask_of(task.placement.worker_of(subtask)), subtask);
            }
            // two processes of three threads each have two workers too many
            for worker in 4..6 {
                let subtask = task.placement.subtask_of(worker);
                assert!(subtask >= task.parallelism as usize, "{} runs twice", task.name);
            }
        }
        let deliveries = |task: usize| {
            physical.tasks[task].outputs.iter().map(|output| matches!(output.delivery, Delivery::Local))
        };
        assert!(deliveries(3).all(|local| local), "a neighbour is on the same worker");
        assert_eq!(deliveries(0).collect::<Vec<_>>(), [false, true]);
        assert_eq!(
            deliveries(1).collect::<Vec<_>>(),
            [false, false],
            "the second input comes from another worker"
        );
    }

    #[test]
    fn forward_between_different_parallelisms_is_refused_with_both() {
        let mut nodes = vec![node("source", &[]), node("map", &[(0, Exchange::ForwardOnly)])];
        nodes[1].parallelism = Some(3);
        let error = plan(nodes).compile(2, true).err().unwrap().to_string();
        assert!(
            error.contains("`source`, which has parallelism 2") && error.contains("`map`, which has 3"),
            "{error}"
        );
    }

    #[test]
    fn an_operator_that_starts_a_chain_has_those_behind_it_in_its_task() {
        let mut nodes = vec![
            node("source", &[]),
            node("a", &[(0, Exchange::Forward)]),
            node("b", &[(1, Exchange::ForwardOnly)]),
        ];
        nodes[1].starts_chain = true;
        nodes[2].buffer_timeout = Some(Some(Duration::ZERO));
        let physical = plan(nodes).compile(2, true).unwrap();
        let names: Vec<_> = physical.tasks.iter().map(|task| &*task.name).collect();
        assert_eq!(names, ["source", "a -> b"]);
        let timeouts: Vec<_> = physical.tasks.iter().map(|task| task.buffer_timeout).collect();
        assert_eq!(timeouts, [None, Some(Some(Duration::ZERO))]);
    }

    #[test]
    fn a_parallelism_above_the_key_groups_is_refused() {
        let mut nodes = vec![node("source", &[])];
        nodes[0].max_parallelism = Some(4);
        let error = plan(nodes).compile(5, true).err().unwrap().to_string();
        assert!(error.contains("parallelism 5") && error.contains("max parallelism 4"), "{error}");
    }
}
