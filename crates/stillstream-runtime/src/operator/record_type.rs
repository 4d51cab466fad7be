//! Which type of records an operator has taken: for the message about one that fails.
//!
//! A batch is taken by the operator itself, which alone knows the type, so it is noted there: once a batch,
//! for each thread.

use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// An operator takes records of this type.
#[inline]
pub(crate) fn note<T>() {
    TAKEN.set(Some(std::any::type_name::<T>()));
}

/// Nothing has been taken yet.
#[inline]
pub(crate) fn forget() {
    TAKEN.set(None);
}

/// The type of the records that were taken last, as it is written in a program.
pub(crate) fn taken() -> Option<String> {
    TAKEN.get().map(short)
}

/// The name without the paths of modules: `Vec<(String, Flight)>`.
fn short(name: &str) -> String {
    let mut short = String::new();
    let mut rest = name;
    while let Some(at) = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')) {
        let (word, tail) = rest.split_at(at);
        // a word before `::` names a module, a crate or, in front of an associated type, the type itself
        if let Some(tail) = tail.strip_prefix("::") {
            rest = tail;
            continue;
        }
        short += word;
        short.extend(tail.chars().next());
        rest = tail.get(tail.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
    }
    short + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_they_are_written_in_a_program() {
        struct Flight;
        note::<Vec<(String, Option<Flight>, [u8; 4])>>();
        assert_eq!(taken().as_deref(), Some("Vec<(String, Option<Flight>, [u8; 4])>"));
        note::<u64>();
        assert_eq!(taken().as_deref(), Some("u64"));
        forget();
        assert_eq!(taken(), None);
    }
}
