//! How long the CPUs of nodes were busy.

use egeria_machine::{CpuId, Node};

use crate::task;

/// How long each CPU was busy since boot.
#[derive(Clone, Debug, Default)]
pub struct CpuTimes(Vec<(CpuId, u64)>);

impl CpuTimes {
    /// As the kernel says now; empty when it does not.
    pub fn now() -> CpuTimes {
        CpuTimes(task::busy_by_cpu_ns())
    }

    /// How long the CPUs of a node were busy since then, all together, ns.
    pub fn busy_since_ns(&self, before: &CpuTimes, node: &Node) -> u64 {
        let of_node = self.0.iter().filter(|(cpu, _)| node.cpus.contains(cpu));
        let since = of_node.filter_map(|(cpu, busy_ns)| {
            let (_, before_ns) = before.0.iter().find(|(other, _)| other == cpu)?;
            Some(busy_ns.saturating_sub(*before_ns))
        });
        since.sum()
    }
}
