//! What is measured: clocks, CPU time and memory of this process. Linux only, as the figures are the
//! kernel's.

use std::fmt;
use std::ops::Sub;
use std::time::{Duration, Instant};

use stillstream::{Error, Result, ResultExt};

/// The time now.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the whole call, which writes nothing else
    let failed = unsafe { libc::clock_gettime(id, &mut time) };
    debug_assert_eq!(failed, 0, "Linux has had these clocks since 2.6.12");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of all threads of this process, user and system.
pub fn process_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of this thread.
pub fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Time since the machine was started: the same in all its processes.
pub fn since_boot() -> Duration {
    clock(libc::CLOCK_MONOTONIC)
}

/// How far a job had come at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    wall: Instant,
    cpu: Duration,
    records: u64,
}

impl Moment {
    /// This moment, at which `records` were through.
    pub fn at(records: u64) -> Self {
        Self { wall: now(), cpu: process_cpu(), records }
    }
}

/// What happened between two moments.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Wall-clock time.
    pub wall: Duration,
    /// CPU time of the whole process.
    pub cpu: Duration,
    /// Records.
    pub records: u64,
}

impl Sub for Moment {
    type Output = Span;
    fn sub(self, earlier: Self) -> Span {
        Span {
            wall: self.wall - earlier.wall,
            cpu: self.cpu.saturating_sub(earlier.cpu),
            records: self.records - earlier.records,
        }
    }
}

/// A line of `/proc/self/status`, in bytes.
fn status_bytes(field: &str) -> Result<u64> {
    const PATH: &str = "/proc/self/status";
    let text = std::fs::read_to_string(PATH).context(|| "measuring memory")?;
    let kib = text.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).map(|kib| kib << 10).ok_or_else(|| {
        Error::msg(format!("{PATH} has no line `{field} <number> kB`: memory cannot be measured"))
    })
}

/// Memory that this process has now.
pub fn resident_bytes() -> Result<u64> {
    status_bytes("VmRSS:")
}

/// The most memory that this process has had since [`forget_peak`].
pub fn peak_resident_bytes() -> Result<u64> {
    status_bytes("VmHWM:")
}

/// Begins a new measurement of the peak.
pub fn forget_peak() -> Result<()> {
    // 5: reset the peak resident set size, see proc(5)
    std::fs::write("/proc/self/clear_refs", "5").context(|| "measuring memory")
}

/// The machine that the figures are from.
#[derive(Debug)]
pub struct Machine {
    cpu: String,
    cores: usize,
    memory_gib: f64,
    kernel: String,
    /// Processes that were running or waiting for a core, mean of the last minute.
    load: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown");
            line.trim_start_matches([' ', '\t', ':']).to_string()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib: f64 = memory.trim_end_matches(" kB").parse().unwrap_or(0.0);
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: kib / f64::from(1 << 20),
            // the version without the builder's own marks
            kernel: read("/proc/sys/kernel/osrelease")
                .split(['-', '+', '\n'])
                .next()
                .unwrap_or_default()
                .into(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_string(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} cores, {:.0} GiB of memory, Linux {}; load average {} before the first run",
            self.cpu, self.cores, self.memory_gib, self.kernel, self.load
        )
    }
}
