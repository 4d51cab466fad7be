//! The envelope of small files: magic, version, length, body, CRC-32C over all of it. The envelope itself
//! never changes.
//!
//! ```text
//! 0   8  magic
//! 8   4  version, little endian
//! 12  8  length of the body, little endian
//! 20  n  body
//! ..  4  CRC-32C of everything before, little endian
//! ```

use crate::error::{SHORT, StorageError};

const HEAD: usize = 20;
const SUM: usize = 4;

/// One kind of file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) magic: &'static [u8; 8],
    /// The newest version; it and all before it are read.
    pub(crate) version: u32,
}

impl Frame {
    pub(crate) fn wrap(self, body: &[u8]) -> Vec<u8> {
        self.wrap_as(self.version, body)
    }

    /// As an older version, for a body that needs no newer one: releases that know only that one can read it.
    pub(crate) fn wrap_as(self, version: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + body.len() + SUM);
        bytes.extend_from_slice(self.magic);
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// The version and the body. The checksum is looked at before the version, so that a flipped bit is
    /// called damage and not a version from the future.
    pub(crate) fn unwrap(self, path: &str, bytes: &[u8]) -> Result<(u32, Vec<u8>), StorageError> {
        let least = HEAD + SUM;
        if bytes.len() < least {
            return Err(StorageError::corrupt(path, SHORT, format!("at least {least}"), bytes.len()));
        }
        let (head, rest) = bytes.split_at(HEAD);
        let (magic, numbers) = head.split_at(8);
        if magic != self.magic {
            let shown = |m: &[u8]| format!("`{}`", m.escape_ascii());
            return Err(StorageError::corrupt(path, "first bytes (magic)", shown(self.magic), shown(magic)));
        }
        let (version, body_len) = (u32_at(numbers, 0), u64_at(numbers, 4));
        let whole = body_len.saturating_add(least as u64);
        let found = bytes.len() as u64;
        if whole != found {
            let what = if found < whole { SHORT } else { "length in bytes (too long)" };
            return Err(StorageError::corrupt(path, what, whole, found));
        }
        let (body, sum) = rest.split_at(rest.len() - SUM);
        let (expected, found) = (u32_at(sum, 0), crc32c::crc32c(&bytes[..bytes.len() - SUM]));
        if expected != found {
            return Err(checksum(path, expected, found));
        }
        if version == 0 || version > self.version {
            let known = format!("1 to {}", self.version);
            return Err(StorageError::corrupt(
                path,
                "format version (written by a newer release?)",
                known,
                version,
            ));
        }
        Ok((version, body.to_vec()))
    }
}

pub(crate) fn checksum(path: &str, expected: u32, found: u32) -> StorageError {
    StorageError::corrupt(path, "checksum (CRC-32C)", format!("{expected:08x}"), format!("{found:08x}"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].iter().take(4).rev().fold(0, |n, &byte| n << 8 | u32::from(byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].iter().take(8).rev().fold(0, |n, &byte| n << 8 | u64::from(byte))
}
