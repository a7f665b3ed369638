//! How much of the host's CPU time other programs took during a measurement.

use std::time::Instant;

use procfs::process::Process;
use procfs::{CpuTime, CurrentSI, KernelStats};

/// Share of the host's CPUs above which others are said to have disturbed.
pub(super) const DISTURBING: f64 = 0.1;

/// The host's CPU time and ours, so far.
pub(super) struct HostUse {
    begin: Instant,
    all_s: f64,
    own_s: f64,
}

impl HostUse {
    /// Begin to measure.
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
    Some(busy_s(&KernelStats::current().ok()?.total))
}

/// The time of guests is in that of their hosts already.
fn busy_s(of: &CpuTime) -> f64 {
    let always_ms = of.user_ms() + of.nice_ms() + of.system_ms();
    let irq_ms = of.irq_ms().unwrap_or(0) + of.softirq_ms().unwrap_or(0);
    (always_ms + irq_ms + of.steal_ms().unwrap_or(0)) as f64 / 1e3
}

/// CPU time of this process and its ended children, s.
fn own_s() -> f64 {
    let stat = Process::myself().and_then(|own| own.stat());
    stat.map_or(0.0, |stat| {
        let children = stat.cutime.saturating_add(stat.cstime).max(0) as u64;
        (stat.utime + stat.stime + children) as f64 / procfs::ticks_per_second() as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::{FromReadSI, LocalSystemInfo};

    #[test]
    fn idling_and_waiting_are_no_work() {
        let stat = "cpu  100 20 30 5000 700 4 3 2 0 0\nctxt 1\nbtime 1\nprocesses 1\n";
        let stats = KernelStats::from_read(stat.as_bytes(), &LocalSystemInfo).unwrap();
        let ticks = busy_s(&stats.total) * procfs::ticks_per_second() as f64;
        assert_eq!(ticks.round(), 159.0);
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
