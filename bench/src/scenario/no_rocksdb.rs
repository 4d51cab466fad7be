//! ROCKSRAW, in a program that was built without RocksDB.

use stillstream::{Error, ErrorKind, Result};

use crate::measurement::Measurement;
use crate::settings::Settings;

pub(super) fn run(_settings: &Settings) -> Result<Measurement> {
    let text = "ROCKSRAW needs RocksDB: build with the cargo feature `rocksdb`, which is on by default";
    Err(Error::new(ErrorKind::Configuration, text))
}
