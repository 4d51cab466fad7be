//! The number of key groups is the snapshot's, whatever the parallelism is now.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use stillstream::prelude::*;

use crate::program::*;

/// 85 subtasks have 128 key groups by default, 86 have 256.
#[test]
fn a_parallelism_with_another_default_takes_over_the_key_groups_of_the_snapshot() {
    let place = Place::new();
    let mut env = place.env();
    env.set_parallelism(85);
    count(numbers(&env).set_parallelism(1), "count", &Arc::default());
    let from = take(&env, "first", 2_000);

    let mut env = place.env();
    env.set_parallelism(86).restore_from(from.to_str().unwrap());
    let largest = Arc::default();
    count(numbers(&env).set_parallelism(1), "count", &largest);
    let from = take(&env, "second", 200);
    assert!(largest.load(SeqCst) > 150, "{}", largest.load(SeqCst));

    // and so on: what the job writes has the same number
    let mut env = place.env();
    env.set_parallelism(2).restore_from(from.to_str().unwrap());
    count(numbers(&env).set_parallelism(1), "count", &Arc::default());
    starts(&env, "third").unwrap();
}

#[test]
fn another_max_parallelism_and_too_many_subtasks_are_refused_with_both_numbers() {
    let place = Place::new();
    let mut env = place.env();
    env.set_max_parallelism(8);
    count(numbers(&env), "count", &Arc::default());
    let from = take(&env, "first", 500);

    let next = |change: fn(&mut StreamExecutionEnvironment)| {
        let mut env = place.env();
        env.restore_from(from.to_str().unwrap());
        change(&mut env);
        count(numbers(&env).set_parallelism(1), "count", &Arc::default());
        env
    };
    let text = refused(&next(|env| _ = env.set_max_parallelism(16)), "second");
    has(
        &text,
        &["`count`", "max parallelism 8", "the plan has 16", "set the operator's max parallelism to 8"],
    );
    let text = refused(&next(|env| _ = env.set_parallelism(9)), "second");
    has(&text, &["`count`", "parallelism is 9", "8 key groups", "at most 8"]);
    starts(&next(|env| _ = env.set_parallelism(8)), "second").unwrap();
}
