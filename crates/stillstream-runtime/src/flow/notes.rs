//! The second dataflow: credits back to the senders, and how far the members of a group of sources are. It
//! never blocks, and nothing waits for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::Operator as _;
use timely::dataflow::operators::generic::operator::source;
use timely::scheduling::Activator;
use timely::worker::Worker;

use super::Flow;
use super::credits::{Amount, Credit};

/// A message of the second dataflow.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
enum Note {
    /// So much of `edge` has been processed by worker `from`, and so many records may be in flight to it from
    /// now on.
    Credit { to: u64, from: u64, edge: u32, records: i64, bytes: i64, limit: i64 },
    /// The slowest member of `group` on worker `from` is at `watermark`.
    Group { to: u64, from: u64, group: u64, watermark: i64 },
}

impl Note {
    fn to(&self) -> u64 {
        match self {
            Self::Credit { to, .. } | Self::Group { to, .. } => *to,
        }
    }
}

impl Flow {
    /// Gives the notes that this worker has to send.
    fn write(&self, workers: u64, mut give: impl FnMut(Note)) {
        let from = self.worker as u64;
        self.credits.borrow_mut().take_owed(|Credit { to, edge, amount, limit }| {
            let Amount { records, bytes } = amount;
            give(Note::Credit { to, from, edge, records, bytes, limit });
        });
        for (group, watermark) in self.watermark_groups.take_news() {
            let others = (0..workers).filter(|to| *to != from);
            others.for_each(|to| give(Note::Group { to, from, group, watermark }));
        }
    }

    fn read(&self, note: Note) {
        match note {
            Note::Credit { from, edge, records, bytes, limit, .. } => {
                let amount = Amount { records, bytes };
                self.credits.borrow_mut().credited(edge, from as usize, amount, limit);
            }
            Note::Group { from, group, watermark, .. } => {
                self.watermark_groups.heard(from as usize, group, watermark);
            }
        }
    }
}

/// The second dataflow on this worker.
pub(crate) struct Notes {
    flow: Rc<Flow>,
    dataflow: usize,
    /// Runs the operator that sends notes; `None` until that has been built.
    sender: Rc<RefCell<Option<Activator>>>,
    /// The job's dataflow has ended, and this one is to end too.
    ended: Rc<Cell<bool>>,
}

impl Notes {
    pub fn build(worker: &mut Worker, flow: &Rc<Flow>) -> Self {
        let notes = Self {
            flow: flow.clone(),
            dataflow: worker.next_dataflow_index(),
            sender: Rc::default(),
            ended: Rc::default(),
        };
        let workers = worker.peers() as u64;
        let (from, to) = (flow.clone(), flow.clone());
        let (slot, ended) = (notes.sender.clone(), notes.ended.clone());
        worker.dataflow_named::<(), _, _>("credits", |scope| {
            let sent = source::<_, CapacityContainerBuilder<Vec<Note>>, _, _>(
                scope,
                "credits",
                move |capability, info| {
                    let own = scope.activator_for(info.address);
                    from.watermark_groups.set_sender(own.clone());
                    *slot.borrow_mut() = Some(own);
                    let mut capability = Some(capability);
                    move |output| {
                        if ended.get() {
                            capability = None;
                        }
                        let Some(capability) = &capability else { return };
                        let mut session = output.session(capability);
                        from.write(workers, |note| session.give(note));
                    }
                },
            );
            sent.sink(Exchange::new(Note::to), "credited", move |(input, _)| {
                input.for_each(|_, notes: &mut Vec<Note>| notes.drain(..).for_each(|note| to.read(note)));
            });
        });
        notes
    }

    /// Which dataflow of the worker it is.
    pub fn dataflow(&self) -> usize {
        self.dataflow
    }

    /// The job's dataflow has ended: so does this one.
    pub fn end(&self) {
        self.ended.set(true);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }

    fn owes(&self) -> bool {
        self.flow.credits.borrow().owed() > 0
    }

    /// Has what is owed sent in the step that comes, if it is much or if the worker has nothing else to do.
    pub fn prompt(&self, worker: &Worker) {
        let idle = || worker.activations().borrow().empty_for() != Some(Duration::ZERO);
        if self.has_ended() || (self.owes() && (self.flow.credits.borrow().owes_much() || idle())) {
            self.sender.borrow().iter().for_each(Activator::activate);
        }
    }

    /// How long the worker may sleep if nothing is active, `longest` at most. Whether something is active is
    /// known after the step only, and a worker that still owes credits must not fall asleep over them.
    pub fn park(&self, longest: Duration) -> Duration {
        if self.owes() { Duration::ZERO } else { longest }
    }
}
