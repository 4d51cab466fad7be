//! Which completed checkpoints are kept, and which a new one pushes out.
//!
//! A savepoint is among them only if a job was to stop with it. It pushes out nothing, and the next
//! checkpoint takes its name out of the register: its files belong to a person.

use stillstream_types::CompletedRef;

/// The store with one more checkpoint, of which `num_retained` are kept; `None` if the new one is older than
/// all that are kept already, so that it would be dropped at once.
pub fn add(completed: &[CompletedRef], new: CompletedRef, num_retained: usize) -> Option<Vec<CompletedRef>> {
    let id = new.id;
    let mut all = completed.to_vec();
    all.retain(|old| old.id != id && (new.is_savepoint() || !old.is_savepoint() || old.id > id));
    all.push(new);
    // a forced checkpoint may complete after a later one
    all.sort_by_key(|checkpoint| checkpoint.id);
    let checkpoints = all.iter().filter(|checkpoint| !checkpoint.is_savepoint()).count();
    let mut too_many = checkpoints.saturating_sub(num_retained.max(1));
    all.retain(|checkpoint| {
        let goes = too_many > 0 && !checkpoint.is_savepoint();
        too_many -= usize::from(goes);
        !goes
    });
    all.iter().any(|checkpoint| checkpoint.id == id).then_some(all)
}

/// The newest one: what a restart begins from.
pub fn latest(completed: &[CompletedRef]) -> Option<&CompletedRef> {
    completed.iter().max_by_key(|checkpoint| checkpoint.id)
}

#[cfg(test)]
mod tests {
    use stillstream_types::CheckpointId;

    use super::*;

    fn refs(ids: &[u64]) -> Vec<CompletedRef> {
        ids.iter().map(|id| CompletedRef { id: CheckpointId(*id), path: format!("chk-{id}") }).collect()
    }

    fn add_id(ids: &[u64], id: u64, num_retained: usize) -> Option<Vec<CompletedRef>> {
        add(&refs(ids), refs(&[id]).remove(0), num_retained)
    }

    #[test]
    fn the_oldest_beyond_the_number_to_retain_are_subsumed() {
        let kept = |completed: &[u64]| Some(refs(completed));
        assert_eq!(add_id(&[], 1, 1), kept(&[1]));
        assert_eq!(add_id(&[1], 2, 1), kept(&[2]));
        assert_eq!(add_id(&[1, 2], 3, 3), kept(&[1, 2, 3]));
        assert_eq!(add_id(&[1, 2, 3], 4, 1), kept(&[4]));
        assert_eq!(add_id(&[1, 3], 2, 2), kept(&[2, 3]));
        assert_eq!(add_id(&[2], 2, 1), kept(&[2]));
    }

    #[test]
    fn one_that_would_be_dropped_at_once_is_not_added() {
        assert_eq!(add_id(&[6], 5, 1), None);
    }

    #[test]
    fn a_savepoint_pushes_out_nothing_and_is_named_until_the_next_checkpoint() {
        let savepoint = || CompletedRef { id: CheckpointId(3), path: "/s/savepoint-1-2".into() };
        let with_savepoint = add(&refs(&[1]), savepoint(), 1).unwrap();
        assert_eq!(with_savepoint, [refs(&[1]), vec![savepoint()]].concat());
        assert_eq!(add(&with_savepoint, refs(&[4]).remove(0), 2), Some(refs(&[1, 4])));
        let older = add(&with_savepoint, refs(&[2]).remove(0), 1).unwrap();
        assert_eq!(older, [refs(&[2]), vec![savepoint()]].concat(), "one that was triggered before it");
    }

    #[test]
    fn the_latest_is_the_one_with_the_highest_id() {
        assert_eq!(latest(&refs(&[3, 5, 4])).map(|c| c.id), Some(CheckpointId(5)));
        assert_eq!(latest(&[]), None);
    }
}
