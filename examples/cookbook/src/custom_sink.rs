//! A sink of one's own, with each record exactly once: rows become visible with the checkpoint that they
//! belong to.
//!
//! At a checkpoint the writer hands over what it has written since the last one, as a *committable* that goes
//! into the checkpoint. When that is complete it is committed, and after a failure once more, since nobody
//! knows whether the first time succeeded. So a transaction has a name, and the target takes each name once.
//!
//! ```text
//! 3 rows: [10, 20, 30]
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use stillstream::connect::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId};

/// Stands for a database: rows by the name of their transaction.
type Database = Arc<Mutex<BTreeMap<String, Vec<u64>>>>;
type Transaction = (String, Vec<u64>);

struct Table(Database);

impl Sink<u64> for Table {
    type Committable = Transaction;

    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<u64, Transaction>>> {
        Ok(Box::new(Writer { subtask: context.subtask.0, rows: Vec::new() }))
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<Transaction>>> {
        let database = self.0.clone();
        Ok(Box::new(move |(name, rows): &Transaction| {
            let mut database = database.lock().unwrap_or_else(PoisonError::into_inner);
            database.insert(name.clone(), rows.clone()); // the second time changes nothing
            Ok(())
        }))
    }
}

struct Writer {
    subtask: u32,
    rows: Vec<u64>,
}

impl SinkWriter<u64, Transaction> for Writer {
    fn write(&mut self, batch: Batch<u64>) -> Result<()> {
        self.rows.extend(batch.values);
        Ok(())
    }

    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<Transaction>>> {
        let name = format!("checkpoint {checkpoint}, subtask {}", self.subtask);
        let rows = std::mem::take(&mut self.rows);
        Ok((!rows.is_empty()).then(|| Prepared::done((name, rows))))
    }
}

pub fn main() -> Result<()> {
    let mut env = StreamExecutionEnvironment::from_args()?;
    env.enable_checkpointing(millis(100));
    let database = Database::default();
    env.from_collection([10, 20, 30]).uid("numbers").sink_to("table", Table(database.clone())).uid("table");
    env.execute("custom sink")?;

    let transactions = database.lock().unwrap_or_else(PoisonError::into_inner);
    let rows: Vec<&u64> = transactions.values().flatten().collect();
    println!("{} rows: {rows:?}", rows.len());
    Ok(())
}
