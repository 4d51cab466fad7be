//! The command as a person runs it, on the checkpoints of a real job.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use stillstream::prelude::*;

/// What a job leaves that was cancelled with its checkpoints retained.
struct Left {
    folder: tempfile::TempDir,
    job: PathBuf,
    checkpoint: PathBuf,
}

/// Counts carriers, with a window beside it, and is cancelled behind a checkpoint.
fn left() -> Left {
    left_by(1, |dir, env| {
        env.set_state_backend(FsStateBackend::new(dir));
    })
}

/// The same with another backend, after so many checkpoints.
fn left_by(checkpoints: u64, choose: impl FnOnce(&str, &mut StreamExecutionEnvironment)) -> Left {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("ck");
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2).enable_checkpointing(hours(1));
    choose(dir.to_str().unwrap(), &mut env);
    env.set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
    let carriers = ["AA", "B6", "DL", "UA"];
    let flights = Generator::unbounded(move |n| (carriers[(n % 4) as usize].to_string(), n as i64));
    env.from_source("flights", flights.records_per_second(4_000.0))
        .uid("flights")
        .watermarks(
            WatermarkStrategy::monotonic()
                .timestamp(|flight: &(String, i64)| Timestamp::from_millis(flight.1)),
        )
        .uid("time")
        .key_by(|flight| flight.0.clone())
        .map_with_state("seen", |seen: &mut u64, flight| {
            *seen += 1;
            flight
        })
        .uid("count")
        .key_by(|flight| flight.0.clone())
        .window(Tumbling::of(hours(1)))
        .reduce(|a, b| (a.0, a.1.max(b.1)))
        .uid("latest")
        .discard();
    let job = env.execute_async("carriers").unwrap();
    assert!(job.wait_until(seconds(60), |_| job.metrics().records_in > 2_000));
    for _ in 0..checkpoints {
        job.trigger_checkpoint().unwrap();
    }
    // a look at the newest checkpoint of the running job
    let of_job = only(&dir, |name| name.len() == 32);
    assert_sees_keys(&newest(&of_job), "while the job runs");
    job.trigger_checkpoint().unwrap();
    job.cancel();
    assert!(job.wait().is_err());
    let checkpoint = newest(&of_job);
    Left { folder, job: of_job, checkpoint }
}

/// The newest checkpoint of a job; an older one may be about to be deleted.
fn newest(job: &Path) -> PathBuf {
    let entries = std::fs::read_dir(job).unwrap().map(|entry| entry.unwrap().path());
    let numbered = entries.filter_map(|path| {
        let number = path.file_name()?.to_str()?.strip_prefix("chk-")?.parse::<u64>().ok()?;
        path.join("_metadata").is_file().then_some((number, path))
    });
    numbered.max().expect("a completed checkpoint").1
}

/// Each carrier has been seen often, and in one window.
fn assert_sees_keys(checkpoint: &Path, when: &str) {
    let path = checkpoint.to_str().unwrap();
    let listed = |checkpoint: &Path| {
        let entries = std::fs::read_dir(checkpoint).unwrap().map(|entry| {
            let entry = entry.unwrap();
            (
                entry.file_name(),
                entry.metadata().unwrap().len(),
                entry.metadata().unwrap().modified().unwrap(),
            )
        });
        entries.collect::<std::collections::BTreeSet<_>>()
    };
    let before = listed(checkpoint);
    for carrier in ["AA", "B6", "DL", "UA"] {
        let found = json(&["inspect", path, "--operator", "count", "--key", carrier]);
        let entries = found["operators"][0]["entries"].as_array().unwrap();
        let expected = (1, &"seen".into(), &carrier.into());
        assert_eq!((entries.len(), &entries[0]["state"], &entries[0]["key"]), expected, "{when}");
        assert!(entries[0]["value"].as_u64().unwrap() > 100, "{when}: {entries:?}");
        let windows = said(0, &["inspect", path, "--operator", "latest", "--key", carrier]);
        let window = format!("window-contents[\"{carrier}\"] in 0 = [\"{carrier}\",");
        assert!(windows.contains(&window), "{when}: {windows}");
    }
    assert_eq!(listed(checkpoint), before, "a look changes nothing");
}

