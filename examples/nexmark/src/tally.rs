//! What a query gives, as a number of rows and the sum of their hashes, which do not depend on the order of the rows.
//!
//! Each row counts exactly once, whatever fails: what a subtask has counted between two checkpoints is a transaction, which
//! has a name and is committed with the second one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use stillstream::connect::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId};

/// Rows, and the sum of their hashes modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Data)]
pub struct Total {
    pub rows: i64,
    pub sum: u64,
}

impl Total {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// What can be hashed column by column.
pub trait Row: Data {
    /// Feeds the columns in their order.
    fn feed(&self, hash: &mut RowHash);

    /// Whether the row takes back another one.
    fn takes_back(&self) -> bool {
        false
    }
}

/// The hash of a row.
#[derive(Debug)]
pub struct RowHash(u64);

impl RowHash {
    pub fn number(&mut self, x: u64) {
        let z = (self.0 ^ x).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = z ^ z >> 32;
    }

    /// Length, first, middle and last byte: cheap on purpose, not to burden the queries that give out every bid.
    pub fn text(&mut self, text: &str) {
        let (bytes, n) = (text.as_bytes(), text.len());
        let byte = |at: usize| u64::from(bytes[at]);
        self.number(match n {
            0 => 0,
            n => n as u64 | byte(0) << 16 | byte(n / 2) << 24 | byte(n - 1) << 32,
        });
    }
}

/// A row of a table that changes: a new one, or the old one that a new one replaces.
#[derive(Clone, Debug, Data)]
pub enum Change<T> {
    New(T),
    Old(T),
}

impl<T> Change<T> {
    /// A new row, and the one before it that it replaces.
    pub fn of((old, new): (Option<T>, T)) -> impl Iterator<Item = Self> {
        old.map(Self::Old).into_iter().chain([Self::New(new)])
    }
}

/// A sink that counts the rows of a query.
#[derive(Clone, Debug)]
pub struct Tally {
    query: u64,
    place: Place,
}

/// Where transactions are kept by their names: committing one again changes nothing.
#[derive(Clone, Debug)]
enum Place {
    Memory(Arc<Mutex<BTreeMap<String, Total>>>),
    Folder(PathBuf),
}

impl Tally {
    /// Counts in memory.
    pub fn new(query: u64) -> Self {
        Self { query, place: Place::Memory(Arc::default()) }
    }

    /// Counts in a folder, which outlives the process.
    pub fn in_folder(query: u64, folder: impl Into<PathBuf>) -> Self {
        Self { query, place: Place::Folder(folder.into()) }
    }

    /// What is committed.
    pub fn total(&self) -> Result<Total> {
        let mut total = Total::default();
        match &self.place {
            Place::Memory(transactions) => {
                let transactions = transactions.lock().unwrap_or_else(PoisonError::into_inner);
                transactions.values().for_each(|part| total.add(*part));
            }
            Place::Folder(folder) => {
                for file in std::fs::read_dir(folder)? {
                    let path = file?.path();
                    if path.extension().is_some_and(|extension| extension == "total") {
                        total.add(read(&path)?);
                    }
                }
            }
        }
        Ok(total)
    }
}

fn read(path: &Path) -> Result<Total> {
    let text = std::fs::read_to_string(path)?;
    let (rows, sum) = text.split_once(' ').ok_or_else(|| Error::msg(format!("{}: torn", path.display())))?;
    Ok(Total { rows: rows.parse()?, sum: sum.parse()? })
}

type Transaction = (String, Total);

impl<T: Row> Sink<T> for Tally {
    type Committable = Transaction;

    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<T, Transaction>>> {
        Ok(Box::new(Writer { query: self.query, subtask: context.subtask.0, counted: Total::default() }))
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<Transaction>>> {
        let place = self.place.clone();
        Ok(Box::new(move |(name, total): &Transaction| {
            match &place {
                Place::Memory(transactions) => {
                    let mut transactions = transactions.lock().unwrap_or_else(PoisonError::into_inner);
                    transactions.insert(name.clone(), *total);
                }
                Place::Folder(folder) => {
                    std::fs::create_dir_all(folder)?;
                    let (file, part) =
                        (folder.join(format!("{name}.total")), folder.join(format!("{name}.part")));
                    std::fs::write(&part, format!("{} {}", total.rows, total.sum))?;
                    std::fs::rename(part, file)?;
                }
            }
            Ok(())
        }))
    }
}

struct Writer {
    query: u64,
    subtask: u32,
    counted: Total,
}

impl<T: Row> SinkWriter<T, Transaction> for Writer {
    fn write(&mut self, batch: Batch<T>) -> Result<()> {
        for row in &batch.values {
            let mut hash = RowHash(self.query);
            row.feed(&mut hash);
            self.counted.add(match row.takes_back() {
                false => Total { rows: 1, sum: hash.0 },
                true => Total { rows: -1, sum: hash.0.wrapping_neg() },
            });
        }
        Ok(())
    }

    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<Transaction>>> {
        let counted = std::mem::take(&mut self.counted);
        let name = format!("{checkpoint}-{}", self.subtask);
        Ok((counted != Total::default()).then(|| Prepared::done((name, counted))))
    }
}

impl Row for u64 {
    fn feed(&self, hash: &mut RowHash) {
        hash.number(*self);
    }
}

impl Row for Timestamp {
    fn feed(&self, hash: &mut RowHash) {
        hash.number(self.as_millis() as u64);
    }
}

impl Row for crate::Text {
    fn feed(&self, hash: &mut RowHash) {
        hash.text(self);
    }
}

impl<T: Row> Row for Change<T> {
    fn feed(&self, hash: &mut RowHash) {
        let (Self::New(row) | Self::Old(row)) = self;
        row.feed(hash);
    }
    fn takes_back(&self) -> bool {
        matches!(self, Self::Old(_))
    }
}

macro_rules! columns {
    ($($ty:ident $at:tt),+) => {
        impl<$($ty: Row),+> Row for ($($ty,)+) {
            fn feed(&self, hash: &mut RowHash) {
                $(self.$at.feed(hash);)+
            }
        }
    };
}

columns!(A 0, B 1);
columns!(A 0, B 1, C 2);
columns!(A 0, B 1, C 2, D 3);
columns!(A 0, B 1, C 2, D 3, E 4);

impl Row for crate::Bid {
    fn feed(&self, hash: &mut RowHash) {
        [self.auction, self.bidder, self.price].into_iter().for_each(|number| hash.number(number));
        hash.text(&self.channel);
        hash.text(&self.url);
        self.date_time.feed(hash);
        hash.text(&self.extra);
    }
}

/// Without its id, which the bid beside it has.
impl Row for crate::Auction {
    fn feed(&self, hash: &mut RowHash) {
        hash.text(&self.item_name);
        hash.text(&self.description);
        [self.initial_bid, self.reserve].into_iter().for_each(|number| hash.number(number));
        self.date_time.feed(hash);
        self.expires.feed(hash);
        [self.seller, self.category].into_iter().for_each(|number| hash.number(number));
        hash.text(&self.extra);
    }
}
