//! What the log says of a start that leaves something behind, or may repeat something.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use stillstream::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::program::*;

/// The warnings of this thread, which is the one that starts the job.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Message(&mut text));
        self.0.lock().unwrap().push(text);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// What is warned of while `start` starts a job.
fn warned(start: impl FnOnce()) -> Vec<String> {
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), start);
    warnings.0.lock().unwrap().clone()
}

#[track_caller]
fn one_with<'a>(warnings: &'a [String], parts: &[&str]) -> &'a str {
    let found: Vec<&String> =
        warnings.iter().filter(|text| parts.iter().all(|part| text.contains(part))).collect();
    assert_eq!(found.len(), 1, "{parts:?} in {warnings:#?}");
    found[0]
}

#[test]
fn state_that_is_left_behind_is_said_with_its_operator_and_bytes_one_line_each() {
    let place = Place::new();
    let env = place.env();
    let all = numbers(&env);
    for uid in ["kept", "gone", "gone too"] {
        count(all.clone(), uid, &Arc::default());
    }
    let from = take(&env, "first", 1_000);
    let mut env = place.env();
    env.restore_from(from.to_str().unwrap()).allow_non_restored_state();
    count(numbers(&env), "kept", &Arc::default());
    let warnings = warned(|| starts(&env, "second").unwrap());
    for uid in ["\"gone\"", "\"gone too\""] {
        let line = one_with(&warnings, &["`count` (", &format!("uid {uid}"), "is left behind"]);
        let (before, _) = line.split_once(" bytes)").unwrap_or_else(|| panic!("{line}"));
        let bytes: u64 = before.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(bytes > 50, "{line}");
    }
    assert!(!warnings.iter().any(|text| text.contains("\"kept\"")), "{warnings:?}");
}

#[test]
fn an_operator_with_state_and_without_a_uid_is_warned_of_by_its_name_and_no_other_is() {
    let place = Place::new();
    let env = place.env();
    let counted = |name: &str| {
        let seen =
            numbers_named(&env, name).key_by(|n| n % 10).map_with_state("seen", |n: &mut u64, _| *n += 1);
        seen.name(name.to_owned())
    };
    counted("anonymous").discard();
    counted("known").uid("known").discard();
    numbers_named(&env, "third").map(|n| n + 1).name("stateless").discard();
    let warnings = warned(|| starts(&env, "ids").unwrap());
    one_with(&warnings, &["`anonymous`", "uid"]);
    for other in ["`known`", "`stateless`"] {
        assert!(!warnings.iter().any(|text| text.contains(other)), "{other}: {warnings:?}");
    }
}

fn numbers_named(env: &StreamExecutionEnvironment, name: &str) -> DataStream<u64> {
    let numbers = Generator::unbounded(|n| n).records_per_second(2_000.0);
    env.from_source(format!("numbers of {name}"), numbers).uid(format!("numbers of {name}"))
}

#[test]
fn a_fall_back_says_that_committed_output_may_appear_twice_and_which_checkpoints_stay() {
    let place = Place::new();
    let taken = crate::starts::three(&place);
    let warnings = warned(|| {
        let first = taken[0].0;
        crate::starts::again(&place, |env| _ = env.fall_back_to(first)).unwrap();
    });
    let (first, newer) = (taken[0].0, format!("{}, {}", taken[1].0, taken[2].0));
    one_with(&warnings, &[&format!("checkpoint {first}"), "--from-checkpoint", "may appear twice", &newer]);
}
