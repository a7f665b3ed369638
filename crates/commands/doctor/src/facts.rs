//! What the files of a kernel say.

use std::fs;
use std::path::Path;

use egeria_machine::resctrl::{BandwidthAllocation, NoAllocation};
use egeria_machine::{
    CALIBRATED, CpuId, KernelWeights, Machine, MachineError, NodeId, parse_cpu_list, read_text,
};

use crate::capabilities::Capabilities;
use crate::{container, limits};

/// No machine file is larger.
const MAX_MACHINE_FILE_BYTES: u64 = 1 << 20;

/// What is known of a machine and of this process on it. What the kernel does not say is `None`.
#[derive(Debug)]
pub struct Facts {
    /// As `6.12.0`.
    pub kernel: Option<String>,
    /// The processor's model, as the kernel calls it.
    pub processor: Option<String>,
    /// Nodes, CPUs, memory, persistent memory.
    pub machine: Machine,
    /// The machine as calibrated or described by root, or why that file cannot be used; `None` without one.
    pub described: Option<Result<Machine, String>>,
    /// The kernel's weights of nodes; `None` where it has none.
    pub weights: Option<KernelWeights>,
    /// What the CPU allocates of memory bandwidth, or why it does not.
    pub allocation: Result<BandwidthAllocation, NoAllocation>,
    /// The process number of numad, if it runs.
    pub numad: Option<u32>,
    /// The kernel shows nodes at all.
    pub has_nodes: bool,
    /// CPUs that this process may use.
    pub allowed_cpus: Vec<CpuId>,
    /// Nodes that it may use memory of; empty when the kernel does not say.
    pub allowed_nodes: Vec<NodeId>,
    /// What it may do.
    pub capabilities: Capabilities,
    /// What programs with the set-user-id bit may do for it, as fusermount3.
    pub reachable_capabilities: Capabilities,
    pub container: Option<String>,
    /// The lowest memory limit of its control groups.
    pub memory_limit_bytes: Option<u64>,
    /// `kernel.numa_balancing`: 0 is off.
    pub numa_balancing: Option<u64>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i64>,
    /// The kernel describes its types, as portable BPF programs need.
    pub has_btf: bool,
    /// `/proc/PID/numa_maps` is there.
    pub has_numa_maps: bool,
    /// The kernel has FUSE, or its module is loaded.
    pub has_fuse: bool,
    /// `/etc/fuse.conf` lets users share mounts with others.
    pub allows_other: bool,
    /// Reserved huge pages by size.
    pub huge_pages: Vec<HugePages>,
    /// `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
}

/// Huge pages of one size.
#[derive(Debug, PartialEq, Eq)]
pub struct HugePages {
    pub size_bytes: u64,
    pub count: u64,
    pub free: u64,
}

