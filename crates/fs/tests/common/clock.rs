//! The engine's clock.

/// The wall clock at the kernel's last tick, as the engine's times are. (Not by rustix: under valgrind it looks for the
/// kernel's fast clock where none is mapped.)
pub fn coarse_now_ns() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid out-parameter.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
