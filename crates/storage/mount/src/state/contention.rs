//! Whether threads wait for CPUs, by the scheduler's statistics of the calling thread.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// CPUs are contended where a thread waited for a CPU for more than the time that it ran, divided by this.
const WAITED_SHARE: u64 = 10;

/// Of a thread since it began, ns.
#[derive(Clone, Copy, Default)]
struct Times {
    ran_ns: u64,
    waited_ns: u64,
}

struct Statistics {
    /// `None`: they cannot be read.
    file: Option<File>,
    last: Times,
    last_at_ns: u64,
}

thread_local! {
    static OWN: RefCell<Option<Statistics>> = const { RefCell::new(None) };
}

/// Whether the calling thread waited for CPUs since its last call, while it could have run. `false` if that call was before
/// `since_ns`: there is nothing to compare with. `true` where it is not known: with a kernel without `CONFIG_SCHED_INFO`.
pub(crate) fn waits_for_cpus(now_ns: u64, since_ns: u64) -> bool {
    OWN.with_borrow_mut(|own| {
        let own = own.get_or_insert_with(|| Statistics {
            file: File::open("/proc/thread-self/schedstat").ok(),
            last: Times::default(),
            last_at_ns: 0,
        });
        let Some(now) = own.file.as_ref().and_then(times) else {
            return true;
        };
        let last = std::mem::replace(&mut own.last, now);
        std::mem::replace(&mut own.last_at_ns, now_ns) > since_ns && are_long(last, now)
    })
}

fn are_long(last: Times, now: Times) -> bool {
    let waited_ns = now.waited_ns.saturating_sub(last.waited_ns);
    waited_ns * WAITED_SHARE > now.ran_ns.saturating_sub(last.ran_ns)
}

/// The file has the time on CPUs, the time on run queues, and a count.
fn times(file: &File) -> Option<Times> {
    let mut text = [0; 64];
    let bytes = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..bytes]).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some(Times {
        ran_ns: numbers.next()?.ok()?,
        waited_ns: numbers.next()?.ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_harness::testing::skip;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn threads_that_share_a_cpu_wait_for_it() {
        if File::open("/proc/thread-self/schedstat").is_err() {
            skip("the kernel has no CONFIG_SCHED_INFO");
            return;
        }
        let allowed = sched_getaffinity(None).unwrap();
        let mut cpus = 0..CpuSet::MAX_CPU;
        let mut one = CpuSet::new();
        one.set(cpus.find(|cpu| allowed.is_set(*cpu)).unwrap());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = || {
                sched_setaffinity(None, &one).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_millis(20) {}
                    if waits_for_cpus(1, 0) {
                        is_over.store(true, Ordering::Relaxed);
                    }
                }
            };
            scope.spawn(waits);
            scope.spawn(waits);
        });
    }

    #[test]
    fn a_tenth_of_the_time_is_long() {
        let times = |ran_ns, waited_ns| Times { ran_ns, waited_ns };
        assert!(are_long(times(1000, 500), times(2000, 601)));
        assert!(!are_long(times(1000, 500), times(2000, 600)));
        assert!(!are_long(times(1000, 500), times(1000, 500)));
    }
}
