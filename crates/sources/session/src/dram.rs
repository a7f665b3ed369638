//! Traffic of each node's DRAM, if it is counted. An emulated machine counts it. On a real machine the kernel reports
//! it by memory bandwidth monitoring (resctrl), if the CPU has that.

use std::fs;
use std::path::{Path, PathBuf};

use egeria_engine::Volume;
use egeria_machine::Machine;
use egeria_machine::resctrl::{RESCTRL, nodes_of_cache};

const CPUS: &str = "/sys/devices/system/cpu";

/// The source of the counts.
pub(crate) enum DramCounters {
    Emulation,
    Monitoring(Monitoring),
    Nobody,
}

/// The kernel's counts, one per last-level cache.
pub(crate) struct Monitoring {
    domains: Vec<Domain>,
}

/// The traffic of the CPUs behind one last-level cache.
struct Domain {
    directory: PathBuf,
    /// Position of its node in the machine.
    node: usize,
}

impl DramCounters {
    /// The source of counts on this machine.
    pub(crate) fn of(volume: &Volume, machine: &Machine) -> DramCounters {
        if volume.emulation().is_configured() {
            return DramCounters::Emulation;
        }
        match Monitoring::found(machine, &Path::new("/").join(RESCTRL), Path::new(CPUS)) {
            Some(monitoring) => DramCounters::Monitoring(monitoring),
            None => DramCounters::Nobody,
        }
    }

    /// Bytes so far by position of the node; those of all its memory controllers if `is_with_pm`. `None` if not
    /// counted.
    pub(crate) fn bytes(&self, volume: &Volume, machine: &Machine) -> Option<DramBytes> {
        match self {
            DramCounters::Emulation => {
                let of = |node| volume.emulation().dram_bytes(node).unwrap_or(0);
                Some(DramBytes {
                    by_node: (0..machine.nodes.len()).map(of).collect(),
                    is_with_pm: false,
                })
            }
            DramCounters::Monitoring(monitoring) => {
                let by_node = monitoring.bytes(machine.nodes.len())?;
                Some(DramBytes {
                    by_node,
                    is_with_pm: true,
                })
            }
            DramCounters::Nobody => None,
        }
    }
}

/// Counts at one time.
pub(crate) struct DramBytes {
    by_node: Vec<u64>,
    /// Whether what went to persistent memory behind the same controllers is among them.
    is_with_pm: bool,
}

impl DramBytes {
    /// Bytes of a node's DRAM since an earlier time; `pm_bytes` went to persistent memory there.
    pub(crate) fn since(&self, before: &DramBytes, node: usize, pm_bytes: u64) -> Option<u64> {
        let moved = self
            .by_node
            .get(node)?
            .checked_sub(*before.by_node.get(node)?)?;
        Some(if self.is_with_pm {
            moved.saturating_sub(pm_bytes)
        } else {
            moved
        })
    }
}

impl Monitoring {
    /// `None` where the kernel does not count, or not for every node with CPUs.
    fn found(machine: &Machine, resctrl: &Path, cpus: &Path) -> Option<Monitoring> {
        let mut domains = Vec::new();
        for entry in fs::read_dir(resctrl.join("mon_data")).ok()?.flatten() {
            let name = entry.file_name();
            let id = name.to_str()?.strip_prefix("mon_L3_")?.parse::<u32>();
            let nodes = nodes_of_cache(machine, cpus, id.ok()?);
            let node = machine.index_of(*nodes.first()?)?;
            let directory = entry.path();
            bytes_in(&directory.join("mbm_local_bytes"))?;
            domains.push(Domain { directory, node });
        }
        let nodes = machine.nodes.iter().enumerate();
        let mut with_cpus = nodes.filter(|(_, node)| !node.cpus.is_empty());
        let is_counted = |node: usize| domains.iter().any(|domain| domain.node == node);
        with_cpus
            .all(|(node, _)| is_counted(node))
            .then_some(Monitoring { domains })
    }

