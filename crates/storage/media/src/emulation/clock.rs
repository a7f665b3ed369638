//! The host's clocks, and sleeping until a time on them.

use libc::{clockid_t, timespec};

/// Host time that all processes share, ns.
pub(super) fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The monotonic clock with a resolution of a few milliseconds, nearly free.
pub(super) fn coarse_now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// CPU time of this thread, ns; costs some 350 ns itself.
pub(super) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: clockid_t) -> u64 {
    crate::clock::now_ns(clock) as u64
}

/// Sleeps until host time `deadline_ns`, also when signals interrupt. Returns how often that gave up the CPU.
pub(super) fn sleep_until(deadline_ns: u64) -> u64 {
    let time = timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    let mut switches = 0;
    loop {
        switches += 1;
        let rest = std::ptr::null_mut();
        // SAFETY: reads one timespec.
        let answer = unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, rest)
        };
        if answer != libc::EINTR {
            return switches;
        }
    }
}

/// How often this thread gave up the CPU voluntarily: slept, blocked.
pub(super) fn voluntary_switches() -> u64 {
    // SAFETY: all-zero is a valid rusage, filled by the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nvcsw as u64
    }
}

/// Sets the timer slack: the default of 50 us would lengthen every wait of this thread.
pub(super) fn wake_precisely() {
    let _ = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
}

/// CPU time that the emulation itself adds between two accesses, ns: for reading clocks, with the cold caches after a
/// sleep. Measured, in some milliseconds.
pub(super) fn own_cpu_cost_ns() -> u64 {
    let mut costs: Vec<u64> = (0..65)
        .map(|_| {
            sleep_until(now_ns() + 20_000);
            now_ns();
            let woke_cpu_ns = thread_cpu_ns();
            now_ns();
            thread_cpu_ns().saturating_sub(woke_cpu_ns)
        })
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}
