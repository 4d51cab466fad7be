//! A job that is cancelled or fails for good: whatever storage does, there is one outcome, in its time, and it is the truth.

use super::*;

impl World {
    pub(super) fn ended(&mut self, node: usize, end: End) {
        let seed = self.seed;
        // how it ended is known before the coordinator is gone
        self.last_end = Some(end);
        if let Some(me) = self.nodes[node].as_mut() {
            assert_eq!(me.end, None, "seed {seed}: a second end, {end:?}");
            me.end = Some(end);
        }
        if let End::Recorded(outcome) = end {
            let record = self.register.as_ref();
            let own = record.filter(|record| {
                self.nodes[node].as_ref().and_then(|me| me.coordinator.register()).map(|own| own.generation)
                    == Some(record.generation)
            });
            // the register may have gone on to a higher generation
            if let Some(record) = own {
                assert_eq!(record.outcome, outcome, "seed {seed}");
                assert!(record.ended.is_some(), "seed {seed}: {record:?}");
            }
        }
    }

    pub(super) fn while_away(&mut self, action: Action) {
        let answer = match self.below(3) {
            0 => return,
            1 => true,
            _ => false,
        };
        match action {
            Action::CompareAndSet { node, .. } => {
                let outcome = match answer {
                    true => RegisterOutcome::Failed("no such folder".into()),
                    false => RegisterOutcome::Unknown("timed out".into()),
                };
                self.answer(node, Event::RegisterUpdated { outcome });
            }
            Action::WriteMetadata { node, metadata, .. } => {
                let (checkpoint, text) = (metadata.id, "no such folder".to_owned());
                let outcome = if answer { WriteOutcome::Failed(text) } else { WriteOutcome::Unknown(text) };
                self.answer(node, Event::MetadataWritten { checkpoint, outcome });
            }
            Action::ReadRegister { node } => {
                self.answer(Some(node), Event::RegisterRead { result: Err("no such folder".into()) });
            }
            _ => {}
        }
    }

    /// The newest coordinator's job ends with `outcome` at this moment, under these faults. `None`: it had ended before.
    pub fn end_now(&mut self, outcome: JobOutcome, faults: Faults) -> Option<End> {
        let newest = self.nodes.len() - 1;
        for at in 0..newest {
            self.nodes[at] = None;
        }
        self.faults = faults;
        self.last_end = None;
        let me = self.nodes[newest].as_ref().filter(|me| me.end.is_none())?;
        // as the JobManager does it: the workers stop first, and their last words still arrive
        if let Some(generation) = me.running {
            self.feed(newest, Event::AttemptStopped { generation, reason: "the end".into() });
        }
        self.feed(newest, Event::JobEnded { outcome });
        let until = self.now + END_TIMEOUT;
        while self.last_end.is_none() {
            let seed = self.seed;
            assert!(self.now <= until, "seed {seed}: no end {END_TIMEOUT:?} after it was wanted");
            let alive = self.nodes[newest].is_some();
            assert!(alive, "seed {seed}: gone without a word");
            self.step();
            // a step is shorter than this, and the coordinator is woken at its time
            if self.bag.is_empty() {
                self.sleep_until(until);
            }
        }
        self.last_end
    }

    fn sleep_until(&mut self, until: Duration) {
        let wake = self.nodes.iter().flatten().filter_map(|node| node.wake).min();
        self.now = self.now.max(wake.unwrap_or(until).min(until));
    }
}
