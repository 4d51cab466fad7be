//! Finding the splits of a source, and dealing them out to its readers.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use stillstream_state::Data;
use stillstream_types::{Result, SubtaskIndex};

use super::erased_enumerator::{Erased, Typed};

/// Finds the splits of a source, also while the job runs, and deals them out to its readers. After the
/// `SplitEnumerator` of Flink's FLIP-27. There is one for each source; it lives in the JobManager and is made
/// anew for each attempt.
///
/// Everything is called on one thread of the enumerator's own, so it may block: neither records nor
/// checkpoints wait for it. One that blocks for long looks at
/// [`EnumeratorContext::is_over`](super::EnumeratorContext::is_over) now and then.
///
/// # Exactly once
/// What a call assigns and the [`state`](Self::state) after it are taken in as one. A checkpoint has the
/// state as of its trigger; a reader takes whatever was assigned before the trigger before its barrier, and
/// nothing of what was assigned later. So of each split either a reader has the position in that checkpoint,
/// or the enumerator has not assigned it there and will assign it again. An enumerator does nothing for it,
/// but to keep in its state what it has assigned.
///
/// # Example
/// A source whose parts are numbered, and which gets a new one now and then:
/// ```
/// use std::time::Duration;
/// use stillstream_runtime::connect::{Assignments, SplitEnumerator};
/// use stillstream_types::Result;
///
/// struct Parts { count: fn() -> u32, assigned: u32 }
///
/// impl SplitEnumerator for Parts {
///     type Split = (u32, u64); // the part, and where to go on in it
///     type State = u32;
///
///     fn restore(&mut self, state: Option<u32>, _: Vec<(u32, u64)>) -> Result<()> {
///         self.assigned = state.unwrap_or(0);
///         Ok(())
///     }
///     fn discover(&mut self, assignments: &mut Assignments<(u32, u64)>) -> Result<Option<Duration>> {
///         let count = (self.count)();
///         (self.assigned..count).for_each(|part| assignments.assign((part, 0)));
///         self.assigned = self.assigned.max(count);
///         Ok(Some(Duration::from_secs(10))) // look again then
///     }
///     fn state(&self) -> u32 { self.assigned }
/// }
///
/// let mut parts = Parts { count: || 3, assigned: 0 };
/// parts.restore(Some(2), vec![(0, 17), (1, 4)])?;
/// let mut assignments = Assignments::for_test(2);
/// parts.discover(&mut assignments)?;
/// assert_eq!(assignments.assigned(), [(None, (2, 0))]);
/// # Ok::<(), stillstream_types::Error>(())
/// ```
pub trait SplitEnumerator: Send + 'static {
    /// What readers read, as of [`SplitSource::Split`](super::SplitSource::Split).
    type Split: Data;
    /// What is kept in checkpoints: as a rule what has been assigned.
    type State: Data;

    /// Takes up where a snapshot left off. Called once, before anything else; not at a fresh start. `state`
    /// is `None` where the snapshot is of a source that had no enumerator of this kind: then what the readers
    /// `held` tells what was assigned. Those are the splits with their positions that are in the snapshot, of
    /// all readers; they are the readers' again, and are not assigned anew.
    ///
    /// # Errors
    /// Fail the attempt.
    fn restore(&mut self, state: Option<Self::State>, held: Vec<Self::Split>) -> Result<()>;

    /// Looks for splits, and assigns what is new. Called first when an attempt begins, and again after the
    /// time that it returns; `None`: not by itself (but when [woken](super::EnumeratorWaker)). The source
    /// ends when [`Assignments::no_more`] was called and everything assigned has been read; without that it
    /// never does.
    ///
    /// # Errors
    /// Fail the attempt, with the name of the source: the restart strategy decides. An enumerator that can
    /// look again later (a broker that is away) returns `Ok`, and says in the log what is the matter.
    fn discover(&mut self, assignments: &mut Assignments<Self::Split>) -> Result<Option<Duration>>;

    /// A reader has read all that it was given, or has been given nothing yet. For sources that hand out
    /// their splits one by one, to whoever has time. Called once, until the reader is assigned something.
    ///
    /// # Errors
    /// As of [`discover`](Self::discover).
    fn requested(&mut self, reader: SubtaskIndex, assignments: &mut Assignments<Self::Split>) -> Result<()> {
        let _ = (reader, assignments);
        Ok(())
    }

    /// What a checkpoint keeps, asked after each of the other calls.
    fn state(&self) -> Self::State;
}

/// Takes what an enumerator assigns during one call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignments<S> {
    readers: u32,
    assigned: Vec<(Option<SubtaskIndex>, S)>,
    no_more: bool,
}

impl<S> Assignments<S> {
    pub(crate) fn new(readers: u32) -> Self {
        Self { readers, assigned: Vec::new(), no_more: false }
    }

