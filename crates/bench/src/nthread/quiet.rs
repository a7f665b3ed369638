//! Whether the host was ours: what others computed while we measured narrows the emulated machine.

use std::time::Instant;

/// Share of the host's CPUs above which others are said to have disturbed.
pub(super) const DISTURBING: f64 = 0.1;

/// The host's CPU time and ours, so far.
pub(super) struct HostUse {
    begin: Instant,
    all_s: f64,
    own_s: f64,
}

impl HostUse {
    /// From now on.
    pub(super) fn begin() -> HostUse {
        HostUse {
            begin: Instant::now(),
            all_s: all_s().unwrap_or_default(),
            own_s: own_s(),
        }
    }

    /// Share of the host's CPUs that others used since, in [0, 1]; `None` when the kernel does not say.
    /// Of our children it counts those that ended.
    pub(super) fn others(&self) -> Option<f64> {
        let cpus = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
        let capacity_s = self.begin.elapsed().as_secs_f64() * cpus;
        let others_s = (all_s()? - self.all_s) - (own_s() - self.own_s);
        (capacity_s > 0.0).then(|| (others_s / capacity_s).clamp(0.0, 1.0))
    }
}

/// CPU time of everything, idling and waiting aside, s.
fn all_s() -> Option<f64> {
    busy_ticks(&std::fs::read_to_string("/proc/stat").ok()?).map(|ticks| {
        // SAFETY: asks for a constant of the system.
        let ticks_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1);
        ticks as f64 / ticks_s as f64
    })
}

/// user, nice, system, irq, softirq and steal of the first line.
fn busy_ticks(stat: &str) -> Option<u64> {
    let mut words = stat.lines().next()?.split_whitespace();
    (words.next()? == "cpu").then_some(())?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let busy = [0, 1, 2, 5, 6, 7].map(|place| ticks.get(place).copied().unwrap_or_default());
    (ticks.len() >= 4).then(|| busy.iter().sum())
}

/// CPU time of this process and its ended children, s.
fn own_s() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .into_iter()
        .map(|whose| {
            // SAFETY: all-zero is a valid rusage, filled by the call.
            let usage = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                libc::getrusage(whose, &mut usage);
                usage
            };
            let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
            seconds(usage.ru_utime) + seconds(usage.ru_stime)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idling_and_waiting_are_no_work() {
        let stat = "cpu  100 20 30 5000 700 4 3 2 0 0\ncpu0 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(159));
        for text in ["", "cpu", "cpu0 1 2 3 4", "cpu a b"] {
            assert_eq!(busy_ticks(text), None, "{text:?}");
        }
    }

    #[test]
    fn our_own_work_is_not_others() {
        let host = HostUse::begin();
        let begin = own_s();
        while own_s() - begin < 0.05 {
            std::hint::black_box((0..1000u64).sum::<u64>());
        }
        assert!(host.own_s >= 0.0 && host.others().is_none_or(|share| share <= 1.0));
        assert!(own_s() - host.own_s >= 0.05);
    }
}
