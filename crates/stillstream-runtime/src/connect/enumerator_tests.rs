//! Enumerators with types and as bytes: what they assign, and what becomes of their state.

use std::sync::Mutex;
use std::time::Duration;

use stillstream_state::MemorySnapshotStore;
use stillstream_types::{CheckpointId, OperatorSubtaskState, SnapshotForm};

use super::*;
use crate::connect::SourceOperator;
use crate::connect::{SourceContext, SplitReader};
use crate::operator::batch::Batch;
use crate::operator::enumeration::EnumeratorContext;
use crate::operator::{OpenContext, Output, Source, SourceStatus};

/// Splits are numbers, of which a reader reads ten records each. Those that are there are in a list.
struct Tens {
    there: Arc<Mutex<Vec<u64>>>,
    /// It lists again, and never ends.
    again: bool,
    by_number: bool,
}

#[derive(Default)]
struct Reader(Vec<(u64, u64)>);

impl SplitSource for Tens {
    type Item = u64;
    type Split = (u64, u64);

    fn splits(&self) -> Result<Vec<(u64, u64)>> {
        Ok(self.there.lock().unwrap().iter().map(|split| (*split, 0)).collect())
    }
    fn enumerator(&self, _: &EnumeratorContext) -> Result<Option<Enumerator<(u64, u64)>>> {
        let there = self.there.clone();
        let list = move || Ok(there.lock().unwrap().iter().map(|split| (*split, 0)).collect());
        Ok(self
            .again
            .then(|| Enumerator::listing(Duration::from_secs(1), |split: &(u64, u64)| split.0, list)))
    }
    fn reader_of(&self, split: &(u64, u64), readers: u32) -> Option<u32> {
        self.by_number.then(|| (split.0 % u64::from(readers)) as u32)
    }
    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<u64, (u64, u64)>>> {
        Ok(Box::<Reader>::default())
    }
}

impl SplitReader<u64, (u64, u64)> for Reader {
    fn assign(&mut self, splits: Vec<(u64, u64)>) -> Result<()> {
        self.0.extend(splits);
        Ok(())
    }
    fn poll(&mut self, _: usize, out: &mut Batch<u64>) -> Result<SourceStatus> {
        let Some((split, next)) = self.0.iter_mut().find(|(_, next)| *next < 10) else {
            return Ok(SourceStatus::Ended);
        };
        out.values.push(*split * 100 + *next);
        *next += 1;
        Ok(SourceStatus::More)
    }
    fn positions(&self) -> Vec<(u64, u64)> {
        self.0.iter().copied().filter(|(_, next)| *next < 10).collect()
    }
}

fn tens(there: &[u64], again: bool) -> Arc<Tens> {
    Arc::new(Tens { there: Arc::new(Mutex::new(there.to_vec())), again, by_number: false })
}

fn enumerator(source: &Arc<Tens>, readers: u32, restored: Option<RestoredSplits>) -> Box<dyn Enumerate> {
    let context = EnumeratorContext::for_test("tens", readers);
    let mut enumerator = enumerator_factory(source.clone()).make(&context).unwrap();
    enumerator.open(restored).unwrap();
    enumerator
}

fn restored(state: Option<&[u8]>, readers: OperatorSubtaskState) -> Option<RestoredSplits> {
    let store = Arc::new(MemorySnapshotStore::default());
    Some(RestoredSplits { state: state.map(Arc::from), readers, store })
}

/// Which reader gets which splits.
fn assigned(found: &Found) -> Vec<(u32, u64)> {
    found.splits.iter().map(|(to, bytes)| (to.0, <(u64, u64)>::decode(&mut &bytes[..]).unwrap().0)).collect()
}

fn open(
    source: &Arc<Tens>,
    subtask: u32,
    of: u32,
    state: Option<OperatorSubtaskState>,
) -> SourceOperator<Tens> {
    let context = OpenContext::for_test("tens", subtask, of);
    let mut context = match state {
        Some(state) => context.restored_for_test(2, CheckpointId(1), state),
        None => context,
    };
    let mut operator = SourceOperator::new(source.clone());
    operator.open(&mut context).unwrap();
    operator
}

fn assign(operator: &mut SourceOperator<Tens>, found: &Found, mine: u32, answers: bool) {
    let splits = found.splits.iter().filter(|(to, _)| to.0 == mine);
    let splits: Vec<&[u8]> = splits.map(|(_, split)| &split[..]).collect();
    operator.assign(&splits, answers, found.no_more).unwrap();
}