impl Facts {
    /// The facts of the machine with files below `root`.
    ///
    /// # Errors
    /// When its nodes and CPUs cannot be read.
    pub fn read(root: &Path) -> Result<Facts, MachineError> {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let word = |path: &str| text(path).map(|text| text.trim().to_owned());
        let status = text("proc/self/status").unwrap_or_default();
        let allowed = |key: &str| list(&status, key);
        let filesystems = text("proc/filesystems").unwrap_or_default();
        let fuse_settings = text("etc/fuse.conf").unwrap_or_default();
        let machine = Machine::from_sysfs(root)?;
        Ok(Facts {
            kernel: word("proc/sys/kernel/osrelease"),
            processor: text("proc/cpuinfo").as_deref().and_then(processor),
            described: described(root),
            weights: KernelWeights::read(root),
            allocation: BandwidthAllocation::read(root, &machine),
            machine,
            numad: process_called(root, "numad"),
            has_nodes: root.join("sys/devices/system/node/node0").exists(),
            allowed_cpus: allowed("Cpus_allowed_list:"),
            allowed_nodes: allowed("Mems_allowed_list:")
                .into_iter()
                .map(|node| NodeId(node.0))
                .collect(),
            capabilities: Capabilities::of(&status),
            reachable_capabilities: Capabilities::reachable(&status),
            container: container::kind(root),
            memory_limit_bytes: limits::memory(root),
            numa_balancing: word("proc/sys/kernel/numa_balancing")
                .and_then(|word| word.parse().ok()),
            perf_event_paranoid: word("proc/sys/kernel/perf_event_paranoid")
                .and_then(|word| word.parse().ok()),
            has_btf: root.join("sys/kernel/btf/vmlinux").exists(),
            has_numa_maps: root.join("proc/self/numa_maps").exists(),
            has_fuse: filesystems
                .lines()
                .any(|line| line.trim_start_matches("nodev").trim() == "fuse"),
            allows_other: fuse_settings
                .lines()
                .any(|line| line.trim() == "user_allow_other"),
            huge_pages: huge_pages(root),
            transparent_huge_pages: text("sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| chosen(&text)),
        })
    }

    /// The machine as root described it, if that describes these nodes; else as the kernel shows it.
    pub fn known(&self) -> &Machine {
        let ids = |machine: &Machine| machine.nodes.iter().map(|node| node.id).collect::<Vec<_>>();
        let described = self.described.iter().flatten();
        let mut here = described.filter(|machine| ids(machine) == ids(&self.machine));
        here.next().unwrap_or(&self.machine)
    }

    /// Major and minor number of the kernel.
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self
            .kernel
            .as_deref()?
            .split(|letter: char| !letter.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// Nodes that have CPUs which this process may use.
    pub fn usable_nodes(&self) -> Vec<NodeId> {
        let nodes = self.machine.nodes.iter();
        let usable =
            nodes.filter(|node| node.cpus.iter().any(|cpu| self.allowed_cpus.contains(cpu)));
        usable.map(|node| node.id).collect()
    }

    /// Nodes that have CPUs.
    pub fn cpu_nodes(&self) -> Vec<NodeId> {
        let nodes = self
            .machine
            .nodes
            .iter()
            .filter(|node| !node.cpus.is_empty());
        nodes.map(|node| node.id).collect()
    }
}

fn processor(text: &str) -> Option<String> {
    let models = text.lines().filter_map(|line| line.split_once(':'));
    let mut models = models.filter(|(name, _)| name.trim() == "model name");
    models.next().map(|(_, model)| model.trim().to_owned())
}

/// The machine file that is used where none is named.
fn described(root: &Path) -> Option<Result<Machine, String>> {
    let path = root.join(CALIBRATED.trim_start_matches('/'));
    path.exists().then(|| {
        let text = read_text(&path, MAX_MACHINE_FILE_BYTES, "write it again");
        let machine = text.and_then(|text| Machine::from_toml(&text, &path));
        machine.map_err(|error| error.to_string())
    })
}

/// The first process of this name.
fn process_called(root: &Path, name: &str) -> Option<u32> {
    let processes = fs::read_dir(root.join("proc")).ok()?;
    let number = |entry: fs::DirEntry| -> Option<u32> {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let own = fs::read_to_string(entry.path().join("comm")).ok()?;
        (own.trim_end() == name).then_some(number)
    };
    processes.flatten().filter_map(number).min()
}

fn list(status: &str, key: &str) -> Vec<CpuId> {
    let text = status.lines().find_map(|line| line.strip_prefix(key));
    text.and_then(|text| parse_cpu_list(text).ok())
        .unwrap_or_default()
}

/// The word in brackets.
fn chosen(text: &str) -> Option<String> {
    let (_, behind) = text.split_once('[')?;
    let (word, _) = behind.split_once(']')?;
    Some(word.to_owned())
}

fn huge_pages(root: &Path) -> Vec<HugePages> {
    let sizes = fs::read_dir(root.join("sys/kernel/mm/hugepages"));
    let sizes = sizes.into_iter().flatten().flatten().take(16);
    let of_size = sizes.filter_map(|entry| {
        let name = entry.file_name();
        let kib = name
            .to_str()?
            .strip_prefix("hugepages-")?
            .strip_suffix("kB")?;
        let number = |file: &str| {
            let text = fs::read_to_string(entry.path().join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        Some(HugePages {
            size_bytes: kib.parse::<u64>().ok()?.checked_mul(1024)?,
            count: number("nr_hugepages")?,
            free: number("free_hugepages")?,
        })
    });
    let mut pages: Vec<HugePages> = of_size.collect();
    pages.sort_by_key(|pages| pages.size_bytes);
    pages
}
