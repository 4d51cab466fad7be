//! How many bytes are written where 1 % of the keys changed, and what a damaged or foreign chain does.

use stillstream_heap::{HeapKeyedStateBackend, HeapValues};
use stillstream_state::{BackendOptions, Key, KeyedBackend, KeyedValues, StateError};
use stillstream_types::{CheckpointId, ErrorKind, KeyGroups, KeyedSnapshot, StreamHandle};

use crate::store::SharedFiles;

struct Job {
    backend: HeapKeyedStateBackend<u64>,
    sums: HeapValues<u64, u64>,
    groups: KeyGroups,
    store: SharedFiles,
    id: u64,
}

impl Job {
    fn with_keys(keys: u64) -> Result<Self, StateError> {
        let groups = KeyGroups::new(128);
        let options = BackendOptions::new(groups, groups.all()).incremental(true);
        let mut backend = HeapKeyedStateBackend::new(options);
        let sums = backend.keyed_value("sums")?;
        let mut job = Self { backend, sums, groups, store: SharedFiles::default(), id: 0 };
        (0..keys).try_for_each(|key| job.add(key))?;
        Ok(job)
    }

    fn add(&mut self, key: u64) -> Result<(), StateError> {
        self.sums.update(key.key_hash(self.groups), &key, || 0, |sum| *sum += 1)
    }

    fn checkpoint(&mut self) -> Result<KeyedSnapshot, StateError> {
        self.id += 1;
        let snapshot = self.backend.freeze_checkpoint(CheckpointId(self.id))?.write(&self.store, "sums")?;
        self.backend.checkpoint_completed(CheckpointId(self.id));
        Ok(snapshot)
    }
}

fn files(snapshot: &KeyedSnapshot) -> Vec<u64> {
    snapshot.incremental[0].files.iter().map(|file| file.stream.len()).collect()
}

#[test]
fn one_percent_of_changed_keys_costs_a_few_percent_of_the_bytes() -> Result<(), StateError> {
    let keys = 1_000_000;
    let mut job = Job::with_keys(keys)?;
    let image = files(&job.checkpoint()?)[0];
    // keys scattered over all pages
    (0..keys).step_by(100).try_for_each(|key| job.add(key))?;
    let scattered = files(&job.checkpoint()?)[1];
    // keys that lie side by side in the table
    let groups = job.groups;
    let in_group = |key: &u64| key.key_hash(groups).group().0 == 77;
    let clustered: Vec<u64> = (0..keys).filter(in_group).take(keys as usize / 100).collect();
    clustered.iter().try_for_each(|key| job.add(*key))?;
    let clustered = files(&job.checkpoint()?)[2];
    job.add(5)?;
    let single = files(&job.checkpoint()?)[3];
    let none = files(&job.checkpoint()?)[4];
    println!(
        "image {image}, 1 % scattered {scattered}, 1 % clustered {clustered}, one key {single}, none {none}"
    );
    assert!(image > keys * 16 && image < keys * 16 + 100_000);
    assert!(scattered < image / 16, "{scattered} of {image}");
    assert!(clustered < image / 75, "{clustered} of {image}");
    assert!(single < 1000 && none < single);
    Ok(())
}

#[test]
fn without_sharing_every_checkpoint_is_whole_and_canonical() -> Result<(), StateError> {
    let mut job = Job::with_keys(1000)?;
    for id in 1..4 {
        let store = stillstream_state::MemorySnapshotStore::unlimited();
        let snapshot = job.backend.freeze_checkpoint(CheckpointId(id))?.write(&store, "sums")?;
        job.backend.checkpoint_completed(CheckpointId(id));
        assert!(snapshot.incremental.is_empty() && snapshot.keyed[0].stream.len() > 16_000);
    }
    Ok(())
}

#[test]
fn a_store_that_stops_sharing_fails_one_checkpoint_and_the_next_is_whole() -> Result<(), StateError> {
    let mut job = Job::with_keys(1000)?;
    job.checkpoint()?;
    let store = stillstream_state::MemorySnapshotStore::unlimited();
    let error = job.backend.freeze_checkpoint(CheckpointId(2))?.write(&store, "sums").unwrap_err();
    assert!(error.to_string().contains("cannot be shared"), "{error}");
    job.backend.checkpoint_aborted(CheckpointId(2));
    let snapshot = job.backend.freeze_checkpoint(CheckpointId(3))?.write(&store, "sums")?;
    assert!(snapshot.keyed[0].stream.len() > 16_000);
    Ok(())
}

