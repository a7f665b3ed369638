//! Whose CPU time passes during a run: this process's, its children's, and that of all others.

use procfs::process::Process;
use procfs::{CpuTime, CurrentSI, KernelStats};

/// CPU time so far, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    own: u64,
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
            own: own.utime + own.stime,
            children,
            busy,
            all: busy + total.idle + total.iowait.unwrap_or(0),
        })
    }

    /// What passed since then.
    pub fn since(self, then: CpuTimes) -> Passed {
        let own = self.own.saturating_sub(then.own);
        let children = self.children.saturating_sub(then.children);
        let busy = self.busy.saturating_sub(then.busy);
        let all = self.all.saturating_sub(then.all).max(1);
        let others = busy.saturating_sub(own + children);
        Passed {
            own_s: own as f64 / procfs::ticks_per_second() as f64,
            others_share: (others as f64 / all as f64).min(1.0),
        }
    }
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
        let now = CpuTimes {
            own: 10,
            children: 40,
            busy: 90,
            all: 200,
        };
        let passed = now.since(then);
        assert!((passed.others_share - 0.2).abs() < 1e-12);
        assert!((passed.own_s - 10.0 / procfs::ticks_per_second() as f64).abs() < 1e-12);
        assert_eq!(then.since(now).others_share, 0.0, "a clock that went back");
    }
}
