//! A job with far more state than memory, and a parent that kills its process again and again.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use stillstream::config::{ByteSize, options};
use stillstream::prelude::*;

/// How large everything is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Number of keys.
    pub keys: u64,
    /// Bytes of the value of each key.
    pub value_bytes: usize,
    /// Memory of RocksDB, hot entries included.
    pub memory_mb: u64,
}

/// A process that is not killed should be done long before.
const LONGEST: Duration = Duration::from_secs(1_800);

/// How often each key comes.
const ROUNDS: u64 = 2;

fn mixed(index: u64) -> u64 {
    let x = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The key of the record with this index: in each round each key once, in an order without neighbours.
fn key(index: u64, keys: u64) -> u64 {
    // a prime that does not divide the number of keys
    (index % keys).wrapping_mul(2_654_435_761) % keys
}

/// Bytes that do not get smaller by compression.
fn filling(key: u64, bytes: usize) -> Vec<u8> {
    (0..bytes.div_ceil(8) as u64).flat_map(|n| mixed(key ^ (n << 40)).to_le_bytes()).take(bytes).collect()
}

impl Size {
    /// What the values of all keys are together.
    pub fn state_bytes(&self) -> u64 {
        self.keys * self.value_bytes as u64
    }

    /// What must come out for a key: how often it came, and the sum of its records.
    fn expected(&self, key_of: u64) -> (u64, u64) {
        // the second round has the same keys in the same order
        (ROUNDS, (0..ROUNDS).map(|round| round * 7 + key_of % 1000).sum())
    }
}

/// The job: count and sum for each key, in a large value. A key's totals come out when it has come for the
/// last time.
pub fn run(folder: &Path, size: Size) -> Result<JobResult> {
    let mut env = StreamExecutionEnvironment::new();
    let uri = folder.join("checkpoints").display().to_string();
    env.set_parallelism(2)
        .enable_checkpointing(millis(500))
        .set_state_backend(RocksDbStateBackend::new(uri).incremental(true));
    env.configuration_mut()
        .set(options::ROCKSDB_LOCAL_DIR, Some(folder.join("local").display().to_string()))
        .set(options::ROCKSDB_FIXED_PER_PROCESS, Some(ByteSize::from_mib(size.memory_mb)));
    let Size { keys, value_bytes, .. } = size;
    env.from_source("numbers", Generator::new(keys * ROUNDS, |n| n))
        .uid("numbers")
        .key_by(move |n| key(*n, keys))
        .map_with_state("totals", move |(count, sum, bytes): &mut (u64, u64, Vec<u8>), n| {
            let key = key(n, keys);
            match *count {
                0 => *bytes = filling(key, value_bytes),
                // totals without their bytes would be wrong totals
                _ if *bytes != filling(key, value_bytes) => *sum += 1_000_000,
                _ => {}
            }
            *count += 1;
            *sum += n / keys * 7 + key % 1000;
            (key, *count, *sum)
        })
        .uid("totals")
        .filter(|(_, count, _)| *count == ROUNDS)
        .sink_to("out", FileSink::csv(folder.join("out")))
        .uid("out");
    env.execute("large-state")
}

/// What the parent saw.
#[derive(Debug)]
pub struct Report {
    /// How often the process was killed.
    pub kills: u32,
    /// The most resident memory of any of the processes.
    pub peak_bytes: u64,
    /// Bytes in the folder of checkpoints at the end.
    pub checkpoint_bytes: u64,
}

/// The most resident memory that a process has had.
fn peak(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Starts the program, kills it (`kill -9`) `kills` times after a random time of at most `life`, lets it come
/// to its end, and checks its output.
pub fn supervise(
    start: &dyn Fn() -> Command,
    folder: &Path,
    size: Size,
    kills: u32,
    life: Duration,
    seed: u64,
) -> Result<Report> {
    let mut report = Report { kills: 0, peak_bytes: 0, checkpoint_bytes: 0 };
    loop {
        let mut child = start().spawn().context(|| "starting the job's process")?;
        let lives = life.mul_f64((mixed(seed + u64::from(report.kills)) % 1000) as f64 / 1000.0);
        let (step, mut lived) = (millis(5), Duration::ZERO);
        let ended = loop {
            report.peak_bytes = report.peak_bytes.max(peak(&child));
            if let Some(status) = child.try_wait().context(|| "waiting for the job's process")? {
                break Some(status);
            }
            if report.kills < kills && lived >= lives {
                child.kill().context(|| "killing the job's process")?;
                child.wait().context(|| "waiting for the job's process")?;
                report.kills += 1;
                break None;
            }
            if lived >= LONGEST {
                child.kill().context(|| "killing the job's process")?;
                child.wait().context(|| "waiting for the job's process")?;
                return Err(Error::msg(format!("the job's process did not come to its end in {LONGEST:?}")));
            }
            std::thread::sleep(step);
            lived += step;
        };
        match ended {
            None => {}
            Some(status) if status.success() => break,
            Some(status) => return Err(Error::msg(format!("the job's process failed: {status}"))),
        }
    }
    check(&folder.join("out"), size)?;
    report.checkpoint_bytes = bytes_below(&folder.join("checkpoints"));
    Ok(report)
}

/// Each key came out once, with the right totals.
fn check(out: &Path, size: Size) -> Result<()> {
    let mut seen = BTreeMap::new();
    for entry in fs::read_dir(out).context(|| out.display().to_string())? {
        let path = entry.context(|| out.display().to_string())?.path();
        let file = fs::File::open(&path).context(|| path.display().to_string())?;
        for line in BufReader::new(file).lines() {
            let line = line.context(|| path.display().to_string())?;
            let numbers: Vec<u64> = line.split(',').filter_map(|cell| cell.parse().ok()).collect();
            let [key, count, sum] = numbers[..] else {
                return Err(Error::msg(format!("{}: not three numbers: `{line}`", path.display())));
            };
            if size.expected(key) != (count, sum) || seen.insert(key, ()).is_some() {
                return Err(Error::msg(format!("{}: wrong, or twice: `{line}`", path.display())));
            }
        }
    }
    match seen.len() as u64 == size.keys {
        true => Ok(()),
        false => Err(Error::msg(format!("{} of {} keys came out", seen.len(), size.keys))),
    }
}
