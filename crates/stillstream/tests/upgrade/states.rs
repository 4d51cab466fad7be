//! Types that change, and state that nobody takes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use stillstream::prelude::*;
use stillstream::state::Key;

use crate::program::*;

mod first {
    use stillstream::prelude::*;

    #[derive(Clone, Data, Default)]
    pub struct Seen {
        pub count: u64,
        pub name: String,
    }
}

mod second {
    use stillstream::prelude::*;

    /// `name` was removed, `last` was added.
    #[derive(Clone, Data, Default)]
    pub struct Seen {
        pub last: Option<u64>,
        pub count: u64,
    }
}

mod renamed {
    use stillstream::prelude::*;

    /// `Seen` under another name, with a former name for each field, and wider.
    #[derive(Clone, Data, Default)]
    pub struct Digit {
        #[data(alias = "count")]
        pub times: Option<i128>,
        #[data(alias = "name")]
        pub what: String,
    }
}

mod without_alias {
    use stillstream::prelude::*;

    #[derive(Clone, Data, Default)]
    pub struct Seen {
        pub times: u64,
        pub name: String,
    }
}

mod other_type {
    use stillstream::prelude::*;

    #[derive(Clone, Data, Default)]
    pub struct Seen {
        pub count: String,
        pub name: String,
    }
}

fn first(place: &Place) -> std::path::PathBuf {
    let env = place.env();
    let counted = numbers(&env).key_by(|n| n % 10).map_with_state("seen", |seen: &mut first::Seen, _| {
        seen.count += 1;
        seen.name = "a digit".into();
    });
    counted.name("count").uid("count").discard();
    take(&env, "first", 1_000)
}

/// The next version, with state of type `S` and keys of type `K`.
fn next<S: Data + Default, K: Key>(
    place: &Place,
    from: &Path,
    key: impl Fn(u64) -> K + Send + Sync + 'static,
    step: impl Fn(&mut S) + Send + Sync + 'static,
) -> StreamExecutionEnvironment {
    let mut env = place.env();
    env.restore_from(from.to_str().unwrap());
    let counted =
        numbers(&env).key_by(move |n| key(*n)).map_with_state("seen", move |seen: &mut S, _| step(seen));
    counted.name("count").uid("count").discard();
    env
}

#[test]
fn a_field_that_is_new_or_gone_is_migrated_and_the_rest_of_the_state_is_there() {
    let place = Place::new();
    let from = first(&place);
    let (least, step) = (Arc::new(AtomicU64::new(u64::MAX)), ());
    let seen = least.clone();
    let mut env = next(
        &place,
        &from,
        |n| n % 10,
        move |state: &mut second::Seen| {
            state.count += 1;
            assert_eq!(state.last, None, "it starts with its default");
            seen.fetch_min(state.count, SeqCst);
            step
        },
    );
    env.allow_dropped_fields();
    starts(&env, "second").unwrap();
    assert!(least.load(SeqCst) > 50, "a count began anew: {}", least.load(SeqCst));
}

#[test]
fn a_type_with_other_names_keeps_its_state() {
    let place = Place::new();
    let from = first(&place);
    let least = Arc::new(AtomicU64::new(u64::MAX));
    let seen = least.clone();
    let env = next(
        &place,
        &from,
        |n| n % 10,
        move |state: &mut renamed::Digit| {
            let times = state.times.unwrap_or(0) + 1;
            state.times = Some(times);
            assert_eq!(state.what, "a digit");
            seen.fetch_min(times as u64, SeqCst);
        },
    );
    starts(&env, "second").unwrap();
    assert!(least.load(SeqCst) > 50, "a count began anew: {}", least.load(SeqCst));
}

#[test]
fn a_field_that_was_renamed_without_an_alias_is_not_lost_in_silence_and_what_was_allowed_stays_allowed() {
    let place = Place::new();
    let from = first(&place);
    let fails = Arc::new(AtomicBool::new(false));
    let next = || {
        let fails = fails.clone();
        next(
            &place,
            &from,
            |n| n % 10,
            move |state: &mut without_alias::Seen| {
                state.times += 1;
                assert!(!fails.load(SeqCst), "this one fails");
            },
        )
    };
    has(
        &refused(&next(), "second"),
        &[
            "operator `count`",
            "state `seen`",
            "the program's type has no field `count` (u64) of `Seen`",
            "if it is `times` now, put #[data(alias = \"count\")] on that field",
            "--allow-dropped-fields",
        ],
    );
    let mut env = next();
    env.allow_dropped_fields();
    fails.store(true, SeqCst);
    assert!(starts(&env, "second").unwrap_err().to_string().contains("this one fails"));
    // it has no checkpoint of its own yet, so it begins from the same snapshot again
    fails.store(false, SeqCst);
    starts(&next(), "second").unwrap();
    // another job has to be asked
    has(&refused(&next(), "third"), &["`count` (u64)"]);
}

