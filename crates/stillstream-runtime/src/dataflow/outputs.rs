//! What a subtask emits. A batch waits here for the marks that may follow it, at most until the end of the
//! turn.

use std::ops::Range;

use stillstream_types::SubtaskIndex;
use timely::container::NoopBuilder;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilderSession;

use crate::dataflow::chain::Ports;
use crate::operator::batch::AnyBatch;
use crate::operator::event_time::{EventTime, Mark};
use crate::plan::{Delivery, Task, TaskOutput};

/// Timely's side of the outputs during one activation.
pub(crate) type Sessions<'a, 'b> = &'a mut [OutputBuilderSession<'b, u64, NoopBuilder<AnyBatch>>];

/// An output, and what it will send next.
struct Pending {
    to: TaskOutput,
    batch: AnyBatch,
    /// For an output that deals records out: to whom, and whose turn it is.
    targets: Range<u32>,
    next_target: u32,
}

/// The subtasks of the consumer that get the records of one of `from` subtasks.
fn targets(delivery: &Delivery, index: u32, from: u32, to: u32) -> Range<u32> {
    match delivery {
        Delivery::Global => 0..1,
        Delivery::SameSubtask => index..index + 1,
        // as many senders for each of the few, or as many receivers for each sender
        Delivery::Rescale if to > from => {
            let begin = |index: u32| (u64::from(index) * u64::from(to)).div_ceil(u64::from(from)) as u32;
            begin(index)..begin(index + 1)
        }
        Delivery::Rescale => {
            let target = (u64::from(index) * u64::from(to) / u64::from(from)) as u32;
            target..target + 1
        }
        Delivery::Local
        | Delivery::Rebalance
        | Delivery::Broadcast
        | Delivery::Key(..)
        | Delivery::Partition(_) => 0..to,
    }
}

/// The outputs of a subtask, with one capability each, all at the subtask's epoch.
pub(crate) struct Outputs {
    pending: Vec<Pending>,
    /// Empty while the subtask does not run here, and once it is done.
    capabilities: Vec<Capability<u64>>,
}

impl Outputs {
    pub fn new(task: &Task, index: SubtaskIndex) -> Self {
        let pending = |to: &TaskOutput| {
            let targets = targets(&to.delivery, index.0, task.parallelism, to.to_parallelism);
            Pending { to: to.clone(), batch: AnyBatch::default(), targets, next_target: index.0 }
        };
        Self { pending: task.outputs.iter().map(pending).collect(), capabilities: Vec::new() }
    }

    /// Nothing downstream is complete as long as these are held.
    pub fn hold(&mut self, capabilities: Vec<Capability<u64>>) {
        self.capabilities = capabilities;
    }

    /// What is emitted from now on belongs to this epoch.
    pub fn move_to(&mut self, epoch: u64) {
        self.capabilities.iter_mut().for_each(|capability| capability.downgrade(&epoch));
    }

    /// Whoever reads the outputs learns that this was all.
    pub fn close(&mut self) {
        self.capabilities.clear();
    }

    /// Sends what waits.
    pub fn flush(&mut self, sessions: Sessions<'_, '_>) {
        if !self.capabilities.is_empty() {
            let mut outlet = Outlet { sessions, outputs: self };
            (0..outlet.outputs.pending.len()).for_each(|output| outlet.flush(output));
        }
    }

    /// The edges that leave the task.
    pub fn edges(&self) -> impl Iterator<Item = u32> + '_ {
        self.pending.iter().map(|pending| pending.to.edge)
    }

    /// The batches that wait, with their edges.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, &AnyBatch)> + '_ {
        let waiting = self.pending.iter().filter(|pending| !pending.batch.is_empty());
        waiting.map(|pending| (pending.to.edge, &pending.batch))
    }
}

/// Emits under the subtask's capabilities.
pub(crate) struct Outlet<'a, 'b> {
    pub sessions: Sessions<'a, 'b>,
    pub outputs: &'a mut Outputs,
}

impl Outlet<'_, '_> {
    /// Sends what waits.
    fn flush(&mut self, output: usize) {
        let Outputs { pending, capabilities } = &mut *self.outputs;
        let Pending { to, batch, targets, next_target } = &mut pending[output];
        if batch.is_void() {
            return;
        }
        let batch = std::mem::take(batch);
        let mut session = self.sessions[output].session_with_builder(&capabilities[output]);
        // each subtask of the consumer gets every mark, and each copy counts
        let marks = batch.marks().len() as u32;
        let mut give = |mut batch: AnyBatch, weight: u32| {
            batch.weight = weight;
            session.give_container(&mut batch);
        };
        match to.delivery {
            Delivery::Local => give(batch, marks),
            Delivery::Key(..) | Delivery::Partition(_) => give(batch, marks * to.to_parallelism),
            Delivery::Broadcast => {
                for target in 1..to.to_parallelism {
                    let mut copy = batch.clone();
                    copy.to = target;
                    give(copy, marks);
                }
                give(batch, marks);
            }
            Delivery::SameSubtask | Delivery::Rebalance | Delivery::Rescale | Delivery::Global => {
                let (first, parallelism) = (*next_target, to.to_parallelism);
                *next_target = deal_out(batch, first, targets, parallelism, |batch| give(batch, marks));
            }
        }
    }
}

