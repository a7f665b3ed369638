//! When the steward looks.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// If looking takes long, it uses at most this fraction of a core: one part in this number.
const PARTS: u32 = 4;
/// Longer than with thousands of threads: shorter looks follow each other as asked for.
const LONG: Duration = Duration::from_millis(50);

/// The first windows are this part of those asked for, so that what is wrong at the beginning is soon repaired. The very
/// first look finds the threads; what they do is counted from then on.
const FIRST: [f64; 3] = [0.05, 0.25, 0.5];

/// When to look, from the begin on.
pub(crate) struct Pace {
    window: Duration,
    looks: usize,
    pub(crate) next: Instant,
}

impl Pace {
    pub(crate) fn begin(window: Duration, now: Instant) -> Pace {
        Pace {
            window,
            looks: 0,
            next: now + length(window, 0),
        }
    }

    /// A turn has ended; its look ended then and took this much CPU time. What was done since then is a rest from looking.
    pub(crate) fn looked(&mut self, now: Instant, (end, looked): (Instant, Duration)) {
        self.looks += 1;
        // The first looks find everything new and take longest; no rest is needed after these.
        let is_first = self.looks < FIRST.len();
        let looked = if is_first { Duration::ZERO } else { looked };
        self.next = next_look(
            self.next,
            length(self.window, self.looks),
            now,
            (end, looked),
        );
    }
}

/// How long the window of this number is, if windows of this length are asked for.
fn length(window: Duration, number: usize) -> Duration {
    window.mul_f64(FIRST.get(number).copied().unwrap_or(1.0))
}

/// CPU time of this thread.
pub(crate) fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// When to look again after a look that was due then, ended then and took so much CPU time. A window that came late shifts the
/// others: none is ever cut short. And where looking takes long, as with a hundred thousand threads, windows are as
/// long as that needs.
fn next_look(
    due: Instant,
    window: Duration,
    now: Instant,
    (end, looked): (Instant, Duration),
) -> Instant {
    (due + window)
        .max(now + window / 2)
        .max(end + rest_after(looked))
}

/// How long no look follows one that took so much CPU time.
pub(crate) fn rest_after(looked: Duration) -> Duration {
    if looked > LONG {
        looked.saturating_mul(PARTS - 1)
    } else {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_as_long_as_asked_for_unless_looking_takes_long() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let next = |late: u64, looked: u64| {
            let end = begin + ms(late);
            let next = next_look(begin, ms(1000), end, (end, ms(looked)));
            (next - begin).as_millis()
        };
        assert_eq!(next(5, 5), 1000);
        assert_eq!(next(100, 100), 1000);
        // A window that is late is not followed by a short one.
        assert_eq!(next(900, 5), 1400);
        assert_eq!(next(3000, 5), 3500);
        // Windows that are short are not stretched by looks that are.
        assert_eq!(
            next_look(begin, ms(20), begin + ms(8), (begin + ms(8), ms(8))),
            begin + ms(20)
        );
        // Two seconds of moving memory after a look of half a second are most of its rest.
        let (end, now) = (begin + ms(500), begin + ms(2500));
        assert_eq!(
            next_look(begin, ms(1000), now, (end, ms(500))),
            begin + ms(3000)
        );
        assert_eq!(
            next_look(begin, ms(1000), now, (end, ms(1000))),
            begin + ms(3500)
        );
        // A hundred thousand threads: a quarter of a core, not all of it.
        assert_eq!(next(1500, 1500), 6000);
    }

    #[test]
    fn first_windows_are_shorter() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut pace = Pace::begin(ms(1000), begin);
        let mut looks = [0; 5].map(|_: u64| {
            let due = pace.next;
            pace.looked(due, (due, ms(100)));
            (due - begin).as_millis()
        });
        // A look that takes a tenth of a second is no reason to rest: not even later.
        assert_eq!(looks, [50, 300, 800, 1800, 2800]);
        let mut slow = Pace::begin(ms(1000), begin);
        looks = [0; 5].map(|_: u64| {
            let due = slow.next;
            slow.looked(due, (due, ms(1500)));
            (due - begin).as_millis()
        });
        assert_eq!(looks, [50, 300, 800, 5300, 9800]);
    }

    #[test]
    fn cpu_time_goes_on_while_this_thread_works() {
        let before = cpu_time();
        while cpu_time() == before {}
        assert!(cpu_time() > before);
    }
}