fn snapshot(operator: &mut SourceOperator<Tens>) -> OperatorSubtaskState {
    let write = operator.snapshot(CheckpointId(1), SnapshotForm::Checkpoint).unwrap().unwrap();
    write(&MemorySnapshotStore::default()).unwrap()
}

fn poll(operator: &mut SourceOperator<Tens>) -> (SourceStatus, Vec<u64>, Vec<bool>) {
    let mut out = Output::default();
    let status = operator.poll(10, &mut out).unwrap();
    let batches = out.take_batches().into_iter();
    let values = batches.flat_map(|batch| batch.take::<u64>().unwrap().values).collect();
    (status, values, out.take_idle())
}

const WAITS: SourceStatus = SourceStatus::Idle { until_ms: None };

#[test]
fn the_short_form_lists_once_deals_out_evenly_and_ends() {
    let source = tens(&[1, 2, 3, 4, 5], false);
    let mut first = enumerator(&source, 2, None);
    let found = first.discover().unwrap();
    assert_eq!(assigned(&found), [(0, 1), (1, 2), (0, 3), (1, 4), (0, 5)]);
    assert!(found.no_more && found.again.is_none());
    // also where the list is another one by now
    source.there.lock().unwrap().push(6);
    let mut again = enumerator(&source, 2, restored(Some(&found.state), OperatorSubtaskState::default()));
    let found = again.discover().unwrap();
    assert!(found.splits.is_empty() && found.no_more, "what was listed in the snapshot stays the input");
}

#[test]
fn a_snapshot_of_before_there_were_enumerators_has_all_splits_dealt_out() {
    let source = tens(&[1, 2], false);
    let mut reader = open(&source, 0, 1, None);
    assign(&mut reader, &enumerator(&source, 1, None).discover().unwrap(), 0, false);
    let mut old = enumerator(&source, 1, restored(None, snapshot(&mut reader)));
    let found = old.discover().unwrap();
    assert!(found.splits.is_empty() && found.no_more);
    // one that was taken before anything was assigned has them to come
    let empty = snapshot(&mut open(&source, 0, 1, None));
    let found = enumerator(&source, 1, restored(None, empty)).discover().unwrap();
    assert_eq!(assigned(&found), [(0, 1), (0, 2)]);
}

#[test]
fn a_source_that_begins_to_discover_knows_the_splits_that_its_readers_had() {
    let source = tens(&[1, 2], true);
    let mut reader = open(&source, 0, 1, None);
    assign(&mut reader, &enumerator(&source, 1, None).discover().unwrap(), 0, false);
    source.there.lock().unwrap().push(3);
    let mut old = enumerator(&source, 1, restored(None, snapshot(&mut reader)));
    assert_eq!(assigned(&old.discover().unwrap()), [(0, 3)]);
}

