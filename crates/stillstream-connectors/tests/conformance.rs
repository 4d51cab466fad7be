//! Sources and sinks of this crate pass the suites.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use stillstream_conformance::{self as conformance, DiscoveryTarget, SinkTarget};
use stillstream_connectors::{Collect, CsvSource, FileSink, Generator, TextSource};
use stillstream_state::Data;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize, Data)]
#[data(crate = stillstream_state)]
struct Row {
    id: u64,
    text: String,
    maybe: Option<i32>,
}

fn row(id: u64) -> Row {
    let text =
        if id.is_multiple_of(7) { format!("two\nlines, and \"quotes\" {id}") } else { format!("t{id}") };
    Row { id, text, maybe: (!id.is_multiple_of(3)).then_some(id as i32 - 50) }
}

fn csv(ids: std::ops::Range<u64>) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    ids.for_each(|id| writer.serialize(row(id)).unwrap());
    writer.into_inner().unwrap()
}

fn gzip(path: &Path, bytes: &[u8]) {
    let mut encoder = flate2::write::GzEncoder::new(fs::File::create(path).unwrap(), Default::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap();
}

#[test]
fn the_generator_passes_the_source_suite() {
    conformance::source(Generator::new(300, |index| index), &(0..300).collect::<Vec<u64>>());
    conformance::source(Generator::new(0, |index| index), &[]);
}

#[test]
fn csv_files_plain_and_compressed_pass_the_source_suite() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.csv"), csv(0..2500)).unwrap();
    gzip(&folder.path().join("b.csv.gz"), &csv(2500..4500));
    fs::write(folder.path().join("c.csv"), csv(4500..4501)).unwrap();
    fs::write(folder.path().join("empty.csv"), b"").unwrap();
    fs::write(folder.path().join("_SUCCESS"), b"not,a,row").unwrap();
    let rows: Vec<Row> = (0..4501).map(row).collect();
    conformance::source(CsvSource::<Row>::new(folder.path()), &rows);
}

#[test]
fn text_files_cut_at_any_byte_pass_the_source_suite() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..60).map(|n| "x".repeat(n % 5) + &n.to_string()).collect();
    fs::write(folder.path().join("a"), lines[..30].join("\n") + "\n").unwrap();
    fs::write(folder.path().join("b"), lines[30..50].join("\r\n")).unwrap();
    gzip(&folder.path().join("c"), (lines[50..].join("\n") + "\n").as_bytes());
    for size in [1, 2, 3, 5, 7, 64, 1000] {
        let source = TextSource::new(folder.path()).split_size(size);
        let mut found = Vec::new();
        let driver = conformance::SourceDriver::open(&source.into(), 0, 1, None);
        found.extend(driver.unwrap().rest().unwrap());
        assert_eq!(found, lines, "splits of {size} bytes");
    }
    conformance::source(TextSource::new(folder.path()).split_size(20), &lines);
}

/// A folder that files are moved into while they are read.
struct Inbox {
    folder: tempfile::TempDir,
    files: usize,
}

impl DiscoveryTarget for Inbox {
    type Source = TextSource;
    fn source(&self) -> TextSource {
        TextSource::new(self.folder.path()).watch(Duration::from_secs(1)).split_size(6)
    }
    fn add(&mut self) -> Vec<String> {
        let lines: Vec<String> = (0..3).map(|n| format!("{}-{n}", self.files)).collect();
        let (part, whole) = (self.folder.path().join(".part"), format!("{}.log", self.files));
        fs::write(&part, lines.join("\n") + "\n").unwrap();
        fs::rename(&part, self.folder.path().join(whole)).unwrap();
        self.files += 1;
        lines
    }
}

#[test]
fn a_folder_that_is_watched_passes_the_suite_of_discovery() {
    conformance::discovery(4, || Inbox { folder: fast_folder(), files: 0 });
}

struct Memory(Collect<u64>);

impl SinkTarget for Memory {
    type Item = u64;
    type Sink = Collect<u64>;
    fn sink(&self) -> Collect<u64> {
        self.0.clone()
    }
    fn item(&self, n: u64) -> u64 {
        n
    }
    fn committed(&self) -> Vec<u64> {
        self.0.items()
    }
    fn left_overs(&self) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn collect_passes_the_sink_suite() {
    conformance::sink(|| Memory(Collect::new()));
}

/// A folder in memory where there is one: the suite waits for the disk a few thousand times.
fn fast_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

struct Folder {
    root: tempfile::TempDir,
    roll_at: u64,
}

impl SinkTarget for Folder {
    type Item = Row;
    type Sink = FileSink<Row>;
    fn sink(&self) -> FileSink<Row> {
        FileSink::csv(self.root.path().join("out")).roll_at(self.roll_at)
    }
    fn item(&self, n: u64) -> Row {
        row(n)
    }
    fn committed(&self) -> Vec<Row> {
        let Ok(entries) = fs::read_dir(self.root.path().join("out")) else { return Vec::new() };
        let mut rows = Vec::new();
        for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some()) {
            let before = rows.len();
            rows.extend(csv::Reader::from_path(&path).unwrap().deserialize::<Row>().map(Result::unwrap));
            assert!(rows.len() > before, "{} is empty", path.display());
        }
        rows
    }
    fn left_overs(&self) -> Vec<String> {
        let names = fs::read_dir(self.root.path().join("out")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with("part-")).collect()
    }
}

#[test]
fn the_file_sink_passes_the_sink_suite() {
    conformance::sink(|| Folder { root: fast_folder(), roll_at: 1 << 20 });
}

#[test]
fn the_file_sink_passes_the_sink_suite_with_many_small_parts() {
    conformance::sink(|| Folder { root: fast_folder(), roll_at: 20 });
}
