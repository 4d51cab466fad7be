//! What the RocksDB backend says when something is wrong with the disk or a value.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::shared_store::SharedStore;
use stillstream_rocksdb::{Compression, MemoryBudget, RocksDbKeyedStateBackend, RocksDbOptions};
use stillstream_state::{BackendOptions, CurrentKey, Key, KeyedBackend, MemorySnapshotStore, StateError};
use stillstream_types::{CheckpointId, ErrorKind, KeyGroups};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

fn groups() -> KeyGroups {
    KeyGroups::new(128)
}

fn at(key: &u64) -> CurrentKey<'_> {
    CurrentKey::new(key, key.key_hash(groups()))
}

fn options(folder: &Path) -> RocksDbOptions {
    RocksDbOptions {
        memory: MemoryBudget { total_bytes: Some(32 << 20), ..MemoryBudget::default() },
        ..RocksDbOptions::new(folder)
    }
}

fn open(options: RocksDbOptions) -> Result<RocksDbKeyedStateBackend<u64>, StateError> {
    RocksDbKeyedStateBackend::new(BackendOptions::new(groups(), groups().all()), options)
}

#[test]
fn a_folder_that_cannot_be_made_is_named() -> Result {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("file"), "")?;
    let Err(error) = open(options(&folder.path().join("file/below"))) else { panic!("a file is no folder") };
    assert!(error.to_string().contains("file/below"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Storage);
    Ok(())
}

#[test]
fn a_value_above_the_limit_is_refused_with_state_size_and_limit() -> Result {
    let folder = tempfile::tempdir()?;
    assert_eq!(RocksDbOptions::new("x").max_value_bytes, 2_147_483_647);
    let mut backend = open(RocksDbOptions { max_value_bytes: 1000, ..options(folder.path()) })?;
    let list = backend.list::<u64>("list")?.add_all(&at(&1), 0..1000).err();
    let map = backend.map::<u8, Vec<u8>>("map")?.put(&at(&1), 1, vec![0; 1000]).err();
    for error in [list, map] {
        let Some(StateError::EntryTooLarge { name, size, limit }) = error else { panic!("{error:?}") };
        assert!(limit == 1000 && size > 1000 && ["list", "map"].contains(&name.as_str()));
    }
    // a value that is hot is measured when it is written: before the next checkpoint is complete
    let state = backend.value::<Vec<u8>>("blob")?;
    state.set(&at(&1), vec![7; 900])?;
    backend.freeze()?.write(&MemorySnapshotStore::unlimited(), "n")?;
    state.set(&at(&1), vec![8; 1001])?;
    let written = backend.freeze().and_then(|frozen| frozen.write(&MemorySnapshotStore::unlimited(), "n"));
    let Err(error) = written else { panic!("it must be refused") };
    for part in ["`blob`", "1005 bytes", "1000"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    Ok(())
}

#[test]
fn a_damaged_file_is_an_error_with_state_and_folder_and_only_costs_a_restart() -> Result {
    let folder = tempfile::tempdir()?;
    let mut backend = open(RocksDbOptions {
        // so that no block is read twice from memory
        memory: MemoryBudget { total_bytes: Some(1 << 20), ..MemoryBudget::default() },
        ..options(folder.path())
    })?;
    let state = backend.value::<String>("text")?;
    for key in 0..20_000u64 {
        state.set(&at(&key), format!("{key:0100}"))?;
    }
    backend.compact("text")?;
    let mut damaged = 0;
    for work in fs::read_dir(folder.path())? {
        for entry in fs::read_dir(work?.path().join("db"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "sst") {
                let mut bytes = fs::read(&path)?;
                bytes.iter_mut().step_by(500).for_each(|byte| *byte ^= 1);
                fs::write(&path, bytes)?;
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0);
    let errors: Vec<StateError> = (0..20_000u64).filter_map(|key| state.get(&at(&key)).err()).collect();
    let error = errors.first().expect("damage is noticed");
    assert_eq!(error.kind(), ErrorKind::Storage, "a restart reads the checkpoint: {error}");
    for part in ["`text`", &folder.path().display().to_string(), "checkpoint"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    Ok(())
}

#[test]
fn the_folder_of_a_backend_goes_with_it() -> Result {
    let folder = tempfile::tempdir()?;
    let mut backend = open(options(folder.path()))?;
    let state = backend.value::<u64>("n")?;
    state.set(&at(&1), 1)?;
    let frozen = backend.freeze()?;
    drop(backend);
    assert_eq!(fs::read_dir(folder.path())?.count(), 1, "a snapshot and a handle still need it");
    drop(frozen);
    assert_eq!(state.get(&at(&1))?, Some(1));
    drop(state);
    // the thread that writes in the background may be the last to let go
    for _ in 0..1000 {
        if fs::read_dir(folder.path())?.count() == 0 {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the folder is still there after 10 s");
}

/// A small file system of its own, which takes rights that not every user has.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &Path, mb: u32) -> Option<Self> {
        let size = format!("size={mb}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(at.into()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_fails_checkpoints_until_there_is_room_again_and_no_change_is_lost() -> Result {
    let folder = tempfile::tempdir()?;
    let (local, ballast) = (folder.path().join("local"), folder.path().join("local/ballast"));
    fs::create_dir(&local)?;
    let Some(_disk) = SmallDisk::mount(&local, 24) else {
        eprintln!("left out: mounting a small file system needs the rights for it");
        return Ok(());
    };
    let store = SharedStore::new(&folder.path().join("store"));
    let options = RocksDbOptions { compression: vec![Compression::None], ..options(&local) };
    let open = || {
        let incremental = BackendOptions::new(groups(), groups().all()).incremental(true);
        RocksDbKeyedStateBackend::<u64>::new(incremental, options.clone())
    };
    let mut backend = open()?;
    let state = backend.value::<u64>("n")?;
    let checkpoint = |backend: &mut RocksDbKeyedStateBackend<u64>, id: u64| {
        backend.freeze_checkpoint(CheckpointId(id))?.write(&store, "n-0")
    };
    const KEYS: u64 = 40_000;
    (0..KEYS).try_for_each(|key| state.set(&at(&key), 1))?;
    checkpoint(&mut backend, 1)?;
    backend.checkpoint_completed(CheckpointId(1));

    let full = fs::write(&ballast, vec![1; 32 << 20]).expect_err("the disk is smaller");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    for id in 2..5 {
        (0..KEYS).try_for_each(|key| state.set(&at(&key), id))?;
        let Err(error) = checkpoint(&mut backend, id) else { panic!("there is no room for it") };
        backend.checkpoint_aborted(CheckpointId(id));
        for part in ["No space left", "state.backend.rocksdb.localdir", &local.display().to_string()] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(state.get(&at(&7))?, Some(id), "the job goes on");
    }

    fs::remove_file(&ballast)?;
    state.set(&at(&1), 100)?;
    // RocksDB looks every five seconds whether there is room again
    let mut again = None;
    for id in 5..65 {
        match checkpoint(&mut backend, id) {
            Ok(snapshot) => {
                again = Some(snapshot);
                break;
            }
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(500)),
        }
    }
    let snapshot = again.ok_or("no checkpoint within 30 s after there was room")?;
    let mut restored = open()?;
    restored.restore_snapshot(&snapshot, &store)?;
    let state = restored.value::<u64>("n")?;
    for key in 0..KEYS {
        assert_eq!(state.get(&at(&key))?, Some(if key == 1 { 100 } else { 4 }), "{key}");
    }
    Ok(())
}
