//! Machines that are not here: their files below a root, and what their kernels would answer.
#![allow(dead_code)] // Every test file uses a part.

use std::fs;

use egeria_doctor::{Ability, Facts, Probes, Sampling, SharedMemory, State, Traffic, abilities};
use tempfile::TempDir;

/// A server with two nodes, each with two CPUs, and all that Egeria needs.
pub struct Machine(pub TempDir);

impl Machine {
    pub fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        for node in 0..2 {
            let first = node * 2;
            let directory = format!("sys/devices/system/node/node{node}");
            machine.file(
                &format!("{directory}/cpulist"),
                &format!("{first}-{}\n", first + 1),
            );
            machine.file(
                &format!("{directory}/distance"),
                if node == 0 { "10 21\n" } else { "21 10\n" },
            );
            let meminfo =
                format!("Node {node} MemTotal: 16777216 kB\nNode {node} MemFree: 8388608 kB\n");
            machine.file(&format!("{directory}/meminfo"), &meminfo);
        }
        machine.file("sys/devices/system/cpu/online", "0-3\n");
        machine.file("sys/fs/resctrl/schemata", "    MB:0=100;1=100\n");
        for (name, text) in [
            ("min_bandwidth", "10\n"),
            ("bandwidth_gran", "10\n"),
            ("num_closids", "8\n"),
            ("delay_linear", "1\n"),
            ("thread_throttle_mode", "max\n"),
        ] {
            machine.file(&format!("sys/fs/resctrl/info/MB/{name}"), text);
        }
        machine.file("sys/kernel/btf/vmlinux", "");
        machine.file(
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "8\n",
        );
        machine.file(
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
            "3\n",
        );
        machine.file(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        );
        machine.file("proc/sys/kernel/osrelease", "6.12.107-cloud-amd64\n");
        machine.file("proc/sys/kernel/numa_balancing", "0\n");
        machine.file("proc/sys/kernel/perf_event_paranoid", "1\n");
        machine.file("proc/filesystems", "nodev\ttmpfs\nnodev\tfuse\n\text4\n");
        machine.file("proc/self/cgroup", "0::/user.slice\n");
        machine.file("proc/self/numa_maps", "");
        machine.status("000001ffffffffff", "0-3", "0-1");
        machine
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn status(&self, capabilities: &str, cpus: &str, nodes: &str) {
        self.bounded_status(capabilities, "000001ffffffffff", cpus, nodes);
    }

    pub fn bounded_status(&self, capabilities: &str, bounding: &str, cpus: &str, nodes: &str) {
        let text = format!(
            "Name:\tx\nNoNewPrivs:\t0\nCapEff:\t{capabilities}\nCapBnd:\t{bounding}\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{nodes}\n"
        );
        self.file("proc/self/status", &text);
    }

    pub fn facts(&self) -> Facts {
        Facts::read(self.0.path()).unwrap()
    }

    pub fn abilities(&self, probes: &Probes) -> Vec<Ability> {
        abilities::of(&self.facts(), probes)
    }

    /// Checks one ability, and words of its reason and fix.
    #[track_caller]
    pub fn says(&self, probes: &Probes, name: &str, state: State, words: &[&str]) {
        let abilities = self.abilities(probes);
        let ability = abilities
            .iter()
            .find(|ability| ability.name == name)
            .unwrap();
        assert_eq!(ability.state, state, "{ability:?}");
        for word in words {
            let said = format!(
                "{} {}",
                ability.because,
                ability.fix.as_deref().unwrap_or("")
            );
            assert!(said.contains(word), "{word:?} is not in {said:?}");
        }
    }
}

/// A kernel that allows root everything.
pub fn root() -> Probes {
    Probes {
        is_root: true,
        fuse: Ok(()),
        has_fusermount: true,
        cachestat: Ok(()),
        page_nodes: Ok(()),
        memory_policy: Ok(()),
        accesses: Ok(()),
        damon: Ok(()),
        pmu: Sampling::Works,
        page_faults: Sampling::Works,
        instructions: Sampling::Works,
        traffic: Traffic::Works("dram (6 PMUs)".to_owned()),
        affinity: Ok(()),
        bpf: Ok(()),
        shared_memory: Some(SharedMemory {
            bytes: 1 << 34,
            free_bytes: 1 << 33,
        }),
    }
}

pub const FILE: &str = "etc/egeria/machine.toml";

/// A machine file of nodes with two CPUs each and DRAM of these bandwidths, GB/s.
pub fn machine_file(bandwidths: &[f64], links: &str) -> String {
    let mut text = "name = \"made\"\n".to_owned();
    for (node, bandwidth) in bandwidths.iter().enumerate() {
        let first = node * 2;
        text += &format!(
            "[[nodes]]\nid = {node}\ncpus = \"{first}-{}\"\nmemory_bytes = 1_000_000\n\
             [[nodes.memories]]\nkind = \"dram\"\nread_bytes_s = {bandwidth:.1}e9\nwrite_bytes_s = 1e9\n\
             read_stream_bytes_s = 1e9\nwrite_stream_bytes_s = 1e9\nread_latency_ns = 90.0\nwrite_latency_ns = 90.0\n",
            first + 1
        );
    }
    text + links
}
