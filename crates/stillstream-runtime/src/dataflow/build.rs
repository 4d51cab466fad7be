//! The Timely operator of a task: its inputs and outputs, and the subtask that runs behind them.

use std::rc::Rc;

use stillstream_types::{KeyGroups, Result, SubtaskId, SubtaskIndex};
use timely::container::NoopBuilder;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::{Scope, Stream};
use timely::progress::frontier::MutableAntichain;

use crate::dataflow::attempt::WorkerAttempt;
use crate::dataflow::chain::Chain;
use crate::dataflow::exchange::{Channel, directed};
use crate::dataflow::inputs::{Input, InputChannels};
use crate::dataflow::mailbox::Mailbox;
use crate::dataflow::outputs::{Outputs, Sessions};
use crate::dataflow::source_task::SourceTask;
use crate::dataflow::subtask::{Stage, Subtask};
use crate::dataflow::task::InputTask;
use crate::operator::batch::AnyBatch;
use crate::plan::{Delivery, Task, TaskInput, TaskOutput};
use crate::waker::Waker;

/// What a chain is told of the subtask that runs it.
pub(crate) struct SubtaskInfo {
    pub subtask: SubtaskId,
    pub waker: Waker,
}

/// A subtask of either kind.
enum AnyTask {
    Source(Box<SourceTask>),
    Input(Box<InputTask>),
}

impl AnyTask {
    fn subtask(&mut self) -> &mut Subtask {
        match self {
            Self::Source(task) => &mut task.subtask,
            Self::Input(task) => &mut task.subtask,
        }
    }

    fn activate(
        &mut self,
        frontiers: &[MutableAntichain<u64>],
        handles: &mut [Input],
        sessions: Sessions<'_, '_>,
    ) -> Result<()> {
        match self {
            Self::Source(task) => task.activate(sessions),
            Self::Input(task) => task.activate(frontiers, handles, sessions),
        }
    }
}

/// The channel of an input.
fn channel(input: &TaskInput, output: &TaskOutput, attempt: &Rc<WorkerAttempt>) -> Channel {
    let (edge, attempt) = (input.edge, attempt.clone());
    match &output.delivery {
        Delivery::Local => Channel::Local { edge, attempt },
        Delivery::SameSubtask
        | Delivery::Rebalance
        | Delivery::Rescale
        | Delivery::Global
        | Delivery::Broadcast => Channel::Exchange { edge, attempt, splitter: directed(), to: output.to },
        Delivery::Key(factory, groups) => {
            let splitter = factory(*groups, output.to_parallelism);
            Channel::Exchange { edge, attempt, splitter, to: output.to }
        }
        Delivery::Partition(factory) => {
            let groups = KeyGroups::new(output.to_parallelism);
            Channel::Exchange {
                edge,
                attempt,
                splitter: factory(groups, output.to_parallelism),
                to: output.to,
            }
        }
    }
}

/// Adds the Timely operator for `task` and returns the streams of its outputs. `open` opens the chain, if
/// this worker runs a subtask of the task; it has said why if it returns none.
pub(crate) fn add_task<'s>(
    scope: Scope<'s, u64>,
    attempt: &Rc<WorkerAttempt>,
    task: &Task,
    streams: &[Vec<Stream<'s, u64, AnyBatch>>],
    outputs_of: &dyn Fn(usize) -> Vec<TaskOutput>,
    open: impl FnOnce(&SubtaskInfo) -> Option<Chain>,
) -> Vec<Stream<'s, u64, AnyBatch>> {
    let mut builder = OperatorBuilder::new(task.name.to_string(), scope);
    let mut handles: Vec<Input> = Vec::new();
    for input in &task.inputs {
        let output = &outputs_of(input.from_task)[input.from_output];
        let stream = streams[input.from_task][input.from_output].clone();
        handles.push(builder.new_input(stream, channel(input, output, attempt)));
    }
    let mut outputs: Vec<OutputBuilder<u64, NoopBuilder<AnyBatch>>> = Vec::new();
    let mut produced = Vec::new();
    for _ in &task.outputs {
        let (output, stream) = builder.new_output::<AnyBatch>();
        outputs.push(OutputBuilder::from(output));
        produced.push(stream);
    }
    if task.outputs.is_empty() {
        // a capability that nobody reads: without one Timely would take the dataflow for complete once the
        // input is through, and drop it while a source waits, a window or timer still emits, or a sink
        // commits
        let _ = builder.new_output::<AnyBatch>();
    }
    let info = builder.operator_info();
    let activator = scope.activator_for(info.address.clone());
    let waker = Waker::new(scope.worker().sync_activator_for(info.address.to_vec()));
    let index = task.placement.subtask_of(attempt.worker) as u32;
    let active = index < task.parallelism;
    let id = SubtaskId { vertex: task.vertex, index: SubtaskIndex(index) };
    let mailbox = {
        let mut mailboxes = attempt.mailboxes.borrow_mut();
        mailboxes.push(Mailbox::new(activator.clone(), task.is_source(), active));
        mailboxes.len() - 1
    };
    let chain = if active { open(&SubtaskInfo { subtask: id, waker }) } else { None };
    let pending = Outputs::new(task, id.index);
    let mut subtask = Subtask::new(attempt.clone(), id, mailbox, chain, pending, activator, active);
    if let Some(timeout) = task.buffer_timeout {
        subtask.turn = subtask.turn.with_timeout(timeout);
    }
    let mut task = if task.is_source() {
        AnyTask::Source(Box::new(SourceTask { subtask }))
    } else {
        let (inputs, channels) = InputChannels::of(task, outputs_of);
        AnyTask::Input(Box::new(InputTask::new(subtask, inputs, channels)))
    };
    builder.build(move |capabilities| {
        if active {
            task.subtask().outputs.hold(capabilities);
        }
        move |frontiers| {
            let subtask = task.subtask();
            if matches!(subtask.stage, Stage::Done | Stage::Failed) {
                return;
            }
            subtask.attempt.metrics.enter(subtask.id.vertex.0);
            let mut sessions: Vec<_> = outputs.iter_mut().map(OutputBuilder::activate).collect();
            let result = task.activate(frontiers, &mut handles, &mut sessions);
            task.subtask().outputs.flush(&mut sessions);
            drop(sessions);
            if let AnyTask::Input(task) = &mut task {
                task.report_time();
            }
            let subtask = task.subtask();
            subtask.count();
            subtask.attempt.metrics.leave();
            if let Err(error) = result {
                subtask.fail(error);
            }
        }
    });
    produced
}
