//! Bytes that incremental checkpoints of RocksDB upload when one percent of the keys change between two of
//! them, beside a full one: `cargo run --release -p stillstream-rocksdb --example one_percent [KEYS]`
//! (default 10 000 000).

#[path = "../tests/database/one_percent.rs"]
mod one_percent;
#[path = "../tests/database/shared_store.rs"]
mod shared_store;

use std::error::Error;

use stillstream_rocksdb::RocksDbOptions;

const CHECKPOINTS: u64 = 10;

#[expect(clippy::disallowed_methods, reason = "the program's own arguments")]
fn main() -> Result<(), Box<dyn Error>> {
    let keys = std::env::args().nth(1).map_or(Ok(10_000_000), |word| word.replace('_', "").parse())?;
    let folder = tempfile::tempdir()?;
    let options = RocksDbOptions::new(folder.path().join("local"));
    let found = one_percent::measure(folder.path(), keys, CHECKPOINTS, options)?;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    println!("{keys} keys, 1 % changed between two checkpoints");
    println!("full         {:8.2} MB", megabytes(found.full));
    println!("incremental  {:8.2} MB in the mean of {CHECKPOINTS}", megabytes(found.mean()));
    for bytes in &found.incremental {
        println!("             {:8.2} MB", megabytes(*bytes));
    }
    Ok(())
}
