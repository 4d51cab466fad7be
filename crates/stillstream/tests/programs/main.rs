//! Jobs as programs of their own, which a test starts, kills and listens to: several processes, and a log
//! that nobody reads.

#[cfg(target_os = "linux")]
mod closed_log;
#[cfg(target_os = "linux")]
#[path = "../paced/mod.rs"]
mod paced;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod worker_processes;
