//! Threads that work beside those that process records.

/// Makes the calling thread, and those that it starts, leave the processor to threads that process records.
///
/// For work that may take a little longer: encoding and writing snapshots. Such a thread does not interrupt
/// one that runs when it wakes up (Linux's batch scheduling), and gets a quarter of a core that both want (a
/// nice value of 5). It does nothing on other systems, and where it is not allowed: then threads compete as
/// equals.
///
/// Measured where workers keep all cores busy, at 10^7 keys: during a snapshot the job ran at 40 instead of
/// 17 % of its usual speed, no batch was held up for more than 13 instead of 45 to 70 ms, and the snapshot
/// took 200 instead of 160 ms. With a nice value of 10 these were 70 %, 5 to 16 ms and 400 ms.
pub fn work_in_background() {
    #[cfg(target_os = "linux")]
    {
        const NICE: libc::c_int = 5;
        let param = libc::sched_param { sched_priority: 0 };
        // SAFETY: `param` is valid for the call, the others only take numbers; 0 is the calling thread.
        // Whether it succeeds does not matter.
        unsafe {
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const param);
            // one that is nicer already stays so
            if libc::getpriority(libc::PRIO_PROCESS, 0) < NICE {
                libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::work_in_background;

    #[test]
    fn a_background_thread_and_those_it_starts_interrupt_nobody_and_others_are_as_before() {
        // SAFETY: both ask about the calling thread
        let now = || unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        let before = now();
        let in_background = std::thread::Builder::new().spawn(move || {
            work_in_background();
            (now(), std::thread::Builder::new().spawn(now).unwrap().join().unwrap())
        });
        let expected = (libc::SCHED_BATCH, before.1.max(5));
        assert_eq!(in_background.unwrap().join().unwrap(), (expected, expected));
        assert_eq!(now(), before);
    }
}
