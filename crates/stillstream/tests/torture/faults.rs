//! Faults at named places: each happens once, at a pass that the plan names, in whichever process passes
//! there first.

use std::collections::HashMap;
use std::fmt;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use stillstream::prelude::*;
use stillstream_types::crash::{Crash, CrashHook, install};

/// What happens at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Error,
    Panic,
    /// The process ends without any clean-up.
    Abort,
}

/// One fault.
#[derive(Clone)]
pub struct Fault {
    pub place: &'static str,
    /// At which pass of a process, from 1.
    pub pass: u64,
    pub action: Action,
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}:{}", self.action, self.place, self.pass)
    }
}

/// The faults of this process.
#[derive(Debug)]
struct Armed {
    folder: PathBuf,
    faults: Vec<Fault>,
    passes: Mutex<HashMap<String, u64>>,
}

static ARMED: OnceLock<Arc<Armed>> = OnceLock::new();

/// Arms them for this process; what has happened is marked in the folder and does not happen again.
pub fn arm(folder: PathBuf, faults: Vec<Fault>) {
    let armed = Arc::new(Armed { folder, faults, passes: Mutex::default() });
    install(Some(armed.clone()));
    assert!(ARMED.set(armed).is_ok(), "armed once");
}

impl Armed {
    /// Whether the place fails now; a panic and an abort do not return.
    fn pass(&self, place: &str) -> Option<u64> {
        if !self.faults.iter().any(|fault| fault.place == place) {
            return None;
        }
        let pass = {
            let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
            let pass = passes.entry(place.to_owned()).or_insert(0);
            *pass += 1;
            *pass
        };
        let due =
            self.faults.iter().enumerate().filter(|(_, fault)| fault.place == place && pass >= fault.pass);
        for (index, fault) in due {
            let marker = self.folder.join(format!("fault-{index}"));
            if OpenOptions::new().write(true).create_new(true).open(marker).is_err() {
                continue;
            }
            match fault.action {
                Action::Error => return Some(pass),
                Action::Panic => panic!("told to panic at {place}, pass {pass}"),
                Action::Abort => std::process::abort(),
            }
        }
        None
    }
}

impl CrashHook for Armed {
    fn pass(&self, point: &str) -> Result<(), Crash> {
        match Self::pass(self, point) {
            Some(pass) => Err(Crash { point: point.to_owned(), pass }),
            None => Ok(()),
        }
    }
}

/// A place of the job's own code where the plan may let it fail.
pub fn place(name: &str) -> Result<()> {
    match ARMED.get().and_then(|armed| armed.pass(name)) {
        Some(pass) => Err(Error::msg(format!("told to fail at {name}, pass {pass}"))),
        None => Ok(()),
    }
}
