//! Transactional ids: `prefix-scope-subtask-generation-checkpoint`.
//!
//! The *scope* tells two jobs apart that have one prefix, and two sinks of one job: it is made of the job,
//! the place of its checkpoints, and the operator. So no job touches transactions of another one. Each id is
//! used for one transaction only: what its coordinator says of it is about that transaction and no other.
//!
//! The number of a checkpoint in an id is the last one that the subtask had prepared when the transaction
//! began. So after a restore from checkpoint r it is below r if the transaction belongs to r or to an earlier
//! one, and at least r if no checkpoint that counts holds it.

use stillstream_runtime::connect::SinkContext;
use stillstream_types::{CheckpointId, JobId};

/// The names of the transactions of one sink of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Names {
    /// What all of them begin with.
    begin: String,
}

/// What a transactional id says of its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Named {
    pub subtask: u32,
    pub generation: u64,
    /// The last checkpoint that was prepared when it began.
    pub after: u64,
}

impl Names {
    pub fn of(prefix: &str, context: &SinkContext) -> Self {
        let whose = format!("{}\n{}\n{}", context.job, context.operator, context.checkpoint_storage);
        let scope: String = JobId::from_name(&whose).to_string().chars().take(16).collect();
        Self { begin: format!("{prefix}-{scope}-") }
    }

    /// What all of them begin with.
    pub fn begin(&self) -> &str {
        &self.begin
    }

    pub fn name(&self, named: Named) -> String {
        let Named { subtask, generation, after } = named;
        format!("{}{subtask}-{generation}-{after}", self.begin)
    }

    /// `None` if it is not one of these.
    pub fn parse(&self, transactional_id: &str) -> Option<Named> {
        let mut numbers = transactional_id.strip_prefix(&self.begin)?.split('-');
        let mut next = || numbers.next()?.parse::<u64>().ok();
        let (subtask, generation, after) = (next()?, next()?, next()?);
        let named = Named { subtask: subtask.try_into().ok()?, generation, after };
        (self.name(named) == transactional_id).then_some(named)
    }
}

impl Named {
    /// Whether nobody will commit it, seen from an attempt that was restored from `restored`, and from no
    /// checkpoint if that is `None`. Never one of a later attempt: this one may be over without knowing it.
    pub fn is_left_over(self, generation: u64, restored: Option<CheckpointId>) -> bool {
        self.generation < generation && restored.is_none_or(|restored| self.after >= restored.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(job: &str, home: &str, operator: &str) -> SinkContext {
        let mut context = SinkContext::for_test(operator, 0, 1);
        context.job = JobId::from_name(job);
        context.checkpoint_storage = home.into();
        context
    }

    #[test]
    fn jobs_and_sinks_with_one_prefix_have_names_of_their_own() {
        let names = |job, home, operator| Names::of("orders", &context(job, home, operator));
        let one = names("a", "/checkpoints", "out");
        assert_eq!(one, names("a", "/checkpoints", "out"));
        let others = [
            names("b", "/checkpoints", "out"),
            names("a", "/elsewhere", "out"),
            names("a", "/checkpoints", "log"),
        ];
        let named = Named { subtask: 2, generation: 7, after: 41 };
        assert_eq!(one.parse(&one.name(named)), Some(named));
        for other in others {
            assert_eq!(other.parse(&one.name(named)), None);
        }
        assert_eq!(one.parse(&format!("{}-9", one.name(named))), None);
        assert_eq!(one.parse(&format!("{}x", one.begin())), None);
    }

    #[test]
    fn what_belongs_to_the_restored_checkpoint_is_not_left_over() {
        let named = |generation, after| Named { subtask: 0, generation, after };
        let restored = Some(CheckpointId(5));
        assert!(!named(3, 4).is_left_over(4, restored), "prepared for checkpoint 5 or before");
        assert!(named(3, 5).is_left_over(4, restored), "begun behind checkpoint 5");
        assert!(!named(4, 5).is_left_over(4, restored), "of this very attempt");
        assert!(!named(5, 9).is_left_over(4, restored), "of a later attempt, which has taken over");
        assert!(named(3, 4).is_left_over(4, None), "nothing was restored");
    }
}
