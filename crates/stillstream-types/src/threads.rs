//! Threads that work beside those that process records.

/// Makes the calling thread, and those that it starts, leave the processor to threads that process records.
///
/// For work that may take a little longer: encoding and writing snapshots, cleaning up. Such a thread does not interrupt
/// one that runs when it wakes up (Linux's batch scheduling), and gets a smaller share of a core that both want. It does nothing on
/// other systems, and where it is not allowed: then threads compete as equals.
///
/// Without it, on a machine whose cores are all busy, a worker that freezes its state is interrupted by the threads that write what
/// another worker has frozen: the synchronous part of a checkpoint took 10 to 35 ms in place of one.
pub fn work_in_background() {
    #[cfg(target_os = "linux")]
    {
        let nice = std::env::var("STILL_NICE").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
        let param = libc::sched_param { sched_priority: 0 };
        // SAFETY: `param` is valid for the call; 0 is the calling thread. Whether it succeeds does not matter.
        unsafe {
            if std::env::var_os("STILL_NOBATCH").is_none() {
                libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const param);
            }
            libc::setpriority(libc::PRIO_PROCESS, 0, nice);
        }
    }
}