#[test]
fn a_bit_turned_around_in_any_file_of_a_chain_is_found() -> Result<(), StateError> {
    let mut job = Job::with_keys(20_000)?;
    let mut snapshot = job.checkpoint()?;
    for _ in 0..2 {
        (0..200).try_for_each(|key| job.add(key * 100))?;
        snapshot = job.checkpoint()?;
    }
    let options = BackendOptions::new(job.groups, job.groups.all());
    for file in &snapshot.incremental[0].files {
        let StreamHandle::File { path, len, .. } = &file.stream else { panic!("not a file") };
        for at in [0, 40, *len as usize / 2, *len as usize - 1] {
            job.store.damage(path, at);
            let mut backend = HeapKeyedStateBackend::<u64>::new(options);
            let error = backend.restore_snapshot(&snapshot, &job.store).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CorruptSnapshot);
            assert!(error.to_string().contains(path.as_str()), "{error}");
            job.store.damage(path, at);
        }
    }
    HeapKeyedStateBackend::<u64>::new(options).restore_snapshot(&snapshot, &job.store)
}

/// What a restored backend writes first: so many files.
fn first_after_restore(own: bool, from: &KeyedSnapshot, part: bool, job: &Job) -> Result<usize, StateError> {
    let range = if part { job.groups.range(0, 2) } else { job.groups.all() };
    let options = BackendOptions::new(job.groups, range).incremental(true);
    let mut backend = HeapKeyedStateBackend::<u64>::new(options);
    let store = if own { job.store.clone() } else { job.store.of_another_job() };
    backend.restore_snapshot(from, &store)?;
    let sums = backend.keyed_value::<u64>("sums")?;
    let key = (0..).find(|key: &u64| range.contains(key.key_hash(job.groups).group())).unwrap_or(0);
    sums.insert(key.key_hash(job.groups), &key, 4)?;
    let snapshot = backend.freeze_checkpoint(CheckpointId(90))?.write(&job.store, "sums")?;
    assert_eq!(snapshot.incremental[0].backend == from.incremental[0].backend, own && !part);
    Ok(files(&snapshot).len())
}

#[test]
fn a_chain_goes_on_after_a_restore_only_in_its_own_job_with_the_same_key_groups() -> Result<(), StateError> {
    let mut job = Job::with_keys(20_000)?;
    job.checkpoint()?;
    job.add(7)?;
    let snapshot = job.checkpoint()?;
    assert_eq!(first_after_restore(true, &snapshot, false, &job)?, 3);
    assert_eq!(first_after_restore(false, &snapshot, false, &job)?, 1);
    assert_eq!(first_after_restore(true, &snapshot, true, &job)?, 1);
    Ok(())
}

#[test]
fn a_state_that_the_program_no_longer_has_goes_through_a_chain_unchanged() -> Result<(), StateError> {
    let mut job = Job::with_keys(3000)?;
    job.checkpoint()?;
    (0..30).try_for_each(|key| job.add(key * 100))?;
    job.sums.remove(5u64.key_hash(job.groups), &5)?;
    let mut snapshot = job.checkpoint()?;
    let (groups, own_store) = (job.groups, job.store.clone());
    let options = BackendOptions::new(groups, groups.all()).incremental(true);
    // twice without the state: once the chain goes on, once a new image is written
    for (own, id) in [(true, 10), (false, 20)] {
        let store = if own { own_store.clone() } else { own_store.of_another_job() };
        let mut without = HeapKeyedStateBackend::<u64>::new(options);
        without.restore_snapshot(&snapshot, &store)?;
        without.keyed_value::<u32>("other")?.insert(1u64.key_hash(groups), &1, id as u32)?;
        assert_eq!(without.unregistered(), ["sums"]);
        for id in id..id + 3 {
            snapshot = without.freeze_checkpoint(CheckpointId(id))?.write(&store, "sums")?;
            without.checkpoint_completed(CheckpointId(id));
        }
        // registered late, emptied, and not back after the next restore
        let mut late = HeapKeyedStateBackend::<u64>::new(options);
        late.restore_snapshot(&snapshot, &store)?;
        for id in id + 4..id + 6 {
            late.freeze_checkpoint(CheckpointId(id))?.write(&store, "sums")?;
            late.checkpoint_completed(CheckpointId(id));
        }
        let sums = late.keyed_value::<u64>("sums")?;
        assert_eq!(sums.len()?, 2999);
        sums.remove(100u64.key_hash(groups), &100)?;
        let emptied = late.freeze_checkpoint(CheckpointId(id + 7))?.write(&store, "sums")?;
        let mut again = HeapKeyedStateBackend::<u64>::new(options);
        again.restore_snapshot(&emptied, &store)?;
        assert_eq!(again.keyed_value::<u64>("sums")?.get(100u64.key_hash(groups), &100)?, None);
        assert_eq!(again.keyed_value::<u64>("sums")?.len()?, 2998);
    }
    let mut with = HeapKeyedStateBackend::<u64>::new(options);
    with.restore_snapshot(&snapshot, &own_store)?;
    let sums = with.keyed_value::<u64>("sums")?;
    assert_eq!(sums.len()?, 2999);
    assert_eq!(sums.get(200u64.key_hash(groups), &200)?, Some(2));
    assert_eq!(sums.get(5u64.key_hash(groups), &5)?, None);
    assert_eq!(with.keyed_value::<u32>("other")?.get(1u64.key_hash(groups), &1)?, Some(20));
    Ok(())
}
