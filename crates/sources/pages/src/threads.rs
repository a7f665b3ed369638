//! On which nodes the threads of processes run, and for how long.

use std::collections::BTreeMap;

use egeria_machine::{Machine, NodeId};
use egeria_proc::task::{self, CpuClock};

use crate::NodeBytes;

/// Threads looked at in one look; more are only counted.
pub const MAX_LOOKED_AT: usize = 10_000;

/// Threads of a node.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct OnNode {
    pub threads: u64,
    /// How long they ran while they were looked at, all together, ns.
    pub busy_ns: u64,
}

/// Where the threads of a process run.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Threads {
    pub count: u64,
    /// Of those looked at, by the node of the CPU that they ran on last.
    pub by_node: BTreeMap<NodeId, OnNode>,
}

/// Threads of some processes at one instant.
pub struct Look {
    processes: Vec<Process>,
}

struct Process {
    id: u32,
    /// All its threads.
    count: u64,
    /// Of those looked at, id and ns they ran so far.
    ran: Vec<(u32, u64)>,
}

impl Look {
    /// Begins to look at processes; those that are gone have no threads.
    pub fn begin(processes: &[u32]) -> Look {
        let mut left = MAX_LOOKED_AT;
        let mut look = Look {
            processes: Vec::with_capacity(processes.len()),
        };
        for &process in processes {
            let threads = task::threads(process);
            let count = threads.len() as u64;
            let ran = threads.into_iter().take(left);
            let ran: Vec<(u32, u64)> = ran
                .map(|thread| (thread, ran_ns(process, thread)))
                .collect();
            left -= ran.len();
            look.processes.push(Process {
                id: process,
                count,
                ran,
            });
        }
        look
    }

    /// What they did since then, by process in the order given.
    pub fn end(self, machine: &Machine) -> Vec<Threads> {
        let processes = self.processes.into_iter();
        let threads = processes.map(|process| {
            let mut found = Threads {
                count: process.count,
                by_node: BTreeMap::new(),
            };
            for (thread, before_ns) in process.ran {
                let cpu = task::last_cpu(process.id, thread);
                let Some(node) = cpu.and_then(|cpu| machine.node_of_cpu(cpu)) else {
                    continue;
                };
                let on = found.by_node.entry(node).or_default();
                on.threads += 1;
                on.busy_ns += ran_ns(process.id, thread).saturating_sub(before_ns);
            }
            found
        });
        threads.collect()
    }
}

fn ran_ns(process: u32, thread: u32) -> u64 {
    let clock = CpuClock::open(process, thread).ok();
    clock.and_then(|clock| clock.read_ns()).unwrap_or(0)
}

impl Threads {
    /// Adds those of another process.
    pub fn add(&mut self, other: &Threads) {
        self.count += other.count;
        for (node, more) in &other.by_node {
            let on = self.by_node.entry(*node).or_default();
            on.threads += more.threads;
            on.busy_ns += more.busy_ns;
        }
    }

    /// The share of accesses that are remote, 0 to 1, if each thread accesses all of these bytes alike. Threads are
    /// weighted by their running time, or equally if none ran. `None` without threads or bytes.
    pub fn remote_share(&self, bytes: &NodeBytes) -> Option<f64> {
        let total = bytes.total();
        let ran_ns: u64 = self.by_node.values().map(|on| on.busy_ns).sum();
        let weight = |on: &OnNode| match ran_ns {
            0 => on.threads as f64,
            _ => on.busy_ns as f64,
        };
        let weights: f64 = self.by_node.values().map(weight).sum();
        if total == 0 || weights == 0.0 {
            return None;
        }
        let local = self
            .by_node
            .iter()
            .map(|(node, on)| weight(on) / weights * bytes.of(*node) as f64 / total as f64);
        Some((1.0 - local.sum::<f64>()).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(nodes: &[(u16, u64, u64)]) -> Threads {
        let on = |(node, threads, busy_ns): &(u16, u64, u64)| {
            (
                NodeId(*node),
                OnNode {
                    threads: *threads,
                    busy_ns: *busy_ns,
                },
            )
        };
        Threads {
            count: nodes.iter().map(|(_, threads, _)| threads).sum(),
            by_node: nodes.iter().map(on).collect(),
        }
    }

    #[test]
    fn remote_share_weighs_threads_by_how_long_they_ran() {
        let mut bytes = NodeBytes::default();
        bytes.add(NodeId(0), 300);
        bytes.add(NodeId(1), 100);
        let share = |nodes: &[(u16, u64, u64)]| threads(nodes).remote_share(&bytes);
        assert_eq!(share(&[(1, 4, 0)]), Some(0.75));
        assert_eq!(share(&[(0, 4, 7), (1, 9, 0)]), Some(0.25));
        assert_eq!(share(&[(0, 1, 0), (1, 1, 0)]), Some(0.5));
        assert_eq!(share(&[(2, 1, 5)]), Some(1.0));
        assert_eq!(share(&[]), None);
        assert_eq!(
            threads(&[(0, 1, 1)]).remote_share(&NodeBytes::default()),
            None
        );
    }
}