    /// Assignments outside of a job: to try an enumerator by hand.
    pub fn for_test(readers: u32) -> Self {
        Self::new(readers)
    }

    /// How many readers there are; they are numbered from 0.
    pub fn readers(&self) -> u32 {
        self.readers
    }

    /// Assigns a split to the reader that [`SplitSource::reader_of`](super::SplitSource::reader_of) names for
    /// it, or else to one that has been given the fewest.
    pub fn assign(&mut self, split: S) {
        self.assigned.push((None, split));
    }

    /// Assigns a split to a reader of the enumerator's choice. One that does not exist fails the attempt.
    pub fn assign_to(&mut self, reader: SubtaskIndex, split: S) {
        self.assigned.push((Some(reader), split));
    }

    /// No split will be assigned after those of this call: each reader ends when it has read its own.
    pub fn no_more(&mut self) {
        self.no_more = true;
    }

    /// What was assigned, each with the reader if the enumerator named one.
    pub fn assigned(&self) -> &[(Option<SubtaskIndex>, S)] {
        &self.assigned
    }

    /// Whether [`no_more`](Self::no_more) was called.
    pub fn is_no_more(&self) -> bool {
        self.no_more
    }

    pub(crate) fn into_parts(self) -> (Vec<(Option<SubtaskIndex>, S)>, bool) {
        (self.assigned, self.no_more)
    }
}

/// The enumerator that a source makes, whatever type its state is of.
pub struct Enumerator<S>(pub(crate) Box<dyn Erased<S>>);

impl<S> fmt::Debug for Enumerator<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Enumerator")
    }
}

impl<S: Data> Enumerator<S> {
    /// One of the connector's own.
    pub fn new(enumerator: impl SplitEnumerator<Split = S>) -> Self {
        Self(Box::new(Typed(enumerator)))
    }

    /// Lists the splits once, at a fresh start, and no more: what a source without an enumerator of its own
    /// has.
    pub fn once(list: impl FnMut() -> Result<Vec<S>> + Send + 'static) -> Self {
        Self::new(Once { list, listed: false })
    }

    /// Lists what is there, again and again with this pause between, and assigns what it has not seen. `name`
    /// tells the splits apart; it is kept for each split, in every checkpoint. What is gone from the list is
    /// forgotten, so it is new if it comes back. The source never ends by itself.
    pub fn listing<N: Data + Ord>(
        pause: Duration,
        name: impl Fn(&S) -> N + Send + 'static,
        list: impl FnMut() -> Result<Vec<S>> + Send + 'static,
    ) -> Self {
        Self::new(Listing { pause, name, list, known: BTreeSet::new() })
    }
}

/// See [`Enumerator::once`]; its state is whether it has listed.
struct Once<L> {
    list: L,
    listed: bool,
}

impl<S: Data, L: FnMut() -> Result<Vec<S>> + Send + 'static> SplitEnumerator for Once<L> {
    type Split = S;
    type State = bool;

    fn restore(&mut self, state: Option<bool>, held: Vec<S>) -> Result<()> {
        // without a state all splits had been dealt out when the readers were opened
        self.listed = state.unwrap_or(!held.is_empty());
        Ok(())
    }

    fn discover(&mut self, assignments: &mut Assignments<S>) -> Result<Option<Duration>> {
        if !self.listed {
            (self.list)()?.into_iter().for_each(|split| assignments.assign(split));
            self.listed = true;
        }
        assignments.no_more();
        Ok(None)
    }

    fn state(&self) -> bool {
        self.listed
    }
}

/// See [`Enumerator::listing`].
struct Listing<F, L, N> {
    pause: Duration,
    name: F,
    list: L,
    known: BTreeSet<N>,
}

impl<S, N, F, L> SplitEnumerator for Listing<F, L, N>
where
    S: Data,
    N: Data + Ord,
    F: Fn(&S) -> N + Send + 'static,
    L: FnMut() -> Result<Vec<S>> + Send + 'static,
{
    type Split = S;
    type State = Vec<N>;

    fn restore(&mut self, state: Option<Vec<N>>, held: Vec<S>) -> Result<()> {
        self.known = match state {
            Some(known) => known.into_iter().collect(),
            None => held.iter().map(&self.name).collect(),
        };
        Ok(())
    }

    fn discover(&mut self, assignments: &mut Assignments<S>) -> Result<Option<Duration>> {
        let listed = (self.list)()?;
        let mut there = BTreeSet::new();
        for split in listed {
            let name = (self.name)(&split);
            if there.insert(name.clone()) && !self.known.contains(&name) {
                assignments.assign(split);
            }
        }
        self.known = there;
        Ok(Some(self.pause))
    }

    fn state(&self) -> Vec<N> {
        self.known.iter().cloned().collect()
    }
}
