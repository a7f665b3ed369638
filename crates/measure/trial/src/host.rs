//! Whose CPU time passes during a run: this process's, its children's, and that of all others.

use procfs::process::Process;
use procfs::{CpuTime, CurrentSI, KernelStats};

/// CPU time so far, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    /// Of this process, ns: it may be much less than a tick in a run.
    own_ns: u64,
    /// Of children that have ended and were waited for.
    children: u64,
    busy: u64,
    all: u64,
}

/// What passed between two looks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Passed {
    /// CPU time of this process, s.
    pub own_s: f64,
    /// CPU time of children that ended, and of theirs, s.
    pub children_s: f64,
    /// Share of the machine's CPU time that went to other programs, or was taken by the hypervisor.
    pub others_share: f64,
}

impl CpuTimes {
    /// Now; `None` where the kernel does not say.
    pub fn now() -> Option<CpuTimes> {
        let own = Process::myself().and_then(|own| own.stat()).ok()?;
        let total = KernelStats::current().ok()?.total;
        let busy = busy(&total);
        let children = u64::try_from(own.cutime + own.cstime).unwrap_or(0);
        Some(CpuTimes {
            own_ns: own_ns(),
            children,
            busy,
            all: busy + total.idle + total.iowait.unwrap_or(0),
        })
    }

    /// What passed since then.
    pub fn since(self, then: CpuTimes) -> Passed {
        let per_s = procfs::ticks_per_second() as f64;
        let own_s = self.own_ns.saturating_sub(then.own_ns) as f64 / 1e9;
        let children_s = self.children.saturating_sub(then.children) as f64 / per_s;
        let busy_s = self.busy.saturating_sub(then.busy) as f64 / per_s;
        let all_s = self.all.saturating_sub(then.all).max(1) as f64 / per_s;
        let others_s = (busy_s - own_s - children_s).max(0.0);
        Passed {
            own_s,
            children_s,
            others_share: (others_s / all_s).min(1.0),
        }
    }
}

fn own_ns() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

fn busy(total: &CpuTime) -> u64 {
    let sometimes = [total.irq, total.softirq, total.steal];
    let sometimes: u64 = sometimes.into_iter().flatten().sum();
    total.user + total.nice + total.system + sometimes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_others_is_what_neither_it_nor_its_children_used() {
        let then = CpuTimes::default();
        let ticks = procfs::ticks_per_second();
        let now = CpuTimes {
            own_ns: 500_000_000,
            children: 2 * ticks,
            busy: 9 * ticks / 2,
            all: 10 * ticks,
        };
        let passed = now.since(then);
        assert!((passed.others_share - 0.2).abs() < 1e-12, "{passed:?}");
        assert_eq!((passed.own_s, passed.children_s), (0.5, 2.0));
        assert_eq!(then.since(now).others_share, 0.0, "a clock that went back");
    }
}
