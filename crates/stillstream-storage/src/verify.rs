//! Does everything that a checkpoint names exist, whole?

use stillstream_types::CheckpointMetadata;

use crate::error::StorageError;
use crate::snapshot::Streams;

/// How closely to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VerifyMode {
    /// Each file exists and has its length: one small request a file.
    Lengths,
    /// Each file's checksum too: reads everything.
    Checksums,
}

/// Checks every stream that the metadata names.
///
/// # Errors
/// [`StorageError::Corrupt`] for the first file that is missing, too short, too long or altered.
pub fn verify(
    streams: &Streams,
    metadata: &CheckpointMetadata,
    mode: VerifyMode,
) -> Result<(), StorageError> {
    metadata.streams().try_for_each(|stream| match mode {
        VerifyMode::Lengths => streams.check_len(stream),
        VerifyMode::Checksums => streams.check_sum(stream),
    })
}
