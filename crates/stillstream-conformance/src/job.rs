//! All readers of a source and its enumerator, with mail between them that is delivered when the test wants it.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use stillstream_runtime::connect::{Enumerate, Found, SplitSource};
use stillstream_runtime::testing::redistribute;
use stillstream_runtime::{OpenContext, SourceStatus};
use stillstream_types::{OperatorSubtaskState, SubtaskIndex};

use crate::driver::{SourceDriver, enumerator};

/// What a checkpoint has of a source.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct JobState {
    pub readers: Vec<OperatorSubtaskState>,
    pub enumerator: Option<Arc<[u8]>>,
}

impl JobState {
    /// Bytes of it.
    pub fn len(&self) -> usize {
        let enumerator = self.enumerator.as_ref().map_or(0, |state| state.len());
        enumerator + self.readers.iter().map(OperatorSubtaskState::len).sum::<u64>() as usize
    }
}

/// What waits for a reader.
enum Mail {
    Assigned(Rc<Found>, Option<SubtaskIndex>),
    Barrier,
}

struct Reader<S: SplitSource> {
    driver: SourceDriver<S>,
    mail: VecDeque<Mail>,
    /// What it has emitted that no checkpoint covers yet.
    emitted: Vec<S::Item>,
    /// It has nothing to read before it is told of splits, as far as is known.
    has_none: bool,
    /// Its part of the checkpoint that is under way, and what it had emitted before that.
    cut: Option<(OperatorSubtaskState, Vec<S::Item>)>,
}

/// The readers and the enumerator, as a JobManager and workers have them.
pub(crate) struct Job<S: SplitSource> {
    enumerator: Box<dyn Enumerate>,
    state: Option<Arc<[u8]>>,
    readers: Vec<Reader<S>>,
    /// The enumerator's state in the checkpoint that is under way.
    under_way: Option<Option<Arc<[u8]>>>,
}

impl<S: SplitSource> Job<S> {
    /// Opens all of it; nothing is assigned yet.
    pub fn open(source: &Arc<S>, parallelism: usize, restored: Option<&JobState>) -> Self {
        let states = restored.map(|restored| redistribute(&restored.readers, parallelism));
        let state = restored.and_then(|restored| restored.enumerator.clone());
        let held = states.as_ref().map(|states| (state.clone(), states[0].clone()));
        let open = |subtask: usize| {
            let context = OpenContext::for_test("source", subtask as u32, parallelism as u32);
            let state = states.as_ref().map(|states| states[subtask].clone());
            let driver = SourceDriver::without_splits(source, context, state).expect("the source opens");
            let has_none = restored.is_none();
            Reader { driver, mail: VecDeque::new(), emitted: Vec::new(), has_none, cut: None }
        };
        let readers = (0..parallelism).map(open).collect();
        let enumerator = enumerator(source, parallelism, held).expect("the enumerator begins");
        Self { enumerator, state, readers, under_way: None }
    }

    /// The same, with all splits that are there assigned and taken.
    pub fn begin(source: &Arc<S>, parallelism: usize, restored: Option<&JobState>) -> Self {
        let mut job = Self::open(source, parallelism, restored);
        job.discover();
        job.deliver_all();
        job
    }

    fn found(&mut self, found: Found, answers: Option<SubtaskIndex>) {
        self.state = Some(found.state.as_slice().into());
        let found = Rc::new(found);
        for reader in &mut self.readers {
            reader.mail.push_back(Mail::Assigned(found.clone(), answers));
        }
    }

    /// The enumerator looks; what it assigns is on its way.
    pub fn discover(&mut self) {
        let found = self.enumerator.discover().expect("the enumerator looks for splits");
        self.found(found, None);
    }

    /// A checkpoint begins: it has the enumerator's state as of now. `false`: one is under way.
    pub fn trigger(&mut self) -> bool {
        let begins = self.under_way.is_none();
        if begins {
            self.under_way = Some(self.state.clone());
            self.readers.iter_mut().for_each(|reader| reader.mail.push_back(Mail::Barrier));
        }
        begins
    }

    /// Each reader takes one message, if it has any; `false`: nobody has.
    pub fn deliver(&mut self) -> bool {
        let mut any = false;
        for (at, reader) in self.readers.iter_mut().enumerate() {
            let Some(mail) = reader.mail.pop_front() else { continue };
            any = true;
            match mail {
                Mail::Assigned(found, answers) => {
                    reader.has_none &= found.splits.iter().all(|(to, _)| to.0 as usize != at);
                    reader.driver.take(&found, answers).expect("the reader takes its splits");
                }
                Mail::Barrier => {
                    let state = reader.driver.positions().expect("the source takes a snapshot");
                    reader.cut = Some((state, std::mem::take(&mut reader.emitted)));
                }
            }
        }
        any
    }

    pub fn deliver_all(&mut self) {
        while self.deliver() {}
    }

    /// The checkpoint that was under way, if all readers have taken its barrier, with the records that it
    /// covers and none before it does.
    pub fn completed(&mut self) -> Option<(JobState, Vec<S::Item>)> {
        if self.under_way.is_none() || self.readers.iter().any(|reader| reader.cut.is_none()) {
            return None;
        }
        let (mut state, mut covered) = (JobState::default(), Vec::new());
        state.enumerator = self.under_way.take().flatten();
        for (part, emitted) in self.readers.iter_mut().filter_map(|reader| reader.cut.take()) {
            state.readers.push(part);
            covered.extend(emitted);
        }
        Some((state, covered))
    }

    /// A checkpoint, from its trigger to its completion.
    pub fn checkpoint(&mut self) -> (JobState, Vec<S::Item>) {
        self.trigger();
        self.deliver_all();
        self.completed().expect("all readers have taken the barrier")
    }

    /// Asks a reader for records once, and its enumerator for splits if it wants some; returns whether records
    /// came, and how the reader is.
    pub fn poll(&mut self, reader: usize, max_records: usize) -> (usize, SourceStatus) {
        let (status, records, asks) =
            self.readers[reader].driver.poll(max_records).expect("the source reads");
        let came = records.len();
        self.readers[reader].emitted.extend(records);
        self.readers[reader].has_none |= asks;
        if asks {
            let reader = SubtaskIndex(reader as u32);
            let found = self.enumerator.requested(reader).expect("the enumerator answers");
            self.found(found, Some(reader));
        }
        (came, status)
    }

    /// Whether it is clear that this reader has nothing to read.
    pub fn has_none(&self, reader: usize) -> bool {
        self.readers[reader].has_none
    }

    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// What was emitted that no checkpoint covers.
    pub fn emitted(&self) -> Vec<S::Item> {
        let cut = |reader: &Reader<S>| reader.cut.as_ref().map(|(_, emitted)| emitted.clone());
        let all = self.readers.iter().flat_map(|r| [cut(r).unwrap_or_default(), r.emitted.clone()]);
        all.flatten().collect()
    }
}
