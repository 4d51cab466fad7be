//! What users of file sources see: policies, errors, rates.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stillstream_conformance::SourceDriver;
use stillstream_connectors::file_sink::FileCommittable;
use stillstream_connectors::{CsvSource, FileSink, Malformed, OnMalformed, TextSource};
use stillstream_runtime::clock::ManualClock;
use stillstream_runtime::connect::{Committer, Sink, SinkContext, SinkWriter, SplitSource};
use stillstream_runtime::{Batch, OpenContext};
use stillstream_types::file_access::FileAccess;
use stillstream_types::{CheckpointId, ErrorKind, JobId, Result};

type Row = (u32, String);

fn rows(policy: OnMalformed) -> (tempfile::TempDir, Arc<CsvSource<Row>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    fs::write(&path, "n,text\n1,a\nx,b\n3,c\n4\n5,e\n").unwrap();
    (folder, Arc::new(CsvSource::new(path).on_malformed(policy)))
}

#[test]
fn a_malformed_row_fails_the_job_and_says_where_it_is() {
    let (_folder, source) = rows(OnMalformed::Fail);
    let error = SourceDriver::open(&source, 0, 1, None).unwrap().rest().unwrap_err().to_string();
    assert!(error.contains("a.csv` line 3") && error.contains("`x,b`"), "{error}");
}

#[test]
fn malformed_rows_can_be_skipped_and_are_counted() {
    let (_folder, source) = rows(OnMalformed::SkipAndCount);
    let mut driver = SourceDriver::open(&source, 0, 1, None).unwrap();
    assert_eq!(driver.rest().unwrap().iter().map(|row| row.0).collect::<Vec<_>>(), [1, 3, 5]);
    assert_eq!(driver.counters.all().get("source.malformed"), Some(&2));
}

#[test]
fn malformed_rows_can_go_to_the_side_output() {
    let (_folder, source) = rows(OnMalformed::SideOutput);
    let mut driver = SourceDriver::open(&source, 0, 1, None).unwrap();
    assert_eq!(driver.rest().unwrap().len(), 3);
    let side: Vec<Malformed> = driver.side().unwrap();
    assert_eq!(
        side.iter().map(|row| (row.line, row.text.as_str())).collect::<Vec<_>>(),
        [(Some(3), "x,b"), (Some(5), "4")]
    );
}

#[test]
fn a_line_that_is_not_text_is_malformed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), b"good\nb\xffd\n").unwrap();
    let source = Arc::new(TextSource::new(folder.path()));
    let error = SourceDriver::open(&source, 0, 1, None).unwrap().rest().unwrap_err().to_string();
    assert!(error.contains("line 2 (byte 5)") && error.contains("not UTF-8"), "{error}");
}

#[test]
fn what_can_not_be_read_is_named_before_the_job_starts() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.csv");
    let error = CsvSource::<Row>::new(&missing).validate().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(
        error.to_string().contains("missing.csv") && error.to_string().contains("No such file"),
        "{error}"
    );
    let error = TextSource::new(folder.path()).validate().unwrap_err().to_string();
    assert!(error.contains("holds no files"), "{error}");
    let error = TextSource::new(["a", "b"]).records_per_second(-1.0).validate().unwrap_err().to_string();
    assert!(error.contains("records_per_second is -1"), "{error}");
}

#[test]
fn a_damaged_compressed_file_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv.gz");
    fs::write(&path, b"\x1f\x8b\x08\0\0\0\0\0\0\x03rubbish").unwrap();
    let source = Arc::new(CsvSource::<Row>::new(&path).on_malformed(OnMalformed::SkipAndCount));
    let error = SourceDriver::open(&source, 0, 1, None).unwrap().rest().unwrap_err().to_string();
    assert!(error.contains("cannot read") && error.contains("a.csv.gz"), "{error}");
}

#[test]
fn a_file_that_became_shorter_than_its_position_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let long: String = (0..3000).map(|n| format!("{n}\n")).collect();
    fs::write(&path, &long).unwrap();
    let source = Arc::new(TextSource::new(&path));
    let mut driver = SourceDriver::open(&source, 0, 1, None).unwrap();
    driver.next(1).unwrap();
    let state = driver.snapshot().unwrap();
    fs::write(&path, "0\n").unwrap();
    let error = SourceDriver::open(&source, 0, 1, Some(state)).unwrap().rest().unwrap_err().to_string();
    assert!(error.contains("ends at byte 2") && error.contains("replaced or cut"), "{error}");
}

