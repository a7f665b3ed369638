//! Which CPUs are one core, from the kernel's files below a root, and which of them threads take.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use egeria_machine::{CpuId, parse_cpu_list};

use crate::schedule::FlowCell;

/// A node as far as its CPUs may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CpuNode {
    /// Position in the machine.
    pub(crate) index: usize,
    /// In the order in which threads take them: one of each core, then a second of each, and so on, so that threads stand
    /// on as many cores as they can.
    pub(crate) cpus: Vec<CpuId>,
    /// How many cores they are: the first so many CPUs are of one each.
    pub(crate) cores: usize,
    /// The CPUs that are not of the first one's core, in the same order.
    pub(crate) apart: Vec<CpuId>,
}

impl CpuNode {
    /// Only these CPUs may be used, whatever siblings they have.
    pub(crate) fn of(root: &Path, index: usize, cpus: &[CpuId]) -> CpuNode {
        let mut sorted = cpus.to_vec();
        sorted.sort_unstable();
        let mut seen = BTreeMap::<CpuId, usize>::new();
        let mut ranked = Vec::with_capacity(sorted.len());
        for cpu in sorted {
            let core = core_of(root, cpu);
            let rank = seen.entry(core).or_default();
            ranked.push((*rank, cpu, core));
            *rank += 1;
        }
        ranked.sort_unstable();
        let first = ranked.first().map(|(.., core)| *core);
        let apart = ranked.iter().filter(|(.., core)| Some(*core) != first);
        CpuNode {
            index,
            cores: seen.len(),
            apart: apart.map(|(_, cpu, _)| *cpu).collect(),
            cpus: ranked.iter().map(|(_, cpu, _)| *cpu).collect(),
        }
    }
}

/// The first CPU of a core; the CPU itself where the kernel does not say.
fn core_of(root: &Path, cpu: CpuId) -> CpuId {
    let list = format!(
        "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list",
        cpu.0
    );
    let text = fs::read_to_string(root.join(list)).ok();
    let siblings = text.and_then(|text| parse_cpu_list(text.trim()).ok());
    let siblings = siblings.filter(|siblings| siblings.contains(&cpu));
    let first = siblings.and_then(|siblings| siblings.into_iter().min());
    first.unwrap_or(cpu)
}

