//! Every key, its type, its default and its older names, in one table.
//!
//! Types, defaults and older names are those of Flink 2.3 and 1.20; what a key does is said in our own words.
//! The table is what a configuration is checked against and what `docs/configuration.md` is made from.

mod changelog;
mod checkpointing;
mod cluster;
mod forst;
mod high_availability;
mod own;
mod recovery;
mod rocksdb;
mod stores;
mod tracking;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::value::Kind;

/// What this release does with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It has the meaning it has in Flink.
    Supported,
    /// It is read and checked, and has no effect: a warning says so, with this advice.
    NoEffect(&'static str),
    /// It is honoured, but these values are refused with this advice: to ignore them would change what the
    /// job does.
    Refused(&'static [&'static str], &'static str),
}

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The present name.
    pub key: &'static str,
    /// The type of the value.
    pub kind: Kind,
    /// The default as text; empty: none.
    pub default: &'static str,
    /// Names that are still read, with a warning.
    pub older: &'static [&'static str],
    /// The smallest and largest valid number, in milliseconds, bytes or plain.
    pub range: Option<(f64, f64)>,
    /// What this release does with it.
    pub status: Status,
    /// What it does, in one line.
    pub meaning: &'static str,
}

impl Row {
    const fn older(mut self, names: &'static [&'static str]) -> Self {
        self.older = names;
        self
    }

    const fn at_least(self, min: f64) -> Self {
        self.within(min, f64::MAX)
    }

    const fn within(mut self, min: f64, max: f64) -> Self {
        self.range = Some((min, max));
        self
    }

    const fn no_effect(mut self, advice: &'static str) -> Self {
        self.status = Status::NoEffect(advice);
        self
    }

    const fn refuse(mut self, values: &'static [&'static str], advice: &'static str) -> Self {
        self.status = Status::Refused(values, advice);
        self
    }
}

const fn option(key: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Row {
    Row { key, kind, default, older: &[], range: None, status: Status::Supported, meaning }
}

/// Rows that belong together, under a heading.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The heading.
    pub title: &'static str,
    /// The rows, sorted by key within the section.
    pub rows: &'static [Row],
}

/// The whole table.
pub const SECTIONS: &[Section] = &[
    Section { title: "Checkpointing", rows: checkpointing::ROWS },
    Section { title: "Stores that are reached over the network", rows: stores::ROWS },
    Section { title: "Starting from a snapshot", rows: recovery::RECOVERY },
    Section { title: "Restart strategies", rows: recovery::RESTART },
    Section { title: "Jobs, tasks and cluster", rows: cluster::ROWS },
    Section { title: "Stillstream's own", rows: own::ROWS },
    Section { title: "RocksDB", rows: rocksdb::ROWS },
    Section { title: "ForSt", rows: forst::ROWS },
    Section { title: "Changelog", rows: changelog::ROWS },
    Section { title: "State access tracking", rows: tracking::TRACKING },
    Section { title: "High availability and cleanup", rows: high_availability::ROWS },
    Section { title: "Adaptive scheduler", rows: cluster::ADAPTIVE },
    Section { title: "Queryable state", rows: tracking::QUERYABLE },
];

/// Every row.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

static BY_KEY: LazyLock<BTreeMap<&'static str, &'static Row>> =
    LazyLock::new(|| rows().map(|row| (row.key, row)).collect());

static BY_OLDER: LazyLock<BTreeMap<&'static str, Vec<&'static Row>>> = LazyLock::new(|| {
    let mut map = BTreeMap::<_, Vec<_>>::new();
    for row in rows() {
        for name in row.older {
            map.entry(*name).or_default().push(row);
        }
    }
    map
});

/// The row of a key by its present name.
pub fn row(key: &str) -> Option<&'static Row> {
    BY_KEY.get(key).copied()
}

/// The rows that an older name stands for; it can be two (`state.backend.local-recovery`).
pub(super) fn by_older_name(name: &str) -> &'static [&'static Row] {
    BY_OLDER.get(name).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::checks;
    use super::*;

    #[test]
    fn every_default_is_valid_under_its_own_type_and_range() {
        for row in rows().filter(|row| !row.default.is_empty()) {
            checks::value(row, row.default).unwrap_or_else(|error| panic!("{}: {error}", row.key));
        }
    }

    #[test]
    fn no_name_means_two_things() {
        let mut seen = BTreeMap::new();
        for row in rows() {
            assert!(seen.insert(row.key, row.key).is_none(), "`{}` is in the table twice", row.key);
        }
        for row in rows() {
            for older in row.older {
                assert!(row_is_alone(older), "`{older}` is both a present and an older name");
            }
        }
    }

    fn row_is_alone(older: &str) -> bool {
        super::row(older).is_none()
    }

    #[test]
    fn every_row_says_what_it_does_and_what_to_do_if_it_does_nothing() {
        for row in rows() {
            assert!(row.meaning.len() > 5, "{}", row.key);
            if let Status::NoEffect(advice) | Status::Refused(_, advice) = row.status {
                assert!(advice.len() > 10, "{}", row.key);
            }
        }
    }

    #[test]
    fn the_table_holds_the_keys_of_flink() {
        // 219 of Flink 2.3, two that only 1.x has, five of our own: a row that goes missing is noticed
        assert!(rows().count() >= 224, "{} rows", rows().count());
        for section in SECTIONS {
            assert!(!section.rows.is_empty(), "{}", section.title);
        }
    }
}
