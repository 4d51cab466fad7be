//! What comes into a subtask: its inputs as channels, and the batches that have arrived.

use std::collections::VecDeque;
use std::time::Duration;

use stillstream_types::CheckpointingMode;
use timely::communication::Pull;
use timely::dataflow::channels::Message;
use timely::dataflow::operators::InputCapability;
use timely::dataflow::operators::generic::InputHandleCore;
use timely::progress::frontier::MutableAntichain;

use crate::clock::Clock;
use crate::operator::batch::AnyBatch;
use crate::plan::{Delivery, Placement, Task, TaskInput, TaskOutput};

/// Timely's side of an input.
pub(crate) type Input = InputHandleCore<u64, AnyBatch, Box<dyn Pull<Message<u64, AnyBatch>>>>;

/// While it lives, Timely counts the batch that it came with as not consumed, and every frontier downstream
/// (and the task's own) stays at its time.
pub(crate) type Guard = InputCapability<u64>;

/// The channels of one input: one from each sending subtask.
pub(crate) struct InputChannels {
    /// What the operator knows the input as.
    pub port: usize,
    pub edge: u32,
    /// The number of the first sender's channel.
    first: usize,
    /// Batches come from this worker alone.
    local: bool,
    /// Where the senders run.
    from: Placement,
    /// How many subtasks send.
    pub senders: usize,
}

impl InputChannels {
    /// The channels of a task's inputs, and how many there are.
    pub fn of(task: &Task, outputs_of: &dyn Fn(usize) -> Vec<TaskOutput>) -> (Vec<Self>, usize) {
        let mut channels = 0;
        let mut of = |input: &TaskInput| {
            let local = matches!(outputs_of(input.from_task)[input.from_output].delivery, Delivery::Local);
            let first = channels;
            let senders = if local { 1 } else { input.from_parallelism as usize };
            channels += senders;
            Self { port: input.port, edge: input.edge, first, local, from: input.from, senders }
        };
        let inputs = task.inputs.iter().map(&mut of).collect();
        (inputs, channels)
    }

    /// The channel from worker `from`.
    pub fn channel(&self, from: usize) -> usize {
        self.first + if self.local { 0 } else { self.from.subtask_of(from) }
    }
}

/// A batch that has arrived, with its guard.
pub(crate) struct Queued {
    epoch: u64,
    pub input: usize,
    pub batch: AnyBatch,
    pub guard: Guard,
}

/// The batches that have arrived and were not begun yet.
#[derive(Default)]
pub(crate) struct InputQueue {
    /// To be processed in the present epoch.
    now: VecDeque<Queued>,
    /// Set aside until their epoch comes.
    later: VecDeque<Queued>,
    /// The alignment that is under way, if anything had to be set aside for it.
    aligning: Option<Aligning>,
}

/// What one alignment has cost so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aligning {
    /// When the first batch was set aside: by the clock, and in milliseconds since 1970.
    pub since: Duration,
    pub since_ms: i64,
    /// How many bytes were, as senders have estimated them.
    pub bytes: u64,
}

impl InputQueue {
    /// Takes everything that has arrived. What is later than `epoch` is set aside if barriers align.
    pub fn pull(&mut self, handles: &mut [Input], epoch: u64, mode: CheckpointingMode, clock: &dyn Clock) {
        let aligned = mode == CheckpointingMode::ExactlyOnce;
        for (input, handle) in handles.iter_mut().enumerate() {
            handle.for_each(|guard, data| {
                let of = guard.stamp().elements().first().copied().unwrap_or_default();
                let queued = Queued { epoch: of, input, batch: std::mem::take(data), guard };
                if aligned && of > epoch {
                    let begin = || Aligning { since: clock.elapsed(), since_ms: clock.now_ms(), bytes: 0 };
                    self.aligning.get_or_insert_with(begin).bytes += queued.batch.bytes;
                    self.later.push_back(queued);
                } else {
                    self.now.push_back(queued);
                }
            });
        }
    }

    /// The next batch of the present epoch.
    pub fn next(&mut self) -> Option<Queued> {
        self.now.pop_front()
    }

    /// The least epoch that is set aside; the largest number if none is.
    pub fn least_later(&self) -> u64 {
        self.later.iter().map(|queued| queued.epoch).min().unwrap_or(u64::MAX)
    }

    /// Whether nothing is set aside.
    pub fn has_nothing_later(&self) -> bool {
        self.later.is_empty()
    }

    /// The alignment is over.
    pub fn take_aligning(&mut self) -> Option<Aligning> {
        self.aligning.take()
    }

    /// The present epoch is `epoch` now.
    pub fn move_to(&mut self, epoch: u64) {
        for queued in std::mem::take(&mut self.later) {
            let target = if queued.epoch <= epoch { &mut self.now } else { &mut self.later };
            target.push_back(queued);
        }
    }
}

/// The least epoch over the frontiers of all inputs; the end of all inputs is the largest number.
pub(crate) fn low_epoch(frontiers: &[MutableAntichain<u64>]) -> u64 {
    let of = |frontier: &MutableAntichain<u64>| frontier.frontier().iter().copied().min();
    frontiers.iter().filter_map(of).min().unwrap_or(u64::MAX)
}
