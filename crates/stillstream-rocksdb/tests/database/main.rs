//! State in RocksDB. The tests are one program: each links all of RocksDB.

mod conformance;
mod entries;
mod failures;
mod incremental;
mod model;
mod native;
mod one_percent;
mod round_trip;
mod shared_store;
mod ttl;
