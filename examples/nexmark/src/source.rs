//! The generator as a replayable source: split `j` of `n` has the positions `j`, `j + n`, `j + 2n`, and so on.

use std::hint::black_box;

use stillstream::connect::{SourceContext, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};

use crate::event::Event;
use crate::generator::{Generator, Profile};

/// The first `count` events.
#[derive(Clone, Copy, Debug)]
pub struct Events {
    pub profile: Profile,
    pub count: u64,
    /// Into how many splits they are dealt out.
    pub splits: u64,
}

impl SplitSource for Events {
    type Item = Event;
    /// The next position.
    type Split = u64;

    fn splits(&self) -> Result<Vec<u64>> {
        Ok((0..self.splits).collect())
    }

    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<Event, u64>>> {
        Ok(Box::new(Reader { events: *self, generator: Generator::new(self.profile), next: Vec::new() }))
    }
}

struct Reader {
    events: Events,
    generator: Generator,
    next: Vec<u64>,
}

impl SplitReader<Event, u64> for Reader {
    fn assign(&mut self, splits: Vec<u64>) -> Result<()> {
        self.next = splits;
        Ok(())
    }

    fn poll(&mut self, max_records: usize, out: &mut Batch<Event>) -> Result<SourceStatus> {
        for _ in 0..max_records {
            // the split that is furthest behind, so that the splits of a subtask have one event time together
            let Some(next) = self.next.iter_mut().min().filter(|next| **next < self.events.count) else {
                return Ok(SourceStatus::Ended);
            };
            let event = self.generator.event(self.events.profile.event_at(*next));
            out.values.push(black_box(event)); // a query that reads only a few fields must not make the others vanish
            *next += self.events.splits;
        }
        Ok(SourceStatus::More)
    }

    fn positions(&self) -> Vec<u64> {
        self.next.clone()
    }
}
