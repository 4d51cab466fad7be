use super::by_hand::{ByHand, Setup, hash};
use crate::window::assigner::{Aligned, Kind};

const TEN: Kind = Kind::Aligned(Aligned { size: 10, slide: 10, offset: 0 });

fn setup(kind: Kind, lateness: i64) -> Setup {
    Setup { kind, lateness, keep_all: false, late_output: false, general: false }
}

#[test]
fn a_window_that_was_purged_is_not_made_again_after_a_restore() {
    for (kind, parallelism) in [(TEN, 1), (TEN, 3), (Kind::Session { gap: 10 }, 3)] {
        let mut by_hand = ByHand::open(setup(kind, 0), 2, &[]);
        by_hand.records(&[(1, 5, 3)]);
        // the subtask that has the key is ahead of the other
        let own = by_hand.owner(1);
        assert_eq!(by_hand.watermark(50, |index| index == own).len(), 1);
        by_hand.restart(parallelism);
        let (fired, _) = by_hand.records(&[(1, 5, 4)]);
        assert_eq!((fired, by_hand.late_count()), (vec![], 1));
        assert!(by_hand.watermark(20, |_| true).is_empty(), "the sources begin again further back");
        by_hand.restart(2);
        by_hand.records(&[(1, 5, 4)]);
        assert_eq!(by_hand.late_count(), 2, "a second restart forgets nothing");
    }
}

#[test]
fn a_key_group_that_was_behind_is_not_late_because_another_was_ahead() {
    let mut by_hand = ByHand::open(setup(TEN, 0), 2, &[]);
    let ahead = by_hand.owner(1);
    let Some(other) = (2..100).find(|key| by_hand.owner(*key) != ahead) else {
        panic!("one subtask has all keys")
    };
    by_hand.watermark(50, |index| index == ahead);
    by_hand.watermark(5, |index| index != ahead);
    by_hand.restart(1);
    by_hand.records(&[(1, 5, 12), (other, 7, 12)]);
    assert_eq!(by_hand.late_count(), 1);
    assert_eq!(by_hand.watermark(60, |_| true), [(other, 10, 20, 1, 7)]);
    assert_ne!(hash(1).group(), hash(other).group());
}

#[test]
fn a_job_that_has_ended_can_be_given_more_to_read() {
    for kind in [TEN, Kind::Session { gap: 10 }] {
        let mut by_hand = ByHand::open(setup(kind, 0), 2, &[]);
        by_hand.records(&[(1, 5, 3)]);
        by_hand.watermark(15, |_| true);
        by_hand.watermark(i64::MAX, |_| true);
        by_hand.restart(2);
        by_hand.records(&[(1, 5, 4), (1, 6, 40)]);
        assert_eq!(by_hand.late_count(), 1, "only what was late before the end");
        assert_eq!(by_hand.watermark(i64::MAX, |_| true).len(), 1);
    }
}
