//! Both stores, both registers and the storage on top of them pass the same suites.

use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use stillstream_storage::register::{NumberedRegister, TaggedRegister};
use stillstream_storage::store::{BlobStore, CasSupport};
use stillstream_storage::{CheckpointStorage, LocalStore, ObjectBlobStore, StorageOptions, conformance};
use tokio::runtime::{Builder, Runtime};

/// The three stores, each on an empty place.
struct Places {
    runtime: Runtime,
    options: StorageOptions,
    dir: tempfile::TempDir,
}

impl Places {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        Self { runtime, options: StorageOptions::default(), dir: tempfile::tempdir().unwrap() }
    }

    fn disk(&self) -> Arc<dyn BlobStore> {
        Arc::new(LocalStore::new(self.dir.path().join("deep/down"), &self.options))
    }

    fn memory(&self) -> Arc<dyn BlobStore> {
        let (store, handle) = (Arc::new(InMemory::new()), self.runtime.handle().clone());
        Arc::new(ObjectBlobStore::new(
            store,
            "a/prefix",
            "memory://",
            CasSupport::Tags,
            &self.options,
            handle,
        ))
    }

    fn object_store_on_disk(&self) -> Arc<dyn BlobStore> {
        let store = LocalFileSystem::new_with_prefix(self.dir.path()).unwrap().with_fsync(true);
        let (store, handle) = (Arc::new(store), self.runtime.handle().clone());
        Arc::new(ObjectBlobStore::new(store, "", "file://x", CasSupport::CreateNew, &self.options, handle))
    }
}

#[test]
fn the_disk_is_a_store() {
    conformance::blob_store(&*Places::new().disk());
}

#[test]
fn an_object_store_in_memory_is_a_store() {
    let places = Places::new();
    conformance::blob_store(&*places.memory());
}

#[test]
fn an_object_store_on_disk_is_a_store() {
    let places = Places::new();
    conformance::blob_store(&*places.object_store_on_disk());
}

#[test]
fn numbered_files_on_disk_are_a_register() {
    let places = Places::new();
    let store = places.disk();
    let handle = places.runtime.handle();
    conformance::register(|| Arc::new(NumberedRegister::new(store.clone(), "job", 7, handle.clone())));
}

#[test]
fn numbered_files_of_an_object_store_are_a_register() {
    let places = Places::new();
    let store = places.object_store_on_disk();
    let handle = places.runtime.handle();
    conformance::register(|| Arc::new(NumberedRegister::new(store.clone(), "job", 7, handle.clone())));
}

#[test]
fn one_tagged_object_is_a_register() {
    let places = Places::new();
    let store = places.memory();
    conformance::register(|| Arc::new(TaggedRegister::new(store.clone(), "job", 7)));
}

#[test]
fn every_store_carries_checkpoints() {
    let places = Places::new();
    for store in [places.disk(), places.memory(), places.object_store_on_disk()] {
        let handle = places.runtime.handle().clone();
        conformance::checkpoint_storage(&CheckpointStorage::with_store(
            store,
            places.options.clone(),
            handle,
        ));
    }
}
