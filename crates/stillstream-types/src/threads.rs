//! Threads that work beside those that process records.

/// Makes the calling thread, and those that it starts, leave the processor to threads that process records.
///
/// For work that may take a little longer: encoding and writing snapshots. Such a thread does not interrupt one that runs
/// when it wakes up (Linux's batch scheduling), and gets a quarter of a core that both want (a nice value of 5). It does nothing on
/// other systems, and where it is not allowed: then threads compete as equals.
///
/// Measured where workers keep all cores busy, at 10^7 keys: during a snapshot the job ran at 40 instead of 17 % of its usual speed,
/// no batch was held up for more than 13 instead of 45 to 70 ms, and the snapshot took 200 instead of 160 ms. With a nice value
/// of 10 these were 70 %, 5 to 16 ms and 400 ms.
pub fn work_in_background() {
    #[cfg(target_os = "linux")]
    {
        const NICE: libc::c_int = 5;
        let param = libc::sched_param { sched_priority: 0 };
        // SAFETY: `param` is valid for the call; 0 is the calling thread. Whether it succeeds does not matter.
        unsafe {
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const param);
            libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
        }
    }
}
