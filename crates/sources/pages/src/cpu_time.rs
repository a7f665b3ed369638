//! CPU time of a thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread: it does not grow while other threads run.
pub(crate) fn of_thread() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_takes_no_cpu_time() {
        let before = of_thread();
        std::thread::sleep(Duration::from_millis(20));
        assert!(of_thread() - before < Duration::from_millis(10));
        while of_thread() == before {}
    }
}
