//! The one record that says which checkpoints are the truth, as the coordinator sees it.
//!
//! At most one write is under way. A write whose outcome is not known is settled by reading, before anything
//! else is written: until then every checkpoint that it would name counts as named.

use std::collections::VecDeque;
use std::time::Duration;

use stillstream_types::{CheckpointId, CompletedRef, Generation, JobOutcome, RegisterRecord};

use crate::checkpoint::storage::{FoundRegister, RegisterOutcome, StorageCall};

/// The pause before the register is asked again after it did not answer.
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// A reason for trying again that was said is not said again for so long.
const QUIET: Duration = Duration::from_secs(60);

/// Why the register is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// An attempt is to begin: a new generation takes the job over, or the one that the process has claimed.
    Claim,
    /// More checkpoint ids are reserved.
    Reserve,
    /// A checkpoint becomes the truth.
    Complete(CompletedRef),
    /// The job ends.
    End(JobOutcome),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Writing,
    Reading,
    // nothing under way until then; next is a write (the last one surely failed) or a read
    WriteAt(Duration),
    ReadAt(Duration),
}

#[derive(Clone, Debug)]
struct Current {
    purpose: Purpose,
    record: RegisterRecord,
    since: Duration,
    step: Step,
    late_said: bool,
    // an earlier write of this very record may have happened, or may still: then no later failure is
    // determinate
    uncertain: bool,
    // why it is tried again, and when that was last said
    trouble: Option<(String, Duration)>,
}

impl Current {
    /// A reason to try again: what to say about it, unless the same was said a moment ago.
    fn trouble(&mut self, said: String, now: Duration) -> Option<String> {
        let repeats = |(old, at): &(String, Duration)| *old == said && now < *at + QUIET;
        if self.trouble.as_ref().is_some_and(repeats) {
            return None;
        }
        self.trouble = Some((said.clone(), now));
        Some(said)
    }
}

/// What an answer of the register meant.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "one lives at a time, and none is kept")]
pub(crate) enum Settled {
    /// The record is durable, and does not name these any more.
    Written(Purpose, Vec<CompletedRef>),
    /// It surely is not and never will be.
    Failed(Purpose, String),
    /// Not settled: go on with this, if anything can be done now.
    Open(Option<StorageCall>, Option<String>),
    /// Another process owns the register.
    Fenced(Generation),
    /// The record contradicts what was durable before.
    Broken(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Register {
    durable: Option<RegisterRecord>,
    queue: VecDeque<(Purpose, Duration)>,
    current: Option<Current>,
}

impl Register {
    pub(crate) fn new(durable: Option<RegisterRecord>) -> Self {
        Self { durable, queue: VecDeque::new(), current: None }
    }

    pub(crate) fn durable(&self) -> Option<&RegisterRecord> {
        self.durable.as_ref()
    }

    /// Everything that the durable record names or that the record under way would name.
    pub(crate) fn named(&self) -> impl Iterator<Item = &CompletedRef> + Clone {
        let durable = self.durable.iter();
        let current = self.current.iter().map(|current| &current.record);
        durable.chain(current).flat_map(|record| record.completed.iter().chain(&record.retained))
    }

    pub(crate) fn push(&mut self, purpose: Purpose, now: Duration) {
        self.queue.push_back((purpose, now));
    }

    pub(crate) fn has(&self, wanted: impl Fn(&Purpose) -> bool) -> bool {
        self.queue.iter().map(|(p, _)| p).chain(self.current.iter().map(|c| &c.purpose)).any(wanted)
    }

    /// Takes out a checkpoint that waits for its turn; false if its write is under way (or it is not here at
    /// all).
    pub(crate) fn withdraw(&mut self, id: CheckpointId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|(purpose, _)| !matches!(purpose, Purpose::Complete(c) if c.id == id));
        self.queue.len() < before
    }

    /// Takes out every claim that waits for its turn: a newer one replaces it.
    pub(crate) fn withdraw_claims(&mut self) {
        self.queue.retain(|(purpose, _)| !matches!(purpose, Purpose::Claim));
    }

    /// Gives a claim that is under way its whole time again, since another attempt waits for it now.
    pub(crate) fn renew_claim(&mut self, now: Duration) {
        if let Some(current) = self.current.as_mut().filter(|current| current.purpose == Purpose::Claim) {
            (current.since, current.late_said) = (now, false);
        }
    }

    /// Whether the record of the job's end may have been written.
    pub(crate) fn end_may_be_written(&self) -> bool {
        let open = |current: &Current| {
            let answered = matches!(current.step, Step::WriteAt(_)) && !current.uncertain;
            matches!(current.purpose, Purpose::End(_)) && !answered
        };
        self.current.as_ref().is_some_and(open)
    }

    /// Why the write that is under way has not come about yet, as far as the register said.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.current.as_ref()?.trouble.as_ref().map(|(said, _)| said.as_str())
    }

