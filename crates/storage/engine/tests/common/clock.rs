//! The engine's clock.

/// The wall clock at the kernel's last tick, as the engine's times are.
pub fn coarse_now_ns() -> i64 {
    egeria_media::clock::now_ns(libc::CLOCK_REALTIME_COARSE)
}
