//! Copying files to and from the checkpoint storage, several at once.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use stillstream_state::StateError;
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{NamedStream, StreamHandle};

use crate::error::disk;

/// Bytes that are copied at once: 1 MiB up, 4 MiB down.
const UP: usize = 1 << 20;
const DOWN: u64 = 4 << 20;

/// Does `work` for all items on at most `threads` threads. After an error no further item is begun.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R, StateError> + Sync,
) -> Result<Vec<R>, StateError> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<Vec<(usize, Result<R, StateError>)>> = Mutex::default();
    let run = || {
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let result = work(item);
            if result.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            let builder = std::thread::Builder::new().name("rocksdb-transfer".into());
            // without another thread this one does it all
            let _ = builder.spawn_scoped(scope, run);
        }
        run();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Whether a file goes to where later checkpoints can name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    Shared,
    Private,
}

/// Copies one file of `folder` into the storage.
pub(crate) fn upload(
    folder: &Path,
    name: &str,
    sharing: Sharing,
    store: &dyn SnapshotStore,
    label: &str,
) -> Result<NamedStream, StateError> {
    let path = folder.join(name);
    let failed =
        |source| StateError::Io { what: format!("writing `{name}` of the snapshot `{label}`"), source };
    let mut file = File::open(&path).map_err(|e| disk(&path, "reading a file", &e))?;
    let mut stream = match sharing {
        Sharing::Shared => store.create_shared(&shared_label(label, name)),
        Sharing::Private => store.create(&shared_label(label, name)),
    }
    .map_err(failed)?;
    let mut buffer = vec![0; UP];
    loop {
        let n = file.read(&mut buffer).map_err(|e| disk(&path, "reading a file", &e))?;
        if n == 0 {
            break;
        }
        stream.write_all(&buffer[..n]).map_err(failed)?;
    }
    Ok(NamedStream { name: name.into(), stream: stream.finish().map_err(failed)? })
}

/// What a person sees of a file in the storage: letters, digits and `-`.
fn shared_label(label: &str, name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{label}-{name}")
}

/// Copies one file from the storage into `folder` and verifies it.
pub(crate) fn download(
    file: &NamedStream,
    folder: &Path,
    store: &dyn SnapshotStore,
) -> Result<(), StateError> {
    let (path, remote) = (folder.join(&file.name), path_of(&file.stream));
    let mut out = File::create(&path).map_err(|e| disk(&path, "making a file", &e))?;
    let mut write = |bytes: &[u8]| out.write_all(bytes).map_err(|e| disk(&path, "writing a file", &e));
    let StreamHandle::File { len, crc32c: expected, .. } = &file.stream else {
        return write(&read_small(&file.stream, store)?);
    };
    let (mut at, mut found) = (0, 0);
    while at < *len {
        let part = store
            .read(&file.stream, at, DOWN.min(len - at))
            .map_err(|source| StateError::reading(remote, source))?;
        if part.is_empty() {
            break;
        }
        found = crc32c::crc32c_append(found, &part);
        at += part.len() as u64;
        write(&part)?;
    }
    match found == *expected && at == *len {
        true => Ok(()),
        false => Err(StateError::Corrupt {
            path: remote.into(),
            part: format!("`{}`", file.name),
            expected: *expected,
            found,
        }),
    }
}

/// Reads and verifies a whole stream.
pub(crate) fn read_small(handle: &StreamHandle, store: &dyn SnapshotStore) -> Result<Vec<u8>, StateError> {
    store.read_all(handle).map_err(|source| StateError::reading(path_of(handle), source))
}

/// What an error calls the place of a stream.
pub(crate) fn path_of(handle: &StreamHandle) -> &str {
    handle.path().unwrap_or("(inline state)")
}