/// How many lines come at each 100 ms of a clock that is moved by hand.
fn paced(source: TextSource) -> Vec<usize> {
    let clock = Arc::new(ManualClock::default());
    let context = OpenContext::for_test("source", 0, 1).with_clock(clock.clone());
    let mut driver = SourceDriver::open_in(&Arc::new(source), context, None).unwrap();
    let (mut at, mut ended) = (Vec::new(), false);
    while !ended {
        let (lines, over) = driver.until_idle().unwrap();
        at.push(lines.len());
        ended = over;
        clock.advance(Duration::from_millis(100));
    }
    at
}

#[test]
fn a_rate_spreads_records_evenly() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "line\n".repeat(1000)).unwrap();
    let at = paced(TextSource::new(folder.path()).records_per_second(500.0));
    assert!((19..=22).contains(&at.len()), "1000 lines take 2 s: {at:?}");
    assert!(at[1..at.len() - 1].iter().all(|lines| (45..=55).contains(lines)), "{at:?}");
}

#[test]
fn input_can_be_spread_over_a_time() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "line\n".repeat(100_000)).unwrap();
    let at = paced(TextSource::new(folder.path()).spread_over(Duration::from_secs(3)));
    assert!((25..=33).contains(&at.len()), "{at:?}");
}

#[test]
fn csv_parts_begin_with_a_header_each_and_lines_have_none() {
    #[derive(Clone, serde::Serialize, stillstream_state::Data)]
    #[data(crate = stillstream_state)]
    struct Day {
        carrier: String,
        delayed: u64,
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |sink: FileSink<Day>| {
        let context = SinkContext::for_test("out", 2, 4);
        let mut committer = sink.committer(&context).unwrap();
        let mut writer = sink.writer(&context).unwrap();
        for n in 0..2 {
            writer.write(Batch::new(vec![Day { carrier: format!("U{n}"), delayed: n }])).unwrap();
        }
        let mut prepared = writer.prepare(CheckpointId(1)).unwrap().unwrap();
        prepared.make_durable.as_mut().unwrap()().unwrap();
        committer.commit(&prepared.committable).unwrap();
        committer.commit(&prepared.committable).unwrap();
    };
    write(FileSink::csv(folder.path()));
    write(FileSink::csv(folder.path()).roll_at(1));
    let read = |end: &str| {
        let names = parts(folder.path());
        let name = names.iter().find(|name| name.ends_with(end)).unwrap();
        fs::read_to_string(folder.path().join(name)).unwrap()
    };
    assert_eq!(read("-2-1-0.csv"), "carrier,delayed\nU0,0\nU1,1\n");
    assert_eq!(read("-2-1-1.csv"), "carrier,delayed\nU0,0\n", "a second run in the same folder adds to it");
    assert_eq!(read("-2-1-2.csv"), "carrier,delayed\nU1,1\n");
    assert_eq!(parts(folder.path()).len(), 3);
}

/// Names of the committed parts, in order.
fn parts(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut parts: Vec<_> = names.filter(|name| name.starts_with("part-")).collect();
    parts.sort();
    parts
}

/// What writes and what commits for one subtask.
struct LinesWriter(Box<dyn SinkWriter<String, FileCommittable>>, Box<dyn Committer<FileCommittable>>);

impl LinesWriter {
    fn of(sink: &FileSink<String>, context: &SinkContext) -> Self {
        let committer = sink.committer(context).unwrap();
        Self(sink.writer(context).unwrap(), committer)
    }
    fn commit(&mut self, committable: &FileCommittable) -> Result<()> {
        self.1.commit(committable)
    }
    fn recovered(&mut self, restored: Option<CheckpointId>) -> Result<()> {
        self.0.recovered(restored)
    }
}

/// The writer of subtask 0, of one of several jobs and sinks that share a folder.
fn lines_writer(folder: &Path, job: &str, uid: &str, generation: u64) -> LinesWriter {
    let mut context = SinkContext::for_test(uid, 0, 1);
    context.job = JobId::from_name(job);
    context.generation = generation;
    LinesWriter::of(&FileSink::lines(folder), &context)
}

fn pre_commit(writer: &mut LinesWriter, line: &str, checkpoint: u64) -> FileCommittable {
    writer.0.write(Batch::new(vec![line.to_owned()])).unwrap();
    let mut prepared = writer.0.prepare(CheckpointId(checkpoint)).unwrap().unwrap();
    prepared.make_durable.as_mut().unwrap()().unwrap();
    prepared.committable
}

#[test]
fn sinks_and_jobs_that_share_a_folder_neither_overwrite_nor_clean_up_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let sinks = [("first", "a"), ("first", "b"), ("second", "a")];
    let mut waiting = Vec::new();
    for (job, uid) in sinks {
        let mut writer = lines_writer(folder.path(), job, uid, 1);
        writer.recovered(None).unwrap();
        let committable = pre_commit(&mut writer, &format!("{job} {uid}"), 1);
        waiting.push((writer, committable));
    }
    for (job, uid) in sinks {
        // a later attempt of each, which cleans up what earlier ones of its own left
        lines_writer(folder.path(), job, uid, 9).recovered(Some(CheckpointId(1))).unwrap();
    }
    waiting.iter_mut().for_each(|(writer, committable)| writer.commit(committable).unwrap());
    let mut lines: Vec<String> = parts(folder.path())
        .iter()
        .map(|name| fs::read_to_string(folder.path().join(name)).unwrap())
        .collect();
    lines.sort();
    assert_eq!(lines, ["first a\n", "first b\n", "second a\n"]);
}

