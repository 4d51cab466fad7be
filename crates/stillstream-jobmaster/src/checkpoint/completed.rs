//! Which completed checkpoints are kept, and which a new one pushes out.

use stillstream_types::CompletedRef;

/// The store with one more checkpoint, of which `num_retained` are kept; `None` if the new one is older than all that are
/// kept already, so that it would be dropped at once.
pub fn add(completed: &[CompletedRef], new: CompletedRef, num_retained: usize) -> Option<Vec<CompletedRef>> {
    let id = new.id;
    let mut all = completed.to_vec();
    all.retain(|old| old.id != id);
    all.push(new);
    // a forced checkpoint may complete after a later one
    all.sort_by_key(|checkpoint| checkpoint.id);
    let kept = all.split_off(all.len().saturating_sub(num_retained.max(1)));
    match all.iter().any(|checkpoint| checkpoint.id == id) {
        true => None,
        false => Some(kept),
    }
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
    fn the_latest_is_the_one_with_the_highest_id() {
        assert_eq!(latest(&refs(&[3, 5, 4])).map(|c| c.id), Some(CheckpointId(5)));
        assert_eq!(latest(&[]), None);
    }
}
