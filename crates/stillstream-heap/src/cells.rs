//! [`Cells`]: key to value, in the table that the backend's options ask for.

use std::collections::VecDeque;

use stillstream_data::{Data, Key};
use stillstream_data::{DecodeError, Schema, decode_stored};
use stillstream_state::BackendOptions;
use stillstream_state::snapshot::{FrozenRun, hash_in};
use stillstream_table::{Epoch, Fate, FrozenTable, KeyAt, Table};
use stillstream_types::{KeyGroups, KeyHash};

use crate::chain::Freezing;
use crate::frozen_numbers::WrittenNumbers;
use crate::frozen_run::FrozenCells;
use crate::plain::PlainTable;

/// Asynchronous snapshots freeze a copy-on-write table; synchronous ones encode a plain map on the spot.
#[derive(Debug)]
pub(crate) enum Cells<K, V> {
    CopyOnWrite {
        table: Table<K, V>,
        /// The epochs at which checkpoints froze the table, by their serial numbers, as far back as they may
        /// be asked for.
        marks: Vec<(u64, Epoch)>,
    },
    Plain(PlainTable<K, V>),
}

macro_rules! both {
    ($self:expr, $table:ident => $call:expr) => {
        match $self {
            Cells::CopyOnWrite { table: $table, .. } => $call,
            Cells::Plain($table) => $call,
        }
    };
}

impl<K: Key, V: Data> Cells<K, V> {
    pub fn new(options: &BackendOptions) -> Self {
        match options.asynchronous {
            true => Self::CopyOnWrite { table: Table::new(options.range), marks: Vec::new() },
            false => Self::Plain(PlainTable::new()),
        }
    }

    pub fn len(&self) -> usize {
        both!(self, table => table.len())
    }

    #[inline(always)]
    pub fn get(&self, hash: KeyHash, key: &K) -> Option<&V> {
        both!(self, table => table.get(hash, key))
    }

    #[inline]
    pub fn get_mut(&mut self, hash: KeyHash, key: &K) -> Option<&mut V> {
        both!(self, table => table.get_mut(hash, key))
    }

    #[inline]
    pub fn get_or_insert_with(&mut self, hash: KeyHash, key: &K, make: impl FnOnce() -> V) -> &mut V {
        both!(self, table => table.get_or_insert_with(hash, key, make))
    }

    #[inline(always)]
    pub fn insert(&mut self, hash: KeyHash, key: &K, value: V) {
        both!(self, table => { table.insert(hash, key, value); })
    }

    #[inline]
    pub fn remove(&mut self, hash: KeyHash, key: &K) -> Option<V> {
        both!(self, table => table.remove(hash, key))
    }

    #[inline(always)]
    pub fn prefetch(&self, hash: KeyHash) {
        if let Self::CopyOnWrite { table, .. } = self {
            table.prefetch(hash);
        }
    }

    pub fn prefetch_group(&self, hashes: &[KeyHash], at: usize) {
        if let Self::CopyOnWrite { table, .. } = self {
            table.prefetch_group(hashes, at);
        }
    }

    pub fn for_each(&self, f: impl FnMut(&K, &V)) {
        both!(self, table => table.for_each(f))
    }

    /// See [`Table::sweep`].
    pub fn sweep(
        &mut self,
        at: &mut u64,
        most: usize,
        look: impl FnMut(&K, &V) -> Fate,
        change: impl FnMut(&mut V),
    ) {
        both!(self, table => table.sweep(at, most, look, change));
    }

    pub fn memory_bytes(&self) -> usize {
        both!(self, table => table.memory_bytes())
    }

