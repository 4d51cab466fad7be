//! What users of file sources see: policies, errors, rates.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stillstream_connectors::conformance::SourceDriver;
use stillstream_connectors::{CsvSource, FileSink, Malformed, OnMalformed, TextSource};
use stillstream_runtime::clock::ManualClock;
use stillstream_runtime::connect::{Sink, SinkContext, SplitSource};
use stillstream_runtime::{Batch, OpenContext};
use stillstream_types::{CheckpointId, ErrorKind};

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
    let mut driver = SourceDriver::open_in(&Arc::new(source), context).unwrap();
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
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("part-2-1-0.csv"), "carrier,delayed\nU0,0\nU1,1\n");
    assert_eq!(
        read("part-2-1-1.csv"),
        "carrier,delayed\nU0,0\n",
        "a second run in the same folder adds to it"
    );
    assert_eq!(read("part-2-1-2.csv"), "carrier,delayed\nU1,1\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
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
    assert!(error.contains("1-0-0.chk-1") && error.contains("part-0-1-0.txt"), "{error}");
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