fn only(dir: &Path, is: impl Fn(&str) -> bool) -> PathBuf {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| is(path.file_name().unwrap().to_str().unwrap())).collect();
    assert_eq!(found.len(), 1, "in {}: {found:?}", dir.display());
    found.remove(0)
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stillstream")).args(arguments).output().unwrap()
}

/// Standard output of a run that ends with `code`.
fn said(code: i32, arguments: &[&str]) -> String {
    let output = run(arguments);
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{errors}");
    format!("{out}{errors}")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = run(&[&["--json"], arguments].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
}

#[test]
fn a_person_finds_job_checkpoint_states_and_one_keys_values() {
    let left = left();
    let (dir, checkpoint) = (left.job.parent().unwrap().to_str().unwrap(), left.checkpoint.to_str().unwrap());
    let jobs = said(0, &["list", dir]);
    assert!(jobs.contains("carriers") && jobs.contains("cancelled at 20"), "{jobs}");
    let checkpoints = said(0, &["checkpoints", dir]);
    assert!(checkpoints.contains("retained") && checkpoints.contains(checkpoint), "{checkpoints}");
    let contents = said(0, &["inspect", checkpoint]);
    for part in [
        "uid `count`",
        "seen",
        "value state of `u64`",
        "uid `latest`",
        "uid `flights`",
        "max parallelism 128",
    ] {
        assert!(contents.contains(part), "{part} in {contents}");
    }
    let found = json(&["inspect", checkpoint, "--operator", "count", "--key", "DL"]);
    let entries = found["operators"][0]["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &entries[0]["state"], &entries[0]["key"]), (1, &"seen".into(), &"DL".into()));
    assert!(entries[0]["value"].as_u64().unwrap() > 100, "{entries:?}");
    let all = said(0, &["inspect", checkpoint, "--state", "seen", "--limit", "3"]);
    assert_eq!(all.matches("seen[").count(), 3, "{all}");
    let windows = said(0, &["inspect", checkpoint, "--operator", "latest", "--key", "AA"]);
    assert!(windows.contains("window-contents[\"AA\"] in 0 = [\"AA\","), "{windows}");
    let unknown = said(2, &["inspect", checkpoint, "--state", "sen"]);
    assert!(unknown.contains("there is no state `sen`") && unknown.contains("seen"), "{unknown}");
    let unknown = said(2, &["inspect", checkpoint, "--operator", "cuont"]);
    assert!(unknown.contains("`cuont`") && unknown.contains("`count`"), "{unknown}");
}

#[test]
fn keys_of_incremental_checkpoints_are_listed_while_the_job_runs_and_afterwards() {
    let left = left_by(2, |dir, env| {
        env.set_state_backend(FsStateBackend::new(dir)).set_incremental_checkpoints(true);
    });
    assert_sees_keys(&left.checkpoint, "of the heap");
    let contents = said(0, &["inspect", left.checkpoint.to_str().unwrap()]);
    assert!(contents.contains("an image and changes after it"), "{contents}");
    assert!(contents.contains("seen") && contents.contains("value state of `u64`"), "{contents}");
    let all = json(&["inspect", left.checkpoint.to_str().unwrap(), "--operator", "count"]);
    assert_eq!(all["operators"][0]["states"][0]["entries"], 4, "{all}");
}

#[cfg(feature = "rocksdb")]
#[test]
fn keys_in_rocksdbs_files_are_listed_while_the_job_runs_and_afterwards() {
    let left = left_by(2, |dir, env| {
        env.set_state_backend(RocksDbStateBackend::new(dir).incremental(true));
    });
    assert_sees_keys(&left.checkpoint, "of RocksDB");
    let path = left.checkpoint.to_str().unwrap();
    let contents = said(0, &["inspect", path]);
    assert!(contents.contains("files of RocksDB") && contents.contains("not counted"), "{contents}");
    assert!(contents.contains("seen") && contents.contains("value state of `u64`"), "{contents}");
    let groups = json(&["inspect", path, "--operator", "count", "--groups"]);
    assert_eq!(groups["operators"][0]["states"][0]["entries"], 4, "{groups}");
    assert!(said(0, &["verify", path]).contains("whole"));
}

/// A savepoint of the tree, copied elsewhere: it can be moved.
fn moved(golden: &str) -> (tempfile::TempDir, PathBuf) {
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../stillstream-runtime/tests/golden").join(golden);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("moved");
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(golden).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    (folder, to)
}

#[test]
fn a_savepoint_is_inspected_and_verified_at_any_place_and_its_damage_is_named() {
    let savepoints: &[&str] = match cfg!(feature = "rocksdb") {
        true => &["savepoint-v1", "savepoint-v2-rocksdb"],
        false => &["savepoint-v1"],
    };
    for golden in savepoints {
        let (_folder, savepoint) = moved(golden);
        let path = savepoint.to_str().unwrap();
        let contents = said(0, &["inspect", path]);
        assert!(contents.starts_with("savepoint 17 of job `golden`"), "{contents}");
        let listed = said(0, &["list", savepoint.parent().unwrap().to_str().unwrap()]);
        assert!(
            listed.contains("golden") && listed.contains("2023-11-14") && listed.contains(path),
            "{listed}"
        );
        let form = if golden.contains("rocksdb") { "native" } else { "canonical" };
        assert!(listed.contains(form), "{listed}");
        let found = json(&["inspect", path, "--operator", "everything", "--key", "user-3", "--limit", "100"]);
        let entries = found["operators"][0]["entries"].as_array().unwrap();
        let of =
            |state: &str| entries.iter().find(|entry| entry["state"] == state).cloned().unwrap_or_default();
        // five kinds with and without a time to live, a window, two timers
        assert_eq!(entries.len(), 13, "{golden}: {entries:?}");
        assert_eq!((&of("sum")["value"], &of("windows")["value"]), (&3.into(), &3.into()), "{entries:?}");
        assert_eq!(of("expiring-value")["value"]["touched"], "1970-01-01 00:16:40", "{entries:?}");
        assert_eq!(of("_timer_state/event_timers")["fires"], "1970-01-01 00:00:00", "{entries:?}");
        assert!(said(0, &["verify", path]).contains("whole"));
        for entry in std::fs::read_dir(&savepoint).unwrap() {
            let file = entry.unwrap().path();
            let whole = std::fs::read(&file).unwrap();
            let mut damaged = whole.clone();
            damaged[whole.len() * 2 / 3] ^= 0x20;
            std::fs::write(&file, damaged).unwrap();
            let text = said(3, &["verify", path]);
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(text.contains(name) && text.contains("expected") && text.contains("found"), "{text}");
            std::fs::write(&file, whole).unwrap();
        }
    }
}

#[test]
fn verify_names_every_damaged_file_and_ends_with_3() {
    let left = left();
    let (job, checkpoint) = (left.job.to_str().unwrap(), left.checkpoint.to_str().unwrap());
    assert!(said(0, &["verify", job]).contains("whole"));
    assert!(said(0, &["verify", checkpoint, "--lengths"]).contains("are there with their lengths"));
    let metadata = left.checkpoint.join("_metadata");
    let whole = std::fs::read(&metadata).unwrap();
    for (at, wrong) in [(whole.len() / 2, "flipped"), (0, "flipped"), (whole.len() - 1, "cut")] {
        let mut bytes = whole.clone();
        match wrong {
            "cut" => bytes.truncate(at),
            _ => bytes[at] ^= 0x10,
        }
        std::fs::write(&metadata, bytes).unwrap();
        let text = said(3, &["verify", job]);
        assert!(text.contains("DAMAGED") && text.contains("_metadata"), "{wrong} at {at}: {text}");
        assert!(said(3, &["inspect", checkpoint]).contains("_metadata"));
        assert_eq!(json(&["verify", checkpoint])[0]["damaged"], true);
    }
    std::fs::remove_file(&metadata).unwrap();
    let text = said(3, &["verify", checkpoint]);
    assert!(text.contains("no `_metadata` in it"), "{text}");
}

#[test]
fn gc_shows_orphans_deletes_them_only_when_asked_and_leaves_the_rest() {
    let left = left();
    let job = left.job.to_str().unwrap();
    assert!(said(0, &["gc", job]).contains("nothing is left over"));
    // what a crash leaves: state of a checkpoint that never completed, and a shared file that nothing names
    std::fs::create_dir_all(left.job.join("chk-0")).unwrap();
    std::fs::create_dir_all(left.job.join("shared")).unwrap();
    let orphans = [left.job.join("chk-0/state"), left.job.join("shared/1-0-0-old-a-1")];
    let strange = [left.job.join("shared/notes.txt"), left.job.join("chk-99/state")];
    std::fs::create_dir_all(left.job.join("chk-99")).unwrap();
    for file in orphans.iter().chain(&strange) {
        std::fs::write(file, b"twelve bytes").unwrap();
    }
    let shown = said(0, &["gc", job]);
    assert!(shown.contains("2 files, 24 B, would go with --delete"), "{shown}");
    assert!(orphans.iter().chain(&strange).all(|file| file.exists()), "nothing goes without the flag");
    let deleted = said(0, &["gc", job, "--delete"]);
    assert!(deleted.contains("2 files were deleted"), "{deleted}");
    assert!(
        !orphans.iter().any(|file| file.exists()) && strange.iter().all(|file| file.exists()),
        "{deleted}"
    );
    assert!(said(0, &["verify", job]).contains("whole"), "what the register names is untouched");
    assert!(said(0, &["checkpoints", job]).contains("retained"));
}

#[test]
fn bad_places_are_named_with_what_would_do() {
    let left = left();
    let empty = left.folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let empty = empty.to_str().unwrap();
    assert!(said(0, &["list", empty]).contains("no job has a checkpoint"));
    assert!(said(2, &["checkpoints", empty]).contains("no job's directory in it"));
    assert!(said(4, &["list", "/nowhere/at/all"]).contains("/nowhere/at/all"));
    let job = left.job.to_str().unwrap();
    let dir = left.job.parent().unwrap().to_str().unwrap();
    assert!(said(2, &["gc", dir, "--job", "carrier"]).contains("there are `carriers`"));
    assert!(said(0, &["gc", dir, "--job", "carriers"]).contains("carriers"));
    // a job's directory is no checkpoint: the newest one is named
    let text = said(2, &["inspect", job]);
    assert!(text.contains("did you mean") && text.contains("chk-"), "{text}");
    assert!(said(2, &["inspect", "ftp://host/chk-1"]).contains("ftp"));
    said(2, &["inspct", job]);
}

/// Not a test of its own: the program whose plan `restore-plan` asks for. It ends in `execute`, which
/// writes the plan.
#[test]
#[expect(clippy::disallowed_methods, reason = "the program learns from its environment which version it is")]
fn the_next_version() {
    let Ok(version) = std::env::var(VERSION) else { return };
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2);
    let carriers = Generator::unbounded(|n| ("AA".to_string(), n as i64));
    let flights = env.from_source("flights", carriers).uid("flights");
    let flights =
        flights.watermarks(WatermarkStrategy::monotonic()).uid("time").key_by(|flight| flight.0.clone());
    let counted = match version.as_str() {
        "wrong" => flights.map_with_state("seen", |seen: &mut String, flight| {
            seen.clear();
            flight
        }),
        _ => flights.map_with_state("seen", |seen: &mut u64, flight| {
            *seen += 1;
            flight
        }),
    };
    counted
        .uid("count")
        .key_by(|flight| flight.0.clone())
        .window(Tumbling::of(hours(1)))
        .reduce(|a, b| (a.0, a.1.max(b.1)))
        .uid("latest")
        .discard();
    env.execute("carriers").unwrap();
    unreachable!("the plan was asked for, and the job runs");
}

const VERSION: &str = "STILLSTREAM_TEST_VERSION";

fn restore_plan(version: &str, more: &[&str]) -> Output {
    let program = std::env::current_exe().unwrap();
    let behind = ["--", "--exact", "the_next_version"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillstream"));
    command.arg("restore-plan").args(more).arg("--job").arg(program).args(behind).env(VERSION, version);
    command.output().unwrap()
}

#[test]
fn restore_plan_says_what_each_subtask_would_get_and_changes_nothing() {
    let left = left();
    let checkpoint = left.checkpoint.to_str().unwrap();
    let before = std::fs::metadata(left.checkpoint.join("_metadata")).unwrap().modified().unwrap();
    let output = restore_plan("right", &[checkpoint, "--parallelism", "3"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "uid `count`",
        "parallelism 2 -> 3, 128 key groups (as in the snapshot)",
        "seen: restored, value state of `u64`",
        "subtask 0: key groups 0..43, ",
        "subtask 2: key groups 86..128, ",
        "it can be restored, as far as metadata and headers tell",
    ] {
        assert!(text.contains(part), "`{part}` in: {text}");
    }
    let json = restore_plan("right", &[checkpoint, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["possible"], &json["problems"]), (&true.into(), &serde_json::json!([])));
    assert_eq!(std::fs::metadata(left.checkpoint.join("_metadata")).unwrap().modified().unwrap(), before);
}

#[test]
fn restore_plan_refuses_what_a_start_would_refuse_by_the_same_sentence() {
    let left = left();
    let checkpoint = left.checkpoint.to_str().unwrap();
    let output = restore_plan("wrong", &[checkpoint]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("it cannot be restored; nothing was started or changed"), "{text}");

    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2).restore_from(checkpoint).allow_non_restored_state();
    env.from_source("flights", Generator::unbounded(|n| ("AA".to_string(), n as i64)))
        .key_by(|flight| flight.0.clone())
        .map_with_state("seen", |seen: &mut String, _| seen.clear())
        .name("map_with_state")
        .uid("count")
        .discard();
    let refusal = env.execute("next").unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Incompatible);
    let sentence = "state `seen` cannot be restored: the snapshot holds value state of `u64`, the program wants value state of \
                    `string`: a u64 can't become a string";
    assert!(text.contains(sentence) && refusal.to_string().contains(sentence), "{text}\n{refusal}");
}

#[test]
fn restore_plan_takes_a_plan_file_and_says_what_is_neither_that_nor_a_program() {
    let left = left();
    let checkpoint = left.checkpoint.to_str().unwrap();
    let file = left.folder.path().join("plan.json");
    let plan = |version: u32, operators: &str| {
        let job = "\"job\": \"x\", \"job_id\": \"\", \"backend\": \"hashmap\"";
        std::fs::write(&file, format!("{{\"version\": {version}, {job}, \"operators\": [{operators}]}}"))
            .unwrap();
    };
    let file = file.to_str().unwrap();
    plan(1, "");
    let text = said(3, &["restore-plan", checkpoint, "--job", file]);
    for part in ["left over: operator", "uid `count`", "uid `latest`", "--allow-non-restored-state"] {
        assert!(text.contains(part), "`{part}` in: {text}");
    }
    let text = said(0, &["restore-plan", checkpoint, "--job", file, "--allow-non-restored-state"]);
    assert!(text.contains("left behind, as allowed"), "{text}");
    plan(2, "");
    assert!(
        said(2, &["restore-plan", checkpoint, "--job", file])
            .contains("version 2, this release reads up to 1")
    );
    plan(1, "{\"name\": \"no more\"}");
    assert!(said(2, &["restore-plan", checkpoint, "--job", file]).contains("not a plan file"));
    let text =
        said(2, &["restore-plan", checkpoint, "--job", left.checkpoint.join("_metadata").to_str().unwrap()]);
    assert!(text.contains("neither a plan file nor a program that can be started"), "{text}");
}

#[test]
fn transactions_on_kafka_are_asked_for_with_a_prefix_and_a_cluster_that_is_not_there_is_named() {
    let errors = said(2, &["kafka", "transactions", "--brokers", "127.0.0.1:1"]);
    assert!(errors.contains("--prefix"), "{errors}");
    let wanted = ["kafka", "transactions", "--brokers", "127.0.0.1:1", "--prefix", "p"];
    if cfg!(feature = "kafka") {
        let errors = said(1, &wanted);
        assert!(errors.contains("127.0.0.1:1"), "{errors}");
    } else {
        let errors = said(2, &wanted);
        assert!(errors.contains("--features kafka"), "{errors}");
    }
}