impl Ports for Outlet<'_, '_> {
    fn send(&mut self, output: usize, batch: AnyBatch) {
        self.flush(output);
        self.outputs.pending[output].batch = batch;
    }

    fn mark(&mut self, output: usize, time: EventTime) {
        self.outputs.pending[output].batch.mark(time);
    }
}

/// Deals the records of a batch out to the `targets` of `parallelism` subtasks, as evenly as can be, in
/// pieces that lie together, and every mark to each subtask; returns whose turn is next. Of several targets
/// the one of number `first`, counted from their beginning and round and round, begins.
fn deal_out(
    mut batch: AnyBatch,
    first: u32,
    targets: &Range<u32>,
    parallelism: u32,
    mut give: impl FnMut(AnyBatch),
) -> u32 {
    let marks = batch.take_marks();
    let len = targets.end - targets.start;
    let share = batch.len().div_ceil(len as usize);
    let others = (0..parallelism).filter(|target| !targets.contains(target));
    let (mut turn, mut start) = (first % len, 0);
    let mut next = turn;
    for _ in 0..len {
        let mut piece = std::mem::take(&mut batch);
        if piece.len() > share {
            batch = piece.split_off(share);
        }
        let end = start + piece.len() as u32;
        let place = |mark: &Mark| Mark { at: mark.at.clamp(start, end) - start, time: mark.time };
        piece.set_marks(marks.iter().map(place).collect());
        piece.to = targets.start + turn;
        if !piece.is_void() {
            give(piece);
        }
        turn = (turn + 1) % len;
        if end > start {
            next = turn;
        }
        start = end;
    }
    if !marks.is_empty() {
        for target in others {
            let mut piece = AnyBatch::default();
            piece.set_marks(marks.iter().map(|mark| Mark { at: 0, time: mark.time }).collect());
            piece.to = target;
            give(piece);
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::batch::Batch;

    #[test]
    fn records_are_dealt_out_evenly_and_every_subtask_gets_each_mark_at_its_place() {
        for (records, parallelism) in [(500u64, 8), (3, 8), (0, 3), (1_024, 1), (10, 3)] {
            let at = |watermark| EventTime { watermark, idle: false };
            let mut batch = AnyBatch::from(Batch::new((0..records).collect()));
            let marks = [(0, 1), (records as u32 / 2, 2), (records as u32, 3)];
            batch.set_marks(marks.map(|(place, watermark)| Mark { at: place, time: at(watermark) }).to_vec());
            let mut parts = vec![(Vec::new(), Vec::new()); parallelism as usize];
            let next = deal_out(batch, 5, &(0..parallelism), parallelism, |batch| {
                let part: &mut (Vec<u64>, Vec<(u64, i64)>) = &mut parts[batch.to as usize];
                let marks: Vec<Mark> = batch.marks().to_vec();
                let values = batch.take::<u64>().unwrap().values;
                // how many records of the whole batch came before the mark, as far as this part tells
                let before = |mark: &Mark| values[..mark.at as usize].last().map_or(0, |last| last + 1);
                part.1.extend(marks.iter().map(|mark| (before(mark), mark.time.watermark)));
                part.0.extend(values);
            });
            let mut all: Vec<u64> = parts.iter().flat_map(|(values, _)| values.clone()).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..records));
            let most = records.div_ceil(u64::from(parallelism)) as usize;
            assert!(parts.iter().all(|(values, _)| values.len() <= most), "{records} on {parallelism}");
            for (values, marks) in &parts {
                let marks: Vec<i64> = marks.iter().map(|(_, watermark)| *watermark).collect();
                assert_eq!(marks, [1, 2, 3], "{records} on {parallelism}: {values:?}");
            }
            assert!(next < parallelism);
        }
    }

    #[test]
    fn rescaling_gives_each_sender_its_share_and_reaches_everybody() {
        for (from, to) in [(1, 1), (1, 4), (2, 4), (4, 2), (3, 5), (5, 3), (4, 4), (7, 2)] {
            let all: Vec<Range<u32>> =
                (0..from).map(|index| targets(&Delivery::Rescale, index, from, to)).collect();
            let reached: std::collections::BTreeSet<u32> = all.iter().cloned().flatten().collect();
            assert!(reached.into_iter().eq(0..to), "{from} to {to}: {all:?}");
            let lens: Vec<usize> = all.iter().map(Range::len).collect();
            let (least, most) = (lens.iter().min().unwrap(), lens.iter().max().unwrap());
            assert!(*least > 0 && most - least <= 1, "{from} to {to}: {all:?}");
        }
    }

    #[test]
    fn those_that_get_no_records_get_every_mark() {
        let mut batch = AnyBatch::from(Batch::new((0..10u64).collect()));
        let time = EventTime { watermark: 7, idle: false };
        batch.set_marks(vec![Mark { at: 4, time }]);
        let mut got = Vec::new();
        deal_out(batch, 3, &(1..2), 3, |batch| got.push((batch.to, batch.len(), batch.marks()[0].at)));
        got.sort_unstable();
        assert_eq!(got, [(0, 0, 0), (1, 10, 4), (2, 0, 0)]);
    }
}