#[test]
fn a_part_that_its_reader_took_away_is_known_to_be_committed_by_later_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = lines_writer(folder.path(), "job", "out", 1);
    let committable = pre_commit(&mut writer, "a", 1);
    writer.commit(&committable).unwrap();
    let names = parts(folder.path());
    names.iter().for_each(|name| fs::remove_file(folder.path().join(name)).unwrap());
    writer.commit(&committable).unwrap();
    drop(writer);
    let mut next = lines_writer(folder.path(), "job", "out", 2);
    next.commit(&committable).unwrap();
    next.recovered(Some(CheckpointId(1))).unwrap();
    assert_eq!(parts(folder.path()), Vec::<String>::new(), "it is not made a second time");
    let later = pre_commit(&mut next, "b", 2);
    next.commit(&later).unwrap();
    next.commit(&committable).unwrap();
    assert_eq!(parts(folder.path()).len(), 1);
}

#[test]
fn a_job_that_goes_on_with_another_folder_commits_what_it_had_written_where_that_lies() {
    let place = tempfile::tempdir().unwrap();
    let (before, now) = (place.path().join("before"), place.path().join("now"));
    let mut writer = lines_writer(&before, "job", "out", 1);
    let first = pre_commit(&mut writer, "a", 1);
    let second = pre_commit(&mut writer, "b", 2);
    // the job that took the savepoint has committed one of them, and one of its readers has taken it away
    writer.commit(&first).unwrap();
    fs::remove_file(before.join(parts(&before).remove(0))).unwrap();
    drop(writer);
    let mut next = lines_writer(&now, "job", "out", 2);
    for _ in 0..2 {
        next.commit(&first).unwrap();
        next.commit(&second).unwrap();
    }
    assert_eq!((parts(&before).len(), parts(&now).len()), (1, 0));
    // a folder that was moved is the sink's own
    let third = pre_commit(&mut next, "c", 3);
    drop(next);
    let moved = place.path().join("moved");
    fs::rename(&now, &moved).unwrap();
    lines_writer(&moved, "job", "out", 3).commit(&third).unwrap();
    assert_eq!(parts(&moved).len(), 1);
    // what is nowhere is lost, and the error says where it was
    let mut writer = lines_writer(&moved, "job", "out", 4);
    let lost = pre_commit(&mut writer, "d", 4);
    drop(writer);
    fs::remove_dir_all(&moved).unwrap();
    let error = lines_writer(&now, "job", "out", 5).commit(&lost).unwrap_err().to_string();
    assert!(
        error.contains("moved/.staging-") && error.contains("is lost") || error.contains("are lost"),
        "{error}"
    );
}

#[test]
fn a_part_never_takes_the_place_of_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = lines_writer(folder.path(), "job", "out", 1);
    let committable = pre_commit(&mut writer, "a", 1);
    writer.commit(&committable).unwrap();
    let name = parts(folder.path()).remove(0);
    let stranger = folder.path().join(name.replace("-0.txt", "-1.txt"));
    fs::write(&stranger, "of somebody else").unwrap();
    let committable = pre_commit(&mut writer, "b", 2);
    let error = writer.commit(&committable).unwrap_err().to_string();
    assert!(error.contains(stranger.to_str().unwrap()) && error.contains("move that one away"), "{error}");
    assert_eq!(fs::read_to_string(&stranger).unwrap(), "of somebody else");
    fs::remove_file(&stranger).unwrap();
    writer.commit(&committable).unwrap();
    assert_eq!(fs::read_to_string(&stranger).unwrap(), "b\n");
}

