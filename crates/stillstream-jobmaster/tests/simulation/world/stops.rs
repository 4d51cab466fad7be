//! A person takes savepoints, stops the job, and suspends it.

use super::*;

/// What somebody waits for.
#[derive(Clone, Debug)]
pub enum Wanted {
    Savepoint,
    Stop { savepoint: Option<String>, drain: bool, ran: bool },
}

impl World {
    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// A place where nothing ever was.
    fn new_target(&mut self) -> SavepointTarget {
        self.places += 1;
        let name = checkpoint_paths::savepoint(nodes::job(), &self.places.to_string());
        SavepointTarget { location: name.into(), format: SavepointFormat::Canonical }
    }

    pub fn savepoint(&mut self, at: usize) {
        let (request, target) = (self.next_request(), self.new_target());
        if let Some(node) = self.nodes[at].as_mut() {
            node.wanted.insert(request, Wanted::Savepoint);
            self.feed(at, JobEvent::TriggerSavepoint(request, target));
        }
    }

    /// Somebody stops the job, with a savepoint or without one.
    pub fn stop_job(&mut self, at: usize, savepoint: bool, drain: bool) {
        let (request, now) = (self.next_request(), self.now);
        let target = savepoint.then(|| self.new_target());
        let Some(node) = self.nodes[at].as_mut() else { return };
        let ran = node.engine.status() == JobStatus::Running;
        let place = target.as_ref().map(|target| target.location.to_string());
        node.wanted.insert(request, Wanted::Stop { savepoint: place.clone(), drain, ran });
        self.stop_places.extend(place);
        self.feed(at, JobEvent::Stop(request, StopRequest { savepoint: target, drain }));
        // Ctrl-C ends a job that does not run in the time of a cancel
        if let Some(node) = self.nodes[at].as_mut()
            && !ran
            && node.wanted.contains_key(&request)
        {
            node.cancelled.get_or_insert(now);
        }
    }

    pub(super) fn replied(
        &mut self,
        at: usize,
        request: RequestId,
        result: Result<CheckpointReport, CheckpointFailure>,
    ) {
        let Some(node) = self.nodes[at].as_mut() else { return };
        match (node.wanted.remove(&request), result) {
            (Some(Wanted::Savepoint), Ok(report)) => {
                assert_eq!(report.kind, CheckpointKind::Savepoint);
                self.tally.savepoints += 1;
                self.savepoints.insert(report.path);
            }
            (Some(Wanted::Savepoint), Err(_)) => self.tally.savepoints_failed += 1,
            (Some(Wanted::Stop { savepoint, drain, ran }), Ok(report)) => {
                node.stopped = Some(true);
                self.stop_succeeded(at, savepoint.as_deref(), drain, ran, &report);
            }
            (Some(Wanted::Stop { savepoint, .. }), Err(failure)) => {
                let complete =
                    failure.message.contains("is complete") && !failure.message.contains("whether");
                self.savepoints.extend(savepoint.filter(|_| complete));
                // one that is refused changes nothing
                let goes_on = ["it goes on", "and goes on"].iter().any(|end| failure.message.contains(end));
                let over = node.engine.status().is_terminal();
                assert!(!goes_on || !over, "{failure}, and the job has ended");
                self.tally.stops_failed += u64::from(goes_on);
                self.tally.stops_refused += u64::from(!goes_on);
            }
            (None, _) => {}
        }
    }

    fn stop_succeeded(
        &mut self,
        at: usize,
        savepoint: Option<&str>,
        drain: bool,
        ran: bool,
        report: &CheckpointReport,
    ) {
        let outcome = match (savepoint, drain) {
            (Some(_), _) => JobOutcome::Stopped,
            (None, true) => JobOutcome::Finished,
            (None, false) => JobOutcome::Suspended,
        };
        let own = self.nodes[at].as_ref().and_then(|node| node.engine.register().cloned());
        assert_eq!(own.as_ref().map(|record| record.outcome), Some(outcome), "{report:?}");
        if let Some(place) = savepoint {
            assert_eq!(report.path, place);
            self.savepoints.insert(place.to_owned());
            let last = own.as_ref().and_then(|record| record.retained.last());
            assert_eq!(last.map(|last| &*last.path), Some(place), "{own:?}");
        }
        let leads = self.register.as_ref().map(|record| record.generation) == own.map(|own| own.generation);
        // what a rival has done since is another matter
        if !leads {
            return;
        }
        if outcome != JobOutcome::Finished {
            let position = self.position_of(&report.path);
            match ran {
                true => self.output.assert_exactly(position),
                false => self.output.assert_nothing_beyond(position),
            }
        }
        match outcome {
            JobOutcome::Stopped => self.tally.stopped += 1,
            JobOutcome::Suspended => self.tally.suspended += 1,
            _ => {}
        }
        self.tally.drained += u64::from(drain);
    }

    /// Where the input was in this snapshot.
    fn position_of(&self, path: &str) -> u64 {
        let metadata = self.metadata.get(path).unwrap_or_else(|| panic!("{path} is gone"));
        let files = metadata.streams().filter_map(StreamHandle::path);
        files.filter_map(|file| self.contents.get(file)).map(|content| content.position).max().unwrap_or(0)
    }
}
