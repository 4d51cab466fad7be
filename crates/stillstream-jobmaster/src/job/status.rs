//! The states of a job and the steps between them (Flink's `JobStatus`).

use std::fmt;

/// Where a job is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JobStatus {
    /// Accepted; its register is being read.
    Initializing,
    /// Ready to be deployed.
    Created,
    /// Its tasks run.
    Running,
    /// A failure happened; its tasks are being stopped.
    Failing,
    /// It waits for the restart strategy's pause.
    Restarting,
    /// A person cancelled it; its tasks are being stopped.
    Cancelling,
    /// Cancelled. Final.
    Canceled,
    /// Failed for good. Final.
    Failed,
    /// Reached the end of its input, or was stopped with a savepoint (as in Flink, whose clients wait for
    /// this state). Final.
    Finished,
    /// Was stopped with a checkpoint from which its next start goes on by itself. Final for this process
    /// (Flink's word for a job that is no longer run here and may be run again).
    Suspended,
}

impl JobStatus {
    /// All states.
    pub const ALL: [Self; 10] = [
        Self::Initializing,
        Self::Created,
        Self::Running,
        Self::Failing,
        Self::Restarting,
        Self::Cancelling,
        Self::Canceled,
        Self::Failed,
        Self::Finished,
        Self::Suspended,
    ];

    /// The name that Flink shows, as in `RUNNING`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Initializing => "INITIALIZING",
            Self::Created => "CREATED",
            Self::Running => "RUNNING",
            Self::Failing => "FAILING",
            Self::Restarting => "RESTARTING",
            Self::Cancelling => "CANCELLING",
            Self::Canceled => "CANCELED",
            Self::Failed => "FAILED",
            Self::Finished => "FINISHED",
            Self::Suspended => "SUSPENDED",
        }
    }

    /// Whether nothing follows.
    pub fn is_terminal(self) -> bool {
        self.successors().is_empty()
    }

    /// What may follow.
    pub fn successors(self) -> &'static [Self] {
        match self {
            Self::Initializing => &[Self::Created, Self::Failed, Self::Cancelling],
            Self::Created => &[Self::Running, Self::Failing, Self::Cancelling, Self::Suspended],
            Self::Running => &[Self::Failing, Self::Cancelling, Self::Finished, Self::Suspended],
            // to FINISHED: the end had been recorded, or was being recorded, when the failure or the cancel
            // came
            Self::Failing => {
                &[Self::Restarting, Self::Failed, Self::Cancelling, Self::Finished, Self::Suspended]
            }
            Self::Restarting => &[Self::Created, Self::Failing, Self::Cancelling, Self::Suspended],
            Self::Cancelling => &[Self::Canceled, Self::Failed, Self::Finished, Self::Suspended],
            Self::Canceled | Self::Failed | Self::Finished | Self::Suspended => &[],
        }
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A step that the state machine does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a job cannot go from {from} to {to}: from {from} it goes to one of {:?}", from.successors())]
pub struct IllegalTransition {
    /// Where the job is.
    pub from: JobStatus,
    /// Where it cannot go.
    pub to: JobStatus,
}

/// A job's state, changed only by legal steps.
#[derive(Clone, Debug)]
pub struct JobState {
    status: JobStatus,
    restarts: u64,
}

impl Default for JobState {
    fn default() -> Self {
        Self::new()
    }
}

impl JobState {
    /// A job that was just accepted.
    pub fn new() -> Self {
        Self { status: JobStatus::Initializing, restarts: 0 }
    }

    /// Where the job is.
    pub fn status(&self) -> JobStatus {
        self.status
    }

    /// How often it was restarted.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Goes on to the next state.
    pub fn advance(&mut self, to: JobStatus) -> Result<(), IllegalTransition> {
        if !self.status.successors().contains(&to) {
            return Err(IllegalTransition { from: self.status, to });
        }
        if to == JobStatus::Restarting {
            self.restarts += 1;
        }
        self.status = to;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use JobStatus::*;

    #[test]
    fn a_job_that_fails_once_restarts_and_finishes() {
        let mut job = JobState::new();
        for to in [Created, Running, Failing, Restarting, Created, Running, Finished] {
            job.advance(to).unwrap();
        }
        assert_eq!((job.status(), job.restarts()), (Finished, 1));
    }

    #[test]
    fn a_cancel_or_a_failure_that_comes_after_the_recorded_end_changes_nothing() {
        for late in [Cancelling, Failing] {
            let mut job = JobState::new();
            for to in [Created, Running, late, Finished] {
                job.advance(to).unwrap();
            }
            assert_eq!(job.status(), Finished);
        }
    }

    #[test]
    fn nothing_follows_a_final_state_and_the_error_says_what_may_follow() {
        for from in [Canceled, Failed, Finished] {
            for to in JobStatus::ALL {
                let mut job = JobState { status: from, restarts: 0 };
                assert_eq!(job.advance(to), Err(IllegalTransition { from, to }));
            }
        }
        let text = IllegalTransition { from: Running, to: Restarting }.to_string();
        assert_eq!(
            text,
            "a job cannot go from RUNNING to RESTARTING: from RUNNING it goes to one of [Failing, Cancelling, Finished, \
             Suspended]"
        );
    }

    #[test]
    fn every_state_is_reachable_and_every_state_leads_to_a_final_one() {
        for status in JobStatus::ALL {
            let (mut seen, mut next) = (Vec::new(), vec![status]);
            while let Some(at) = next.pop() {
                if !seen.contains(&at) {
                    seen.push(at);
                    next.extend(at.successors());
                }
            }
            assert!(seen.iter().any(|s| s.is_terminal()), "{status}");
            if status == Initializing {
                assert_eq!(seen.len(), JobStatus::ALL.len());
            }
        }
    }
}
