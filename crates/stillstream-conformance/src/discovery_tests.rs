//! The suite finds what it is to find.

use std::sync::Mutex;

use stillstream_runtime::connect::{
    Assignments, Enumerator, EnumeratorContext, SourceContext, SplitEnumerator, SplitReader,
};
use stillstream_runtime::{Batch, SourceStatus};
use stillstream_types::{Result, SubtaskIndex};

use super::*;

/// What is wrong with the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// The enumerator forgets in its state what it has assigned.
    ForgetsWhatItAssigned,
    /// It says that it has assigned the next one too.
    SaysWhatItHasNotAssigned,
    /// The reader drops what it has when it is assigned something.
    ReaderDropsItsSplits,
    /// The reader leaves a split that is not done out of its positions.
    ReaderForgetsPositions,
}

/// Splits are numbers, each with three records.
struct Parts {
    there: Arc<Mutex<u64>>,
    fault: Fault,
}

struct Find {
    there: Arc<Mutex<u64>>,
    fault: Fault,
    assigned: u64,
    seen: u64,
}

impl SplitEnumerator for Find {
    type Split = (u64, u64);
    type State = u64;

    fn restore(&mut self, state: Option<u64>, held: Vec<(u64, u64)>) -> Result<()> {
        self.assigned = state.unwrap_or(held.len() as u64);
        Ok(())
    }
    fn discover(&mut self, assignments: &mut Assignments<(u64, u64)>) -> Result<Option<Duration>> {
        self.seen = *self.there.lock().unwrap();
        // the third one stays for whoever asks
        let now = if self.seen == 3 { 2 } else { self.seen }.max(self.assigned);
        (self.assigned..now).for_each(|part| assignments.assign((part, 0)));
        self.assigned = now;
        Ok(Some(Duration::from_secs(1)))
    }
    fn requested(&mut self, reader: SubtaskIndex, assignments: &mut Assignments<(u64, u64)>) -> Result<()> {
        if self.assigned < self.seen {
            assignments.assign_to(reader, (self.assigned, 0));
            self.assigned += 1;
        }
        Ok(())
    }
    fn state(&self) -> u64 {
        match self.fault {
            Fault::ForgetsWhatItAssigned => self.assigned.min(1),
            Fault::SaysWhatItHasNotAssigned => self.assigned + u64::from(self.assigned > 0),
            _ => self.assigned,
        }
    }
}

struct Reader {
    fault: Fault,
    splits: Vec<(u64, u64)>,
}

impl SplitSource for Parts {
    type Item = u64;
    type Split = (u64, u64);

    fn enumerator(&self, _: &EnumeratorContext) -> Result<Option<Enumerator<(u64, u64)>>> {
        let (there, fault) = (self.there.clone(), self.fault);
        Ok(Some(Enumerator::new(Find { there, fault, assigned: 0, seen: 0 })))
    }
    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<u64, (u64, u64)>>> {
        Ok(Box::new(Reader { fault: self.fault, splits: Vec::new() }))
    }
}

impl SplitReader<u64, (u64, u64)> for Reader {
    fn assign(&mut self, splits: Vec<(u64, u64)>) -> Result<()> {
        if self.fault == Fault::ReaderDropsItsSplits {
            self.splits.clear();
        }
        self.splits.extend(splits);
        Ok(())
    }
    fn poll(&mut self, _: usize, out: &mut Batch<u64>) -> Result<SourceStatus> {
        let Some((part, next)) = self.splits.iter_mut().find(|(_, next)| *next < 3) else {
            return Ok(SourceStatus::Ended);
        };
        out.values.push(*part * 10 + *next);
        *next += 1;
        Ok(SourceStatus::More)
    }
    fn positions(&self) -> Vec<(u64, u64)> {
        let begun = self.fault == Fault::ReaderForgetsPositions;
        self.splits.iter().copied().filter(|(_, next)| *next < 3 && !(begun && *next > 0)).collect()
    }
}

struct Target(Arc<Mutex<u64>>, Fault);

impl DiscoveryTarget for Target {
    type Source = Parts;
    fn source(&self) -> Parts {
        Parts { there: self.0.clone(), fault: self.1 }
    }
    fn add(&mut self) -> Vec<u64> {
        let mut there = self.0.lock().unwrap();
        *there += 1;
        (0..3).map(|n| (*there - 1) * 10 + n).collect()
    }
}

fn run(fault: Fault) {
    discovery(5, || Target(Arc::default(), fault));
}

#[test]
fn a_source_without_a_fault_passes() {
    run(Fault::None);
}

#[test]
#[should_panic(expected = "left == right")]
fn an_enumerator_that_forgets_what_it_assigned_is_found() {
    run(Fault::ForgetsWhatItAssigned);
}

#[test]
#[should_panic(expected = "came")]
fn an_enumerator_that_says_what_it_has_not_assigned_is_found() {
    run(Fault::SaysWhatItHasNotAssigned);
}

#[test]
#[should_panic(expected = "came")]
fn a_reader_that_drops_its_splits_is_found() {
    run(Fault::ReaderDropsItsSplits);
}

#[test]
#[should_panic(expected = "came")]
fn a_reader_that_forgets_a_position_is_found() {
    run(Fault::ReaderForgetsPositions);
}