/// Where two flows run at once: each on as many cores as it has threads; of one node, the second behind the first.
pub(crate) fn cpus_of(nodes: &[CpuNode], [one, other]: [FlowCell; 2]) -> [&[CpuId]; 2] {
    let skipped = if one.from == other.from {
        one.threads
    } else {
        0
    };
    [
        &nodes[one.from].cpus[..one.threads],
        &nodes[other.from].cpus[skipped..skipped + other.threads],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Together, pairs, waits};
    use egeria_machine::curves::thread_counts;

    /// Which CPUs are a core, by how many cores there are and how many threads each has.
    type Numbering = fn(u16, u16) -> Vec<Vec<u16>>;

    /// Siblings one after the other: 0 and 1, 2 and 3.
    fn adjacent(cores: u16, threads: u16) -> Vec<Vec<u16>> {
        let core = |core: u16| (core * threads..(core + 1) * threads).collect();
        (0..cores).map(core).collect()
    }

    /// All cores once, then again: 0 and n, 1 and n + 1.
    fn apart(cores: u16, threads: u16) -> Vec<Vec<u16>> {
        let core = |core: u16| (0..threads).map(|thread| core + thread * cores).collect();
        (0..cores).map(core).collect()
    }

    const NUMBERINGS: [Numbering; 2] = [adjacent, apart];

    fn ids(cpus: impl IntoIterator<Item = u16>) -> Vec<CpuId> {
        cpus.into_iter().map(CpuId).collect()
    }

    /// The kernel's files of these cores.
    fn root(cores: &[Vec<u16>]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for core in cores {
            for cpu in core {
                let directory = format!("sys/devices/system/cpu/cpu{cpu}/topology");
                let directory = root.path().join(directory);
                fs::create_dir_all(&directory).unwrap();
                let list: Vec<String> = core.iter().map(u16::to_string).collect();
                let list = format!("{}\n", list.join(","));
                fs::write(directory.join("thread_siblings_list"), list).unwrap();
            }
        }
        root
    }

    fn node(cores: &[Vec<u16>]) -> CpuNode {
        let cpus = ids(cores.iter().flatten().copied());
        CpuNode::of(root(cores).path(), 0, &cpus)
    }

    /// Which cores these CPUs are of; none twice.
    fn cores_of(cores: &[Vec<u16>], cpus: &[CpuId]) -> Vec<usize> {
        let core_of = |cpu: &CpuId| cores.iter().position(|core| core.contains(&cpu.0));
        let mut found: Vec<usize> = cpus.iter().filter_map(core_of).collect();
        assert_eq!(found.len(), cpus.len(), "{cpus:?} of {cores:?}");
        found.sort_unstable();
        found.dedup();
        found
    }

    #[test]
    fn every_core_comes_before_any_core_twice() {
        assert_eq!(node(&adjacent(3, 2)).cpus, ids([0, 2, 4, 1, 3, 5]));
        assert_eq!(node(&apart(3, 2)).cpus, ids([0, 1, 2, 3, 4, 5]));
        for (cores, threads) in [(1, 1), (1, 2), (2, 2), (3, 2), (5, 4), (7, 1)] {
            for numbering in NUMBERINGS {
                let numbered = numbering(cores, threads);
                let node = node(&numbered);
                let cores = usize::from(cores);
                assert_eq!(node.cores, cores);
                for times in node.cpus.chunks(cores) {
                    assert_eq!(cores_of(&numbered, times).len(), cores, "{node:?}");
                }
                let others = cores_of(&numbered, &node.apart);
                assert!(!others.contains(&cores_of(&numbered, &node.cpus[..1])[0]));
                assert_eq!(node.apart.len(), (cores - 1) * usize::from(threads));
            }
        }
    }

    /// Two flows of a node share no core, and each has half of them at most; so has each that is alone on its node.
    #[test]
    fn two_flows_at_once_share_no_core() {
        for (cores, threads) in [(2, 1), (2, 2), (3, 2), (4, 2), (5, 2), (9, 4), (28, 2)] {
            for numbering in NUMBERINGS {
                let numbered = numbering(cores, threads);
                let nodes = vec![node(&numbered); 3];
                let counts: Vec<usize> = nodes.iter().map(|node| node.cores).collect();
                let pairs = pairs(&counts, &[Some(0), Some(1), Some(2)]);
                assert_eq!(pairs.len(), 6 * 5 / 2);
                for pair in pairs {
                    let Together::Flows(flows) = pair else {
                        panic!("{pair:?}");
                    };
                    let cpus = cpus_of(&nodes, flows);
                    let taken = cpus.map(|cpus| cores_of(&numbered, cpus));
                    for (flow, taken) in flows.iter().zip(&taken) {
                        assert_eq!(flow.threads, taken.len());
                        assert!(2 * taken.len() <= usize::from(cores), "{taken:?}");
                        // As many were measured alone.
                        assert!(thread_counts(nodes[0].cpus.len()).contains(&flow.threads));
                    }
                    let is_shared = taken[0].iter().any(|core| taken[1].contains(core));
                    assert!(flows[0].from != flows[1].from || !is_shared, "{taken:?}");
                }
            }
        }
    }

    /// Siblings do not make two cores of one.
    #[test]
    fn a_single_core_has_no_two_flows_and_nobody_waits_on_it() {
        for numbering in NUMBERINGS {
            let nodes = vec![node(&numbering(1, 2)); 3];
            assert_eq!((nodes[0].cores, nodes[0].cpus.len()), (1, 2));
            let counts: Vec<usize> = nodes.iter().map(|node| node.cores).collect();
            assert!(pairs(&counts, &[Some(0), Some(1), Some(2)]).is_empty());
            let others: Vec<usize> = nodes.iter().map(|node| node.apart.len()).collect();
            assert!(waits(&others, &[0, 0, 1, 1]).is_empty());
        }
    }

    /// Those that load meanwhile are never on the core of the CPU that waits.
    #[test]
    fn nobody_loads_on_the_core_of_the_cpu_that_waits() {
        for (cores, threads) in [(2, 2), (3, 2), (5, 4), (28, 2)] {
            for numbering in NUMBERINGS {
                let numbered = numbering(cores, threads);
                let node = node(&numbered);
                let own = cores_of(&numbered, &node.cpus[..1])[0];
                let waits = waits(&[node.apart.len()], &[0, 0]);
                assert!(!waits.is_empty());
                for wait in waits {
                    let Together::Wait(cell) = wait else {
                        panic!("{wait:?}");
                    };
                    let others = cores_of(&numbered, &node.apart[..cell.threads]);
                    assert!(!others.contains(&own), "{cell:?} of {node:?}");
                    assert_eq!(others.len(), cell.threads.min(usize::from(cores) - 1));
                }
            }
        }
    }

    /// Siblings that may not be used do not count: 9 is the only usable CPU of its core.
    #[test]
    fn what_may_be_used_of_a_core_is_the_core() {
        let root = root(&[vec![2, 3], vec![8, 9]]);
        let node = CpuNode::of(root.path(), 0, &ids([2, 3, 9]));
        assert_eq!((node.cpus, node.cores), (ids([2, 9, 3]), 2));
        assert_eq!(node.apart, ids([9]));
    }

    #[test]
    fn silence_and_nonsense_are_a_core_of_its_own() {
        let cpus = ids(0..4);
        let node = CpuNode::of(Path::new("/nonexistent"), 0, &cpus);
        assert_eq!((node.cpus, node.cores), (cpus.clone(), 4));
        let root = root(&[vec![0], vec![1], vec![2], vec![3]]);
        for (cpu, text) in [(0, ""), (1, "x"), (2, "0-1"), (3, "3-")] {
            let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            fs::write(root.path().join(file), text).unwrap();
        }
        assert_eq!(CpuNode::of(root.path(), 0, &cpus).cores, 4);
    }
}
