//! Stores, registers and checkpoints pass the suites that the disk passes.

use std::sync::Arc;

use stillstream_services::S3;
use stillstream_storage::register::{NumberedRegister, TaggedRegister};
use stillstream_storage::store::BlobStore;
use stillstream_storage::{CheckpointStorage, Location, StorageOptions, conformance};

use crate::{hdfs, options, runtime, s3};

fn open(uri: &str, options: &StorageOptions) -> Arc<dyn BlobStore> {
    Location::parse(uri).unwrap().open(options).unwrap()
}

fn on_s3(name: &str) -> String {
    format!("s3://{}/{name}/deep", S3::BUCKET)
}

fn on_hdfs(name: &str) -> String {
    format!("{}/{name}/deep", hdfs().uri())
}

#[test]
fn s3_is_a_store() {
    conformance::blob_store(&*open(&on_s3("store"), &options(s3(), &[])));
}

#[test]
fn hdfs_is_a_store() {
    conformance::blob_store(&*open(&on_hdfs("store"), &StorageOptions::default()));
}

#[test]
fn an_object_of_s3_is_a_register() {
    // each handle has connections of its own, as another process would have
    conformance::register(|| {
        Arc::new(TaggedRegister::new(open(&on_s3("register"), &options(s3(), &[])), "job", 7))
    });
}

#[test]
fn numbered_files_of_hdfs_are_a_register() {
    let runtime = runtime();
    conformance::register(|| {
        let store = open(&on_hdfs("register"), &StorageOptions::default());
        Arc::new(NumberedRegister::new(store, "job", 7, runtime.handle().clone()))
    });
}

#[test]
fn checkpoints_are_written_read_and_deleted_on_s3_and_on_hdfs() {
    let runtime = runtime();
    for (uri, options) in
        [(on_s3("checkpoints"), options(s3(), &[])), (on_hdfs("checkpoints"), StorageOptions::default())]
    {
        let storage = CheckpointStorage::open(&uri, options, runtime.handle().clone()).unwrap();
        conformance::checkpoint_storage(&storage);
    }
}

#[test]
fn the_folders_of_jobs_are_found_on_s3_and_on_hdfs() {
    for store in
        [open(&on_s3("folders"), &options(s3(), &[])), open(&on_hdfs("folders"), &StorageOptions::default())]
    {
        for key in ["a/chk-1/_metadata", "a/shared/x", "b/y", "file"] {
            store.put_new(key, b"x").unwrap();
        }
        let sorted = |prefix: &str| {
            let mut found = store.folders(prefix).unwrap();
            found.sort();
            found
        };
        assert_eq!(
            (sorted(""), sorted("a")),
            (vec!["a".into(), "b".into()], vec!["chk-1".into(), "shared".into()])
        );
        assert!(store.folders("nowhere").unwrap().is_empty(), "{store:?}");
        let keys = ["a/shared/x", "a/chk-1/_metadata", "absent"].map(String::from);
        assert!(store.delete_all(&keys).iter().all(Result::is_ok), "{store:?}");
        store.remove_empty_dirs("a").unwrap();
        assert_eq!(sorted(""), vec!["b".to_string()], "{store:?}");
    }
}
