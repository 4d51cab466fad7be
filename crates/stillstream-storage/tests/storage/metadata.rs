//! `_metadata` stays readable, and damage of any kind is named.

use stillstream_storage::StorageError;
use stillstream_storage::conformance::{
    sample_enumerator_metadata, sample_incremental_metadata, sample_metadata,
};
use stillstream_storage::metadata::{Anchor, decode, encode};
use stillstream_types::{CheckpointKind, CheckpointMetadata, JobId, StreamHandle};

fn sample() -> CheckpointMetadata {
    let file =
        StreamHandle::File { path: "chk-17/0-3-state-1".into(), len: 12_345_678_901, crc32c: 0xfeed_beef };
    let inline = StreamHandle::Inline { bytes: [0u8, 1, 2, 255].as_slice().into() };
    sample_metadata(17, JobId::from_name("flights"), &[file, inline])
}

fn sample_with_shared_files() -> CheckpointMetadata {
    let file = |name: &str| StreamHandle::File {
        path: format!("shared/{name}"),
        len: 7_000_000,
        crc32c: 0xabad_cafe,
    };
    let streams = [file("12-0-3-000012-00000000000000ff-4"), file("17-0-3-000019-00000000000000ff-9")];
    sample_incremental_metadata(17, JobId::from_name("flights"), &streams)
}

fn sample_with_enumerators() -> CheckpointMetadata {
    let file =
        StreamHandle::File { path: "shared/17-0-3-000019-00ff-9".into(), len: 7_000, crc32c: 0xabad_cafe };
    sample_enumerator_metadata(17, JobId::from_name("flights"), &[file])
}

#[test]
fn version_3_stays_readable_and_is_written_for_states_of_enumerators() {
    let golden = include_bytes!("golden/metadata-v3.bin");
    let (metadata, anchor) = decode("golden", golden).unwrap();
    assert_eq!((&metadata, anchor), (&sample_with_enumerators(), Anchor::Parent));
    assert_eq!(
        encode(&sample_with_enumerators(), Anchor::Parent),
        golden,
        "a changed format needs a new version and a new golden file"
    );
    // a release that does not know the field would deal out all splits again
    assert_eq!(golden[8..12], 3u32.to_le_bytes());
}

#[test]
fn version_2_stays_readable_and_is_written_for_files_that_checkpoints_share() {
    let golden = include_bytes!("golden/metadata-v2.bin");
    let (metadata, anchor) = decode("golden", golden).unwrap();
    assert_eq!((&metadata, anchor), (&sample_with_shared_files(), Anchor::Parent));
    assert_eq!(
        encode(&sample_with_shared_files(), Anchor::Parent),
        golden,
        "a changed format needs a new version and a new golden file"
    );
    // a release that knows version 1 only would skip these files: the version makes it refuse
    assert_eq!(golden[8..12], 2u32.to_le_bytes());
}

#[test]
fn version_1_stays_readable_and_is_still_what_is_written() {
    let golden = include_bytes!("golden/metadata-v1.bin");
    let (metadata, anchor) = decode("golden", golden).unwrap();
    assert_eq!((&metadata, anchor), (&sample(), Anchor::Parent));
    assert_eq!(
        encode(&sample(), Anchor::Parent),
        golden,
        "a changed format needs a new version and a new golden file"
    );
}

#[test]
fn every_kind_and_anchor_comes_back() {
    for kind in [CheckpointKind::Checkpoint, CheckpointKind::Final, CheckpointKind::Savepoint] {
        for anchor in [Anchor::Directory, Anchor::Parent] {
            let metadata = CheckpointMetadata { kind, ..sample() };
            assert_eq!(decode("m", &encode(&metadata, anchor)).unwrap(), (metadata, anchor));
        }
    }
}

fn assert_names_the_damage(error: &StorageError, what: &str) {
    let StorageError::Corrupt { path, expected, found, .. } = error else { panic!("{what}: {error}") };
    assert_eq!(path, "jobs/a/chk-17/_metadata", "{what}");
    assert!(!expected.is_empty() && expected != found, "{what}: expected {expected}, found {found}");
    let text = error.to_string();
    assert!(text.contains(path) && text.contains(expected) && text.contains(found), "{what}: {text}");
}

#[test]
fn every_flipped_bit_is_found() {
    let bytes = encode(&sample(), Anchor::Parent);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = decode("jobs/a/chk-17/_metadata", &damaged).unwrap_err();
        assert_names_the_damage(&error, &format!("bit {bit}"));
    }
}

#[test]
fn every_cut_and_every_appended_byte_is_found() {
    let bytes = encode(&sample(), Anchor::Parent);
    for len in 0..bytes.len() {
        let error = decode("jobs/a/chk-17/_metadata", &bytes[..len]).unwrap_err();
        assert_names_the_damage(&error, &format!("cut at {len}"));
        assert!(error.to_string().contains(&format!("found {len}")), "{error}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_names_the_damage(&decode("jobs/a/chk-17/_metadata", &longer).unwrap_err(), "one more byte");
}

#[test]
fn a_version_from_the_future_is_called_so() {
    let mut bytes = encode(&sample(), Anchor::Parent);
    bytes[8] = 4;
    let at = bytes.len() - 4;
    let sum = crc32c::crc32c(&bytes[..at]);
    bytes[at..].copy_from_slice(&sum.to_le_bytes());
    let error = decode("m", &bytes).unwrap_err().to_string();
    assert!(error.contains("newer release") && error.contains("found 4"), "{error}");
}

#[test]
fn a_body_that_makes_no_sense_is_refused_although_its_checksum_is_right() {
    // a well formed envelope around bytes that are not protobuf, and around an empty message
    for (body, says) in [(&b"\xff\xff\xff"[..], "content"), (b"", "length of an id")] {
        let mut bytes = b"STILLCKP\x01\0\0\0".to_vec();
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        let error = decode("m", &bytes).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
