//! Checkpoint storage on real servers, S3 and HDFS: the suites, and what a person reads when something is
//! wrong.
//!
//! `cargo xtask services prepare` must have made the servers.

mod failures;
mod suites;

use std::sync::OnceLock;

use stillstream_services::{Hdfs, S3};
use stillstream_storage::{RemoteStores, StorageOptions};
use tokio::runtime::{Builder, Runtime};

/// The server of this program.
fn s3() -> &'static S3 {
    static SERVER: OnceLock<S3> = OnceLock::new();
    SERVER.get_or_init(|| S3::start().unwrap())
}

/// The file system of this program.
fn hdfs() -> &'static Hdfs {
    static SERVER: OnceLock<Hdfs> = OnceLock::new();
    SERVER.get_or_init(|| Hdfs::start().unwrap())
}

/// Settings for a server; the later of two for one key counts.
fn options(server: &S3, set: &[(&str, &str)]) -> StorageOptions {
    let of_server = [
        ("s3.endpoint", server.endpoint()),
        ("s3.access-key", S3::ACCESS_KEY.into()),
        ("s3.secret-key", S3::SECRET_KEY.into()),
    ];
    let set = set.iter().map(|(key, value)| (*key, (*value).to_string()));
    let all = of_server.into_iter().chain(set).map(|(key, value)| (key.to_string(), value));
    StorageOptions { remote: RemoteStores::new(all), ..StorageOptions::default() }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}
