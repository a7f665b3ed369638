//! When the steward looks.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// If looking takes long, it uses at most this fraction of a core: one part in this number.
const PARTS: u32 = 4;
/// Longer than with thousands of threads: shorter looks follow each other as asked for.
const LONG: Duration = Duration::from_millis(50);

/// CPU time of this thread.
pub(crate) fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// When to look again after a look that was due then and took so much CPU time. A window that came late shifts the
/// others: none is ever cut short. And where looking takes long, as with a hundred thousand threads, windows are as
/// long as that needs.
pub(crate) fn next_look(due: Instant, window: Duration, now: Instant, looked: Duration) -> Instant {
    let rest = if looked > LONG {
        looked.saturating_mul(PARTS - 1)
    } else {
        Duration::ZERO
    };
    (due + window).max(now + window / 2).max(now + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_as_long_as_asked_for_unless_looking_takes_long() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let next = |late: u64, looked: u64| {
            let next = next_look(begin, ms(1000), begin + ms(late), ms(looked));
            (next - begin).as_millis()
        };
        assert_eq!(next(5, 5), 1000);
        assert_eq!(next(100, 100), 1000);
        // A window that is late is not followed by a short one.
        assert_eq!(next(900, 5), 1400);
        assert_eq!(next(3000, 5), 3500);
        // Windows that are short are not stretched by looks that are.
        assert_eq!(
            next_look(begin, ms(20), begin + ms(8), ms(8)),
            begin + ms(20)
        );
        // A hundred thousand threads: a quarter of a core, not all of it.
        assert_eq!(next(1500, 1500), 6000);
    }

    #[test]
    fn cpu_time_goes_on_while_this_thread_works() {
        let before = cpu_time();
        while cpu_time() == before {}
        assert!(cpu_time() > before);
    }
}
