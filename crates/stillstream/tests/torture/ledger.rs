//! A two-phase sink whose server is a folder: `prepared` holds what can be committed, `committed` what is.

use std::fs;
use std::io::ErrorKind::AlreadyExists;
use std::path::{Path, PathBuf};

use stillstream::connect::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId};

use crate::faults::place;

/// Which stream, key, weight.
pub type Entry = (u64, u64, u64);

#[derive(Clone, Debug)]
pub struct Ledger(PathBuf);

impl Ledger {
    pub fn new(folder: &Path) -> Self {
        for part in ["prepared", "committed", "anomalies"] {
            fs::create_dir_all(folder.join(part)).expect("a folder of the ledger");
        }
        Self(folder.to_owned())
    }

    fn of(&self, part: &str, name: &str) -> PathBuf {
        self.0.join(part).join(name)
    }

    /// Notes what a sink must never see.
    fn anomaly(&self, name: &str, text: &str) {
        fs::write(self.of("anomalies", name), text).expect("an anomaly is noted");
    }

    fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        if self.of("committed", name).exists() {
            self.anomaly(name, "it was made durable again after its commit");
        }
        let draft = self.0.join(format!("draft-{name}"));
        fs::write(&draft, text)?;
        fs::rename(draft, self.of("prepared", name))
    }

    /// Whether it is committed now; a transaction that is gone was committed before.
    fn commit(&self, name: &str) -> std::io::Result<()> {
        let (from, to) = (self.of("prepared", name), self.of("committed", name));
        if from.exists() && to.exists() {
            self.anomaly(name, "it was prepared again after its commit");
        }
        match fs::hard_link(&from, &to) {
            Ok(()) => fs::remove_file(from),
            Err(error) if error.kind() == AlreadyExists => fs::remove_file(from),
            Err(_) if to.exists() => Ok(()),
            Err(error) => {
                self.anomaly(name, "it was committed and is not there");
                Err(error)
            }
        }
    }
}

/// Generation, subtask and checkpoint.
fn name(generation: u64, subtask: u32, checkpoint: u64) -> String {
    format!("{generation}-{subtask}-{checkpoint}")
}

struct Writer {
    ledger: Ledger,
    generation: u64,
    subtask: u32,
    text: String,
}

impl Sink<Entry> for Ledger {
    type Committable = String;

    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<Entry, String>>> {
        place("writer")?;
        let (generation, subtask) = (context.generation, context.subtask.0);
        Ok(Box::new(Writer { ledger: self.clone(), generation, subtask, text: String::new() }))
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<String>>> {
        let ledger = self.clone();
        Ok(Box::new(move |name: &String| {
            place("commit")?;
            ledger.commit(name).map_err(|error| Error::msg(format!("commit {name}: {error}")))?;
            place("committed")
        }))
    }
}

impl SinkWriter<Entry, String> for Writer {
    fn write(&mut self, batch: Batch<Entry>) -> Result<()> {
        place("write")?;
        for (stream, key, weight) in batch.values {
            self.text += &format!("{stream},{key},{weight}\n");
        }
        Ok(())
    }

    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<String>>> {
        place("prepare")?;
        if self.text.is_empty() {
            return Ok(None);
        }
        let committable = name(self.generation, self.subtask, checkpoint.0);
        let (ledger, name, text) = (self.ledger.clone(), committable.clone(), std::mem::take(&mut self.text));
        let make_durable = move || {
            place("make-durable")?;
            ledger.write(&name, &text).map_err(|error| Error::msg(format!("prepare {name}: {error}")))?;
            place("made-durable")
        };
        Ok(Some(Prepared { committable, make_durable: Some(Box::new(make_durable)) }))
    }

    fn recovered(&mut self, restored: Option<CheckpointId>) -> Result<()> {
        place("recovered")?;
        let list =
            fs::read_dir(self.ledger.of("prepared", "")).map_err(|error| Error::msg(error.to_string()))?;
        for entry in list.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let numbers: Vec<u64> = name.split('-').filter_map(|number| number.parse().ok()).collect();
            let [generation, _, checkpoint] = numbers[..] else { continue };
            if generation < self.generation && restored.is_none_or(|restored| checkpoint > restored.0) {
                // another subtask may have been faster
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}