#[test]
fn new_splits_go_to_whoever_has_been_given_the_fewest_or_where_the_source_says() {
    let source = tens(&[1, 2, 3], true);
    let mut even = enumerator(&source, 2, None);
    let found = even.discover().unwrap();
    assert_eq!(assigned(&found), [(0, 1), (1, 2), (0, 3)]);
    assert_eq!(even.discover().unwrap().splits, [], "nothing is assigned twice");
    source.there.lock().unwrap().extend([9, 8]);
    assert_eq!(assigned(&even.discover().unwrap()), [(1, 9), (0, 8)]);

    let there = source.there.clone();
    let named = Arc::new(Tens { there, again: true, by_number: true });
    let mut found = assigned(&enumerator(&named, 3, None).discover().unwrap());
    found.sort();
    assert_eq!(found, [(0, 3), (0, 9), (1, 1), (2, 2), (2, 8)]);
    // and so they do when what readers had is dealt out anew
    let mut reader = open(&named, 0, 1, None);
    assign(&mut reader, &enumerator(&named, 1, None).discover().unwrap(), 0, false);
    let state = snapshot(&mut reader);
    let of = |subtask| open(&named, subtask, 3, Some(state.clone())).reader.unwrap().positions();
    assert_eq!(of(0).iter().map(|(split, _)| *split).collect::<Vec<_>>(), [3, 9]);
    assert_eq!(of(1).iter().map(|(split, _)| *split).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_state_that_cannot_be_read_says_what_is_the_matter() {
    let source = tens(&[1], true);
    let state = enumerator(&source, 1, None).discover().unwrap().state;
    let open = |source: &Arc<Tens>, state: &[u8]| {
        let context = EnumeratorContext::for_test("tens", 1);
        let mut enumerator = enumerator_factory(source.clone()).make(&context).unwrap();
        enumerator.open(restored(Some(state), OperatorSubtaskState::default())).unwrap_err()
    };
    for cut in 0..state.len() {
        let error = open(&source, &state[..cut]);
        assert_eq!(error.kind(), ErrorKind::CorruptSnapshot, "cut at {cut}: {error}");
    }
    let longer = open(&source, &[&state[..], &[0]].concat());
    assert!(longer.to_string().contains("1 bytes are left over"), "{longer}");
    let newer = open(&source, &[&[9], &state[1..]].concat());
    assert!(newer.to_string().contains("has version 9"), "{newer}");
    // the short form keeps something else
    let other = open(&tens(&[1], false), &state);
    assert_eq!(other.kind(), ErrorKind::Configuration);
    assert!(other.to_string().contains("is of another type"), "{other}");
}

#[test]
fn an_assignment_to_a_reader_that_does_not_exist_is_refused() {
    struct Wrong;
    impl SplitEnumerator for Wrong {
        type Split = (u64, u64);
        type State = ();
        fn restore(&mut self, _: Option<()>, _: Vec<(u64, u64)>) -> Result<()> {
            Ok(())
        }
        fn discover(&mut self, assignments: &mut Assignments<(u64, u64)>) -> Result<Option<Duration>> {
            assignments.assign_to(SubtaskIndex(assignments.readers()), (1, 0));
            Ok(None)
        }
        fn state(&self) {}
    }
    let inner = Enumerator::new(Wrong).0;
    let mut wrong = SourceEnumerator { source: tens(&[], true), inner, given: vec![0; 2] };
    let error = wrong.discover().unwrap_err().to_string();
    assert!(error.contains("to reader 2 of 2"), "{error}");
}

#[test]
fn a_reader_without_splits_is_idle_once_it_is_known_that_there_are_none_for_it() {
    let source = tens(&[1], true);
    let mut listing = enumerator(&source, 2, None);
    let (mut first, mut second) = (open(&source, 0, 2, None), open(&source, 1, 2, None));
    // before the first answer it may get some, and its records must not be late then
    assert_eq!(poll(&mut second), (WAITS, vec![], vec![]));
    assert!(!second.wants_splits());
    let found = listing.discover().unwrap();
    assign(&mut first, &found, 0, false);
    assign(&mut second, &found, 1, false);
    // it asks, once, and until that is answered it may still get some
    assert_eq!(poll(&mut second), (WAITS, vec![], vec![]));
    assert!(second.wants_splits() && !second.wants_splits());
    assert_eq!(poll(&mut second), (WAITS, vec![], vec![]));
    let nothing = listing.requested(SubtaskIndex(1)).unwrap();
    assign(&mut second, &nothing, 1, true);
    assert_eq!(poll(&mut second), (WAITS, vec![], vec![true]));
    assert_eq!(poll(&mut second), (WAITS, vec![], vec![]), "it is said once");
    // it is active again before its records come
    source.there.lock().unwrap().push(2);
    let found = listing.discover().unwrap();
    assert_eq!(assigned(&found), [(1, 2)]);
    assign(&mut second, &found, 1, false);
    assert_eq!(poll(&mut second), (SourceStatus::More, vec![200], vec![false]));
    assert_eq!(poll(&mut first), (SourceStatus::More, vec![100], vec![]));
}

#[test]
fn a_reader_ends_when_all_is_read_and_no_more_will_come() {
    let source = tens(&[1], false);
    let mut reader = open(&source, 0, 1, None);
    let found = enumerator(&source, 1, None).discover().unwrap();
    let held_back = Found { no_more: false, ..found.clone() };
    assign(&mut reader, &held_back, 0, false);
    for next in 0..10 {
        assert_eq!(poll(&mut reader), (SourceStatus::More, vec![100 + next], vec![]));
    }
    assert_eq!(poll(&mut reader).0, WAITS, "there may be others");
    assign(&mut reader, &Found { splits: Vec::new(), ..found }, 0, false);
    assert_eq!(poll(&mut reader).0, SourceStatus::Ended);
}
