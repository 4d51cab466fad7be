//! A snapshot that is damaged: an error that names the file, and nothing is half restored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stillstream::prelude::*;

use crate::program::*;

fn next(place: &Place, from: &Path) -> StreamExecutionEnvironment {
    let mut env = place.env();
    env.restore_from(from.to_str().unwrap());
    count(numbers(&env), "count", &Arc::default());
    env
}

/// Starts a job that must end by itself, since its state cannot be read.
fn start(place: &Place, from: &Path) -> Result<()> {
    let job = next(place, from).execute_async("second")?;
    assert!(job.wait_until(LONG, |job| job.status().is_terminal()), "it runs on: {:?}", job.status());
    job.wait().map(drop)
}

/// Damages `file`, has the job start, and mends it.
fn with_damage(file: &Path, damage: impl FnOnce(&mut Vec<u8>), start: impl Fn() -> Result<()>) -> Error {
    let whole = std::fs::read(file).unwrap();
    let mut bytes = whole.clone();
    damage(&mut bytes);
    std::fs::write(file, bytes).unwrap();
    let error = start().unwrap_err();
    std::fs::write(file, whole).unwrap();
    error
}

/// Damages each file of a snapshot in turn, and has the job start from it once all are mended.
fn damage_each(place: &Place, from: &Path) {
    let files: Vec<PathBuf> = files(from).into_iter().map(|(path, _)| path).collect();
    assert!(files.len() >= 5, "metadata, and files of two subtasks of two operators: {files:?}");
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_string();
        let check = |what: &str, error: Error| {
            assert_eq!(error.kind(), ErrorKind::CorruptSnapshot, "{what} {name}: {error}");
            assert!(error.to_string().contains(&name), "{what} {name}: {error}");
        };
        let len = std::fs::metadata(&file).unwrap().len() as usize;
        // the first byte, the header, the middle, the last byte
        for at in [0, 9.min(len - 1), len / 2, len - 1] {
            check(
                &format!("byte {at} of"),
                with_damage(&file, |bytes| bytes[at] ^= 0x20, || start(place, from)),
            );
        }
        check("half of", with_damage(&file, |bytes| bytes.truncate(len / 2), || start(place, from)));
        let away = file.with_extension("away");
        std::fs::rename(&file, &away).unwrap();
        let error = start(place, from).unwrap_err();
        assert!(error.is_fatal() && error.to_string().contains(&name), "without {name}: {error}");
        std::fs::create_dir(&file).unwrap();
        let error = start(place, from).unwrap_err();
        assert!(
            error.is_fatal() && error.to_string().contains(&name),
            "a folder in place of {name}: {error}"
        );
        std::fs::remove_dir(&file).unwrap();
        std::fs::rename(&away, &file).unwrap();
    }
    starts(&next(place, from), "second").unwrap();
}

#[test]
fn a_file_of_a_checkpoint_that_is_missing_cut_short_or_altered_is_named_and_the_job_starts_once_it_is_mended()
{
    let place = Place::new();
    let env = place.env();
    count(numbers(&env), "count", &Arc::default());
    damage_each(&place, &take(&env, "first", 1_000));
}

#[test]
fn a_file_of_a_savepoint_that_was_moved_is_named_when_it_is_damaged() {
    let place = Place::new();
    let env = place.env();
    count(numbers(&env), "count", &Arc::default());
    let taken = savepoint(&env, &place, 1_000);
    let moved = place.0.path().join("moved");
    std::fs::rename(taken, &moved).unwrap();
    damage_each(&place, &moved);
}