    /// Whether the outcome of this checkpoint's write is open.
    pub(crate) fn is_writing(&self, id: CheckpointId) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| matches!(&current.purpose, Purpose::Complete(c) if c.id == id))
    }

    /// The next purpose whose turn it is, if no other is under way.
    pub(crate) fn next(&mut self) -> Option<(Purpose, Duration)> {
        if self.current.is_some() {
            return None;
        }
        self.queue.pop_front()
    }

    /// Begins to write.
    pub(crate) fn begin(&mut self, purpose: Purpose, since: Duration, record: RegisterRecord) -> StorageCall {
        let current = Current {
            purpose,
            record,
            since,
            step: Step::Writing,
            late_said: false,
            uncertain: false,
            trouble: None,
        };
        self.write(current)
    }

    fn write(&mut self, mut current: Current) -> StorageCall {
        current.step = Step::Writing;
        let command =
            StorageCall::UpdateRegister { expected: self.durable.clone(), record: current.record.clone() };
        self.current = Some(current);
        command
    }

    pub(crate) fn on_updated(&mut self, outcome: RegisterOutcome, now: Duration) -> Settled {
        let Some(current) = self.current.as_mut().filter(|c| c.step == Step::Writing) else {
            return Settled::Open(None, None);
        };
        match outcome {
            RegisterOutcome::Written => self.written(),
            RegisterOutcome::Fenced(owner) => Settled::Fenced(owner),
            RegisterOutcome::Unknown(text) => {
                current.uncertain = true;
                current.step = Step::Reading;
                let said =
                    format!("it is not known whether the job's register was written ({text}); reading it");
                Settled::Open(Some(StorageCall::ReadRegister), current.trouble(said, now))
            }
            RegisterOutcome::Failed(text) if current.uncertain => {
                current.step = Step::ReadAt(now + RETRY);
                let said = format!("the job's register could not be written, reading it again: {text}");
                Settled::Open(None, current.trouble(said, now))
            }
            RegisterOutcome::Failed(text) => match current.purpose {
                Purpose::Complete(_) | Purpose::Reserve => {
                    let purpose = current.purpose.clone();
                    self.current = None;
                    Settled::Failed(purpose, text)
                }
                // these must come about: try again
                Purpose::Claim | Purpose::End(_) => {
                    current.step = Step::WriteAt(now + RETRY);
                    let said = format!("the job's register could not be written, trying again: {text}");
                    Settled::Open(None, current.trouble(said, now))
                }
            },
        }
    }

    fn written(&mut self) -> Settled {
        match self.current.take() {
            Some(current) => {
                let before = self.durable.replace(current.record);
                let dropped = before.into_iter().flat_map(|record| record.completed);
                let dropped = dropped.filter(|old| !self.named().any(|new| new.id == old.id)).collect();
                Settled::Written(current.purpose, dropped)
            }
            None => Settled::Open(None, None),
        }
    }

    pub(crate) fn on_read(&mut self, result: Result<FoundRegister, String>, now: Duration) -> Settled {
        let Some(current) = self.current.as_mut().filter(|c| c.step == Step::Reading) else {
            return Settled::Open(None, None);
        };
        let found = match result {
            Ok(found) => found,
            Err(text) => {
                current.step = Step::ReadAt(now + RETRY);
                let said = format!("the job's register could not be read, trying again: {text}");
                return Settled::Open(None, current.trouble(said, now));
            }
        };
        let found = match found {
            FoundRegister::Foreign(owner) => return Settled::Fenced(owner),
            FoundRegister::Own(found) => Some(found),
            FoundRegister::Missing => None,
        };
        if found.as_ref() == Some(&current.record) {
            return self.written();
        }
        if found == self.durable {
            // It has not happened, but it still may: writing the very same record again makes both ends the
            // same.
            let current = current.clone();
            return Settled::Open(Some(self.write(current)), None);
        }
        let Some(found) = found else {
            current.step = Step::ReadAt(now + RETRY);
            return Settled::Broken("the job's register has vanished from checkpoint storage".to_owned());
        };
        // neither what was durable nor what is being written: somebody writes here in this process's name
        Settled::Fenced(found.generation)
    }

    /// What is due now.
    pub(crate) fn tick(&mut self, now: Duration) -> Option<StorageCall> {
        let current = self.current.as_mut()?;
        match current.step {
            Step::WriteAt(at) if at <= now => {
                let current = current.clone();
                Some(self.write(current))
            }
            Step::ReadAt(at) if at <= now => {
                current.step = Step::Reading;
                Some(StorageCall::ReadRegister)
            }
            _ => None,
        }
    }

    /// Says once for each write that it has been open for longer than `deadline`, and for what it was. A
    /// claim that waits for its turn is late too, each time the deadline passes.
    pub(crate) fn overdue(&mut self, now: Duration, deadline: Duration) -> Option<Purpose> {
        if let Some(current) = self.current.as_mut().filter(|c| !c.late_said && now >= c.since + deadline) {
            current.late_said = true;
            return Some(current.purpose.clone());
        }
        let claim = |(purpose, since): &&mut (Purpose, Duration)| {
            *purpose == Purpose::Claim && now >= *since + deadline
        };
        let late = self.queue.iter_mut().find(claim)?;
        late.1 = now;
        Some(Purpose::Claim)
    }

    /// When `tick` or `overdue` has something to do.
    pub(crate) fn wake_at(&self, deadline: Duration) -> Option<Duration> {
        let current = self.current.as_ref()?;
        let retry = match current.step {
            Step::WriteAt(at) | Step::ReadAt(at) => Some(at),
            Step::Writing | Step::Reading => None,
        };
        let late = (!current.late_said).then_some(current.since + deadline);
        let claims = self.queue.iter().filter(|(purpose, _)| *purpose == Purpose::Claim);
        retry.into_iter().chain(late).chain(claims.map(|(_, since)| *since + deadline)).min()
    }
}

#[cfg(test)]
#[path = "register_tests.rs"]
mod tests;
