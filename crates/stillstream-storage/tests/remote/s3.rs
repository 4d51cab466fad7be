//! Checkpoints on an S3 server.

use std::sync::Arc;
use std::time::Duration;

use stillstream_storage::register::TaggedRegister;
use stillstream_storage::{CheckpointStorage, Location, RemoteStores, StorageOptions, conformance};
use tokio::runtime::{Builder, Runtime};

fn options() -> StorageOptions {
    let port = std::env::var("F_PORT").unwrap();
    let set = |key: &str, value: &str| (key.to_string(), value.to_string());
    let remote = RemoteStores::new([
        set("s3.endpoint", &format!("http://127.0.0.1:{port}")),
        set("s3.access-key", "test"),
        set("s3.secret-key", "testtest"),
    ]);
    StorageOptions { remote, ..StorageOptions::default() }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn unique(name: &str) -> String {
    format!("s3://stillstream/{name}-{}", std::process::id())
}

#[test]
fn s3_is_a_store() {
    let store = Location::parse(&unique("store")).unwrap().open(&options()).unwrap();
    conformance::blob_store(&*store);
}

#[test]
fn s3_has_a_register() {
    let store = Location::parse(&unique("register")).unwrap().open(&options()).unwrap();
    conformance::register(|| Arc::new(TaggedRegister::new(store.clone(), "job", 7)));
}

#[test]
fn s3_carries_checkpoints() {
    let runtime = runtime();
    let storage = CheckpointStorage::open(&unique("storage"), options(), runtime.handle().clone()).unwrap();
    conformance::checkpoint_storage(&storage);
}

#[test]
fn what_a_user_reads() {
    let runtime = runtime();
    let say = |uri: &str, options: StorageOptions| {
        let storage = CheckpointStorage::open(uri, options, runtime.handle().clone()).unwrap();
        let start = std::time::Instant::now();
        println!("{:?}\n   {:?}", storage.probe_writable().map_err(|e| e.to_string()), start.elapsed());
    };
    let short = |set: &[(&str, &str)]| {
        let port = std::env::var("F_PORT").unwrap();
        let mut all = vec![
            ("s3.endpoint".to_string(), format!("http://127.0.0.1:{port}")),
            ("s3.access-key".into(), "test".into()),
            ("s3.secret-key".into(), "testtest".into()),
        ];
        all.extend(set.iter().map(|(k, v)| (k.to_string(), v.to_string())));
        StorageOptions { remote: RemoteStores::new(all), deadline: Duration::from_secs(3), ..StorageOptions::default() }
    };
    say("s3://stillstream/x", short(&[("s3.secret-key", "wrong")]));
    say("s3://stillstream/x", short(&[("s3.access-key", "wrong")]));
    say("s3://nosuchbucket/x", short(&[]));
    say("s3://stillstream/x", short(&[("s3.endpoint", "http://127.0.0.1:9")]));
    say("s3://stillstream/x", short(&[("s3.endpoint", "http://10.255.255.1:9")]));
    say("s3://stillstream/x", short(&[("s3.endpoint", "http://no.such.host.invalid")]));
    say("s3://stillstream/x", short(&[("s3.region", "eu-mars-1")]));
}
