//! The host's clocks, and sleeping to a point on them.

use libc::{clockid_t, timespec};

/// Host time that all processes share, ns.
pub(super) fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The same clock to a few milliseconds, nearly free.
pub(super) fn coarse_now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// CPU time of this thread, ns; costs some 350 ns itself.
pub(super) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: clockid_t) -> u64 {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the given place.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until host time `deadline_ns`, also when signals interrupt.
pub(super) fn sleep_until(deadline_ns: u64) {
    let time = timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: reads one timespec.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &time,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// The default slack of 50 us would lengthen every wait of this thread.
pub(super) fn wake_precisely() {
    // SAFETY: changes only this thread's timer slack, to 1 ns.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize) };
}

/// What reading the thread's CPU clock twice adds to the time between, ns.
pub(super) fn thread_cpu_cost_ns() -> u64 {
    let mut costs: Vec<u64> = (0..101)
        .map(|_| {
            let before = thread_cpu_ns();
            thread_cpu_ns().saturating_sub(before)
        })
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}