    /// The synchronous part of a snapshot of the state `name`.
    pub fn freeze(&mut self, name: &str, namespace: &[u8], how: &mut Freezing<'_>) -> Box<dyn FrozenRun> {
        match self {
            Self::Plain(table) => table.freeze(namespace),
            Self::CopyOnWrite { table, marks } => match how {
                Freezing::Canonical => match table.freeze_numbers() {
                    Some(numbers) => {
                        numbers.expect_saves();
                        Box::new(WrittenNumbers(numbers))
                    }
                    None => Box::new(FrozenCells::canonical(table.freeze())),
                },
                Freezing::Checkpoint(freeze) => {
                    // a table that was not there at the base has no mark of it: all its pages are changes
                    let epoch =
                        |base| marks.iter().find(|mark| mark.0 == base).map_or(Epoch::START, |mark| mark.1);
                    let since = freeze.since().map(epoch);
                    let frozen = match since {
                        Some(epoch) => table.freeze_since(epoch),
                        None => table.freeze(),
                    };
                    marks.retain(|mark| mark.0 >= freeze.oldest());
                    marks.push((freeze.serial(), frozen.epoch()));
                    let whole = since.is_none_or(|epoch| epoch == Epoch::START);
                    let tracking = freeze.track(name, namespace, whole);
                    Box::new(FrozenCells::tracked(frozen, tracking, since.is_some()))
                }
            },
        }
    }

    /// Notes that the table is now as checkpoint `serial` has it.
    pub fn mark(&mut self, serial: u64) {
        if let Self::CopyOnWrite { table, marks } = self {
            marks.push((serial, table.mark()));
        }
    }

    /// All keys there are now, in parts that each take little time to read.
    pub fn keys(&mut self) -> Keys<K, V> {
        // so many keys can be copied within an operator's time slice
        const PART: usize = 4096;
        match self {
            Self::CopyOnWrite { table, .. } => {
                let parts = table.len() / PART + 1;
                Keys { parts: table.freeze().parts(parts).into(), plain: Vec::new() }
            }
            Self::Plain(table) => {
                let mut plain = Vec::with_capacity(table.len());
                table.for_each(|key, _| plain.push(key.clone()));
                Keys { parts: VecDeque::new(), plain }
            }
        }
    }

    /// Updates the value of each record of a batch, made first where there is none.
    ///
    /// Inlined, so that what the closures know of the batch (one length, one place) is known in the loop too.
    #[inline(always)]
    pub fn update_batch(
        &mut self,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        mut init: impl FnMut() -> V,
        mut f: impl FnMut(usize, &mut V),
    ) {
        match self {
            Self::CopyOnWrite { table, .. } => table.update_batch(hashes, keys, init, f),
            Self::Plain(table) => hashes.iter().enumerate().for_each(|(at, hash)| {
                f(at, keys.with(at, |key| table.get_or_insert_with(*hash, key, &mut init)));
            }),
        }
    }
}

/// Keys that are still to be read. An image of the table stands in for them: making it costs far less than
/// copying the keys, and a part of it is given back before the entries that it holds are changed.
#[derive(Debug)]
pub(crate) struct Keys<K, V> {
    parts: VecDeque<FrozenTable<K, V>>,
    plain: Vec<K>,
}

impl<K: Key, V: Data> Keys<K, V> {
    /// These keys.
    pub fn of(plain: Vec<K>) -> Self {
        Self { parts: VecDeque::new(), plain }
    }

    /// The next keys; none at the end.
    pub fn next_part(&mut self) -> Vec<K> {
        while let Some(part) = self.parts.pop_front() {
            let mut keys = Vec::with_capacity(part.len());
            part.into_group_order(|_, key, _| keys.push(key.clone()));
            if !keys.is_empty() {
                return keys;
            }
        }
        std::mem::take(&mut self.plain)
    }

    /// How many keys are left.
    pub fn len(&self) -> usize {
        self.parts.iter().map(FrozenTable::len).sum::<usize>() + self.plain.len()
    }
}

/// Reads one stored entry.
pub(crate) fn read_entry<K: Key, V: Data>(
    group: stillstream_types::KeyGroup,
    groups: KeyGroups,
    migrate: Option<&Schema>,
    input: &mut &[u8],
) -> Result<(KeyHash, K, V), DecodeError> {
    let key = K::decode(input)?;
    let hash = hash_in(&key, group, groups)?;
    let value = match migrate {
        None => V::decode(input)?,
        Some(stored) => decode_stored(stored, input)?,
    };
    Ok((hash, key, value))
}
