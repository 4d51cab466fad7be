//! Whose state is whose in a program that gives no uid: the graph says it, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use stillstream::prelude::*;

use crate::program::*;

/// A job of which no operator has a uid. `largest` is the largest count of a digit.
fn anonymous(env: &StreamExecutionEnvironment, largest: &Arc<AtomicU64>) {
    let largest = largest.clone();
    env.from_source("numbers", Generator::unbounded(|n| n).records_per_second(20_000.0))
        .map(|n| n)
        .filter(|_| true)
        .key_by(|n| n % 10)
        .map_with_state("seen", move |seen: &mut u64, n| {
            *seen += 1;
            largest.fetch_max(*seen, SeqCst);
            n
        })
        .map(|n| n)
        .discard();
}

#[test]
fn state_without_a_uid_is_found_again_at_another_parallelism_and_with_other_chains() {
    let place = Place::new();
    let largest = Arc::default();
    let env = place.env();
    anonymous(&env, &largest);
    let mut from = take(&env, "first", 3_000);
    for (parallelism, chained) in [(3, true), (1, false), (2, false)] {
        let counted = largest.load(SeqCst);
        assert!(counted > 100, "{counted}");
        let mut env = place.env();
        env.set_parallelism(parallelism).restore_from(from.to_str().unwrap());
        if !chained {
            env.disable_operator_chaining();
        }
        // a job that had lost its state would count from one, or be refused since nobody claims it
        let now = Arc::default();
        anonymous(&env, &now);
        from = take(&env, "first", 200);
        let (before, after) = (counted / 2, now.load(SeqCst));
        assert!(after > before, "at {parallelism}: {after} after {counted}");
        largest.fetch_max(after, SeqCst);
    }
}
