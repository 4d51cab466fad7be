//! What a subtask emits. A batch waits here for the marks that may follow it, at most until the end of the
//! turn.

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
    /// For an output that deals records out: whose turn it is.
    next_target: u32,
}

/// The outputs of a subtask, with one capability each, all at the subtask's epoch.
pub(crate) struct Outputs {
    pending: Vec<Pending>,
    /// Empty while the subtask does not run here, and once it is done.
    capabilities: Vec<Capability<u64>>,
}

impl Outputs {
    pub fn new(task: &Task, index: SubtaskIndex) -> Self {
        let pending =
            |to: &TaskOutput| Pending { to: to.clone(), batch: AnyBatch::default(), next_target: index.0 };
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
        let Pending { to, batch, next_target } = &mut pending[output];
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
            Delivery::Key(..) => give(batch, marks * to.to_parallelism),
            Delivery::Broadcast => {
                for target in 1..to.to_parallelism {
                    let mut copy = batch.clone();
                    copy.to = target;
                    give(copy, marks);
                }
                give(batch, marks);
            }
            Delivery::Rebalance => {
                let (first, parallelism) = (*next_target, to.to_parallelism);
                *next_target = deal_out(batch, first, parallelism, |batch| give(batch, marks));
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

/// Deals the records of a batch out to `parallelism` subtasks, as evenly as can be, in pieces that lie
/// together, and every mark to each of them; returns whose turn is next.
fn deal_out(mut batch: AnyBatch, first: u32, parallelism: u32, mut give: impl FnMut(AnyBatch)) -> u32 {
    let marks = batch.take_marks();
    let share = batch.len().div_ceil(parallelism as usize);
    let (mut target, mut start) = (first % parallelism, 0);
    let mut next = target;
    for _ in 0..parallelism {
        let mut piece = std::mem::take(&mut batch);
        if piece.len() > share {
            batch = piece.split_off(share);
        }
        let end = start + piece.len() as u32;
        let place = |mark: &Mark| Mark { at: mark.at.clamp(start, end) - start, time: mark.time };
        piece.set_marks(marks.iter().map(place).collect());
        piece.to = target;
        if !piece.is_void() {
            give(piece);
        }
        target = (target + 1) % parallelism;
        if end > start {
            next = target;
        }
        start = end;
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
            let next = deal_out(batch, 5, parallelism, |batch| {
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
}