#[test]
fn an_extension_that_is_no_extension_is_refused_before_the_job_starts() {
    let folder = tempfile::tempdir().unwrap();
    for bad in ["", "a/b", "../x", ".csv", "csv.", "a..b", "a b", "a\nb", &"x".repeat(65)] {
        let error = FileSink::<String>::lines(folder.path()).extension(bad).validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
    }
    for good in ["csv", "csv.part", "v2_1", "tsv-2"] {
        FileSink::<String>::lines(folder.path()).extension(good).validate().unwrap();
    }
}

#[test]
#[cfg(unix)]
fn output_is_readable_for_its_owner_alone_unless_a_setting_says_otherwise() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (access, file, dir) in [(FileAccess::Owner, 0o600, 0o700), (FileAccess::Group, 0o640, 0o750)] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut context = SinkContext::for_test("out", 0, 1);
        context.file_access = access;
        let mut writer = LinesWriter::of(&FileSink::lines(&out), &context);
        let committable = pre_commit(&mut writer, "a", 1);
        let staging = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
        assert_eq!(mode(&staging), dir, "{access:?}");
        writer.commit(&committable).unwrap();
        assert_eq!((mode(&out.join(parts(&out).remove(0))), mode(&out)), (file, dir), "{access:?}");
    }
}

#[test]
fn a_pre_committed_file_that_somebody_deleted_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let sink = FileSink::<String>::lines(folder.path());
    let mut writer = sink.writer(&SinkContext::for_test("out", 0, 1)).unwrap();
    writer.write(Batch::new(vec!["a".to_owned()])).unwrap();
    let mut prepared = writer.prepare(CheckpointId(1)).unwrap().unwrap();
    prepared.make_durable.as_mut().unwrap()().unwrap();
    let staging = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    fs::remove_dir_all(staging).unwrap();
    let mut committer = sink.committer(&SinkContext::for_test("out", 0, 1)).unwrap();
    let error = committer.commit(&prepared.committable).unwrap_err().to_string();
    assert!(error.contains("1-0-0.chk-1") && error.contains("-0-1-0.txt"), "{error}");
}

#[test]
fn a_folder_that_can_not_be_written_is_named_before_the_job_starts() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = FileSink::<String>::lines(file.path().join("out")).validate().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("cannot write"), "{error}");
}

#[test]
fn no_path_at_all_is_an_error_as_an_empty_folder_is() {
    let no_paths: Vec<String> = Vec::new();
    for error in [
        CsvSource::<(u32, u32)>::new(no_paths.clone()).validate().unwrap_err(),
        TextSource::new(no_paths).validate().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("no path was given"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_named_pipe_or_device_is_refused_at_once_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, what) in [(pipe.as_path(), "a named pipe"), (Path::new("/dev/zero"), "a device")] {
        for error in [
            CsvSource::<(u32, u32)>::new(path).validate().unwrap_err(),
            TextSource::new(path).validate().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Configuration);
            let text = error.to_string();
            assert!(text.contains(&path.display().to_string()) && text.contains(what), "{text}");
        }
    }

    // also where a file lay when the checkpoint was taken
    let file = folder.path().join("a.txt");
    fs::write(&file, "1\n2\n").unwrap();
    let source = Arc::new(TextSource::new(&file));
    let state = SourceDriver::open(&source, 0, 1, None).unwrap().snapshot().unwrap();
    fs::rename(&pipe, &file).unwrap();
    let error = SourceDriver::open(&source, 0, 1, Some(state)).unwrap().rest().unwrap_err().to_string();
    assert!(error.contains("a named pipe"), "{error}");
}

#[test]
fn a_probe_that_a_killed_process_left_stops_no_start_and_does_not_stay() {
    let folder = tempfile::tempdir().unwrap();
    let probe = folder.path().join(".stillstream-probe");
    // a container gives its programs the same process id each time
    let own = folder.path().join(format!(".probe-{}", std::process::id()));
    for left in [&probe, &own] {
        fs::write(left, "").unwrap();
    }
    FileSink::<String>::lines(folder.path()).validate().unwrap();
    assert!(!probe.exists());
}