#[test]
fn a_changed_type_is_refused_before_anything_starts_with_the_state_and_both_types() {
    let place = Place::new();
    let from = first(&place);
    let before = files(&place.dir());
    let env = next(&place, &from, |n| n % 10, |state: &mut other_type::Seen| state.count.clear());
    let text = refused(&env, "second");
    has(
        &text,
        &[
            "operator `count`",
            "state `seen` cannot be restored",
            "count: u64",
            "count: string",
            "a u64 can't become a string",
        ],
    );
    let after: Vec<_> = files(&place.dir()).into_iter().filter(|file| !before.contains(file)).collect();
    assert!(
        after.is_empty(),
        "a refused start has written {:?}",
        after.iter().map(|file| &file.0).collect::<Vec<_>>()
    );
}

#[test]
fn a_changed_type_of_key_is_refused_before_anything_starts() {
    let place = Place::new();
    let from = first(&place);
    let env = next(&place, &from, |n| (n % 10).to_string(), |state: &mut first::Seen| state.count += 1);
    has(
        &refused(&env, "second"),
        &["`seen`", "keyed by `u64`", "keys by `string`", "the type of a key can never change"],
    );
}

#[test]
fn everything_that_is_wrong_is_in_one_refusal() {
    let place = Place::new();
    let env = place.env();
    let all = numbers(&env);
    count(all.clone(), "a", &Arc::default());
    count(all, "gone", &Arc::default());
    let from = take(&env, "first", 1_000);

    let mut env = place.env();
    env.restore_from(from.to_str().unwrap());
    numbers(&env)
        .key_by(|n| n % 10)
        .map_with_state("seen", |seen: &mut String, _| seen.clear())
        .uid("a")
        .discard();
    let text = refused(&env, "second");
    has(
        &text,
        &[
            "2 reasons",
            "uid \"gone\"",
            " bytes)",
            "--allow-non-restored-state",
            "a u64 can't become a string",
        ],
    );
}

#[test]
fn state_that_nobody_claims_is_an_error_with_its_bytes_or_goes_where_that_is_allowed_and_stays_allowed() {
    let place = Place::new();
    let env = place.env();
    let all = numbers(&env);
    count(all.clone(), "kept", &Arc::default());
    count(all, "gone", &Arc::default());
    let from = take(&env, "first", 1_000);
    let next = |allow: bool| {
        let mut env = place.env();
        env.restore_from(from.to_str().unwrap());
        if allow {
            env.allow_non_restored_state();
        }
        let largest = Arc::default();
        count(numbers(&env), "kept", &largest);
        (env, largest)
    };
    has(
        &refused(&next(false).0, "second"),
        &["`count` (", "uid \"gone\"", " bytes)", "--allow-non-restored-state"],
    );
    let (env, largest) = next(true);
    let job = env.execute_async("second").unwrap();
    reads(&job, 100);
    job.trigger_checkpoint().unwrap();
    drop(job);
    assert!(largest.load(SeqCst) > 80);
}

#[test]
fn state_of_an_operator_that_keeps_none_of_its_kind_any_more_is_not_lost_in_silence() {
    let place = Place::new();
    let env = place.env();
    count(numbers(&env), "count", &Arc::default());
    let from = take(&env, "first", 1_000);
    let next = |allow: bool| {
        let mut env = place.env();
        env.restore_from(from.to_str().unwrap());
        if allow {
            env.allow_non_restored_state();
        }
        numbers(&env).map(|n| n + 1).uid("count").discard();
        env
    };
    has(&refused(&next(false), "second"), &["its state `seen`", "has no place in the program"]);
    starts(&next(true), "second").unwrap();
}

#[test]
fn a_state_that_the_program_does_not_register_is_carried_along_to_a_version_that_does() {
    let place = Place::new();
    let env = place.env();
    count(numbers(&env), "count", &Arc::default());
    let from = take(&env, "first", 2_000);

    let mut env = place.env();
    env.restore_from(from.to_str().unwrap());
    let other = numbers(&env).key_by(|n| n % 10).map_with_state("other", |other: &mut u64, _| *other += 1);
    other.uid("count").discard();
    let from = take(&env, "second", 100);

    let mut env = place.env();
    env.restore_from(from.to_str().unwrap());
    let largest = Arc::default();
    count(numbers(&env), "count", &largest);
    starts(&env, "third").unwrap();
    assert!(largest.load(SeqCst) > 150, "{}", largest.load(SeqCst));
}
