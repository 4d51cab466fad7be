//! Chains: one full image and the files of changes after it, each written by a checkpoint and named by later
//! ones.

use std::io::Write;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    IncrementalFormat, IncrementalHandle, KeyGroup, KeyGroupRange, KeyGroupSection, KeyedStateHandle,
    NamedStream, StreamHandle,
};

use super::header::read_versioned;
use super::write::FrozenKeyedState;
use crate::StateError;
use crate::data::{Data, DecodeError};

const MAGIC: [u8; 4] = *b"SSKC";
const VERSION: u32 = 1;

/// One file of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainFile {
    /// Unique within the backend that wrote it.
    pub name: String,
    /// Header and sections, as of a full snapshot.
    pub handle: KeyedStateHandle,
}

/// The files of a chain, oldest first; the first is an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainMeta {
    /// The files.
    pub files: Vec<ChainFile>,
}

impl ChainMeta {
    /// Where headers and sections lie: the files' names and streams are in the handle.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        VERSION.encode(&mut out);
        (self.files.len() as u32).encode(&mut out);
        for ChainFile { handle, .. } in &self.files {
            handle.header_len.encode(&mut out);
            handle.header_crc32c.encode(&mut out);
            (handle.sections.len() as u32).encode(&mut out);
            for section in &handle.sections {
                section.group.0.encode(&mut out);
                section.offset.encode(&mut out);
                section.len.encode(&mut out);
                section.crc32c.encode(&mut out);
            }
        }
        out
    }

    /// Reads what a handle names.
    pub fn read(handle: &IncrementalHandle, store: &dyn SnapshotStore) -> Result<Self, StateError> {
        let path = handle.meta.path().unwrap_or("(inline state)");
        let bytes = store.read_all(&handle.meta).map_err(|source| StateError::reading(path, source))?;
        let not = "it does not say how the files of a heap snapshot belong together";
        read_versioned(&bytes, MAGIC, VERSION, not, path, |input| {
            let count = u32::decode(input)? as usize;
            if count != handle.files.len() || count == 0 {
                let why = format!("it tells of {count} files, the handle of {}", handle.files.len());
                return Err(DecodeError::Invalid { what: "chain", why });
            }
            let files = handle.files.iter().map(|NamedStream { name, stream }| {
                let (header_len, header_crc32c) = (u64::decode(input)?, u32::decode(input)?);
                let sections = (0..u32::decode(input)?).map(|_| {
                    Ok(KeyGroupSection {
                        group: KeyGroup(u16::decode(input)?),
                        offset: u64::decode(input)?,
                        len: u64::decode(input)?,
                        crc32c: u32::decode(input)?,
                    })
                });
                let sections = sections.collect::<Result<_, DecodeError>>()?;
                let (range, stream) = (handle.range, stream.clone());
                let handle = KeyedStateHandle { range, header_len, header_crc32c, sections, stream };
                Ok(ChainFile { name: name.clone(), handle })
            });
            Ok(Self { files: files.collect::<Result<_, DecodeError>>()? })
        })
    }

    /// Whether another chain has all its files and perhaps more.
    pub fn begins(&self, other: &Self) -> bool {
        let names = self.files.iter().map(|file| &file.name);
        other.files.len() >= self.files.len()
            && names.eq(other.files.iter().map(|file| &file.name).take(self.files.len()))
    }

    /// Bytes of the image, and of the changes after it.
    pub fn bytes(&self) -> (u64, u64) {
        let mut lens = self.files.iter().map(|file| file.handle.stream.len());
        (lens.next().unwrap_or(0), lens.fold(0, u64::saturating_add))
    }

    /// The chain as a checkpoint names it, with what says how it belongs together in `meta`.
    pub fn handle(&self, backend: u64, range: KeyGroupRange, meta: StreamHandle) -> IncrementalHandle {
        let files = self.files.iter();
        let files =
            files.map(|file| NamedStream { name: file.name.clone(), stream: file.handle.stream.clone() });
        IncrementalHandle {
            range,
            format: IncrementalFormat::HeapChain,
            backend,
            meta,
            files: files.collect(),
        }
    }
}

/// Writes one more file of a chain, then what says how all of them belong together.
pub fn write_chain(
    frozen: FrozenKeyedState,
    header: &[u8],
    file: String,
    mut older: ChainMeta,
    store: &dyn SnapshotStore,
    name: &str,
) -> Result<(ChainMeta, StreamHandle), StateError> {
    let limit = store.max_state_size().unwrap_or(u64::MAX);
    let handle = frozen.write_stream(header, limit, &mut || store.create_shared(name), name)?;
    older.files.push(ChainFile { name: file, handle });
    let failed = |source| StateError::Io { what: format!("writing the list of files of `{name}`"), source };
    let mut stream = store.create(&format!("{name}-files")).map_err(failed)?;
    stream.write_all(&older.to_bytes()).map_err(failed)?;
    let meta = stream.finish().map_err(failed)?;
    Ok((older, meta))
}