    /// The bytes that a node's own CPUs move there. With two nodes, the remote bytes of one go to the other. With more
    /// nodes their target is unknown, and they are left out.
    fn bytes(&self, nodes: usize) -> Option<Vec<u64>> {
        let mut by_node = vec![0u64; nodes];
        for domain in &self.domains {
            let local = bytes_in(&domain.directory.join("mbm_local_bytes"))?;
            by_node[domain.node] = by_node[domain.node].saturating_add(local);
            if nodes == 2
                && let Some(all) = bytes_in(&domain.directory.join("mbm_total_bytes"))
            {
                let other = 1 - domain.node;
                by_node[other] = by_node[other].saturating_add(all.saturating_sub(local));
            }
        }
        Some(by_node)
    }
}

/// A count; `None` where the kernel writes a word, as `Unavailable`.
fn bytes_in(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use egeria_machine::CpuId;

    use super::*;

    /// Two nodes of one CPU each, with the caches 7 and 9.
    struct Kernel {
        folder: tempfile::TempDir,
        machine: Machine,
    }

    impl Kernel {
        fn new() -> Kernel {
            let folder = tempfile::tempdir().unwrap();
            let mut machine = Machine::profile("optane-2s").unwrap();
            for (node, cache) in [(0, 7), (1, 9)] {
                machine.nodes[node].cpus = vec![CpuId(node as u16)];
                let kernel = folder.path().join(format!("cpu/cpu{node}/cache/index3"));
                fs::create_dir_all(&kernel).unwrap();
                fs::write(kernel.join("id"), format!("{cache}\n")).unwrap();
            }
            let kernel = Kernel { folder, machine };
            kernel.count("mon_L3_07", "100", "160");
            kernel.count("mon_L3_09", "1000", "1005");
            kernel
        }

        fn count(&self, domain: &str, local: &str, total: &str) {
            let directory = self.folder.path().join("resctrl/mon_data").join(domain);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("mbm_local_bytes"), local).unwrap();
            fs::write(directory.join("mbm_total_bytes"), total).unwrap();
        }

        fn found(&self) -> Option<Monitoring> {
            let path = self.folder.path();
            Monitoring::found(&self.machine, &path.join("resctrl"), &path.join("cpu"))
        }
    }

    #[test]
    fn what_each_cache_moves_is_of_the_node_that_it_goes_to() {
        let kernel = Kernel::new();
        let bytes = kernel.found().unwrap().bytes(2);
        assert_eq!(bytes, Some(vec![105, 1060]));
    }

    #[test]
    fn persistent_memory_behind_the_same_controllers_is_taken_off() {
        let at = |bytes: u64, is_with_pm| DramBytes {
            by_node: vec![bytes],
            is_with_pm,
        };
        assert_eq!(at(1000, true).since(&at(400, true), 0, 250), Some(350));
        assert_eq!(at(1000, true).since(&at(400, true), 0, 900), Some(0));
        assert_eq!(at(1000, false).since(&at(400, false), 0, 250), Some(600));
        assert_eq!(
            at(1, true).since(&at(400, true), 0, 0),
            None,
            "it began anew"
        );
        assert_eq!(at(1, true).since(&at(0, true), 3, 0), None);
    }

    #[test]
    fn without_monitoring_or_a_part_of_it_nothing_is_known() {
        let kernel = Kernel::new();
        kernel.count("mon_L3_09", "Unavailable", "Unavailable");
        assert!(kernel.found().is_none());
        kernel.count("mon_L3_09", "5", "5");
        let monitoring = kernel.found().unwrap();
        kernel.count("mon_L3_07", "Unavailable", "Error");
        assert_eq!(monitoring.bytes(2), None);
        fs::remove_dir_all(kernel.folder.path().join("resctrl/mon_data/mon_L3_07")).unwrap();
        assert!(kernel.found().is_none(), "node 0 is not counted");
        fs::remove_dir_all(kernel.folder.path().join("resctrl")).unwrap();
        assert!(kernel.found().is_none());
    }
}
