//! What the CPU allocates of memory bandwidth (MBA), as the kernel's resctrl shows it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::{CpuId, Machine, NodeId, read_text};

/// Where resctrl is mounted, below the root.
pub const RESCTRL: &str = "sys/fs/resctrl";
/// Files of resctrl are shorter.
const MAX_BYTES: u64 = 1 << 20;
/// The largest value without a bound that the kernel shows.
const MAX_VALUE: u64 = 1 << 32;

/// What the numbers of a schemata line say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BandwidthUnit {
    /// Of what the CPUs of a domain can move. The CPU delays requests, so it is not exact.
    Percent,
    /// MiB/s that the kernel measures and bounds (mounted with `mba_MBps`).
    MebibytesPerSecond,
    /// Eighths of GB/s (AMD).
    EighthsOfGigabytes,
}

/// The CPUs behind one last-level cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BandwidthDomain {
    /// The number of the cache.
    pub cache: u32,
    /// The nodes of these CPUs, ascending: several where nodes share a cache.
    pub nodes: Vec<NodeId>,
}

/// Allocation of memory bandwidth on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BandwidthAllocation {
    pub unit: BandwidthUnit,
    /// The least that a group can have, in that unit.
    pub min: u64,
    /// Values are multiples of this.
    pub step: u64,
    /// Groups that the CPU can have, the default one included.
    pub groups: u32,
    /// Whether the delay grows in proportion to the value.
    pub is_linear: bool,
    /// Whether the bound is of each thread, and not the smallest of the threads that share a core.
    pub is_per_thread: bool,
    /// Ascending by cache.
    pub domains: Vec<BandwidthDomain>,
}

/// Why bandwidth cannot be allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoAllocation {
    /// The kernel or the CPU has no resctrl.
    NoResctrl,
    NotMounted,
    /// The CPU allocates other things only.
    NoBandwidth,
    /// A file says something that is not understood.
    Unknown {
        /// The file, below the root.
        file: String,
    },
}

impl NoAllocation {
    /// The command that makes it work, if there is one.
    pub fn fix(&self) -> Option<&'static str> {
        let is_idle = *self == NoAllocation::NotMounted;
        is_idle.then_some("mount -t resctrl resctrl /sys/fs/resctrl")
    }
}

impl fmt::Display for NoAllocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAllocation::NoResctrl => formatter
                .write_str("the kernel has no resctrl, or the CPU can allocate no bandwidth"),
            NoAllocation::NotMounted => formatter.write_str("resctrl is not mounted"),
            NoAllocation::NoBandwidth => {
                formatter.write_str("the CPU has no bandwidth allocation (MBA)")
            }
            NoAllocation::Unknown { file } => {
                write!(formatter, "/{file} says what Egeria does not understand")
            }
        }
    }
}

impl BandwidthAllocation {
    /// What resctrl shows below this root.
    ///
    /// # Errors
    /// Why bandwidth cannot be allocated.
    pub fn read(root: &Path, machine: &Machine) -> Result<BandwidthAllocation, NoAllocation> {
        let text = |path: &str| read(&root.join(path));
        let unknown = |file: &str| NoAllocation::Unknown {
            file: file.to_owned(),
        };
        if !root.join(RESCTRL).exists() {
            return Err(NoAllocation::NoResctrl);
        }
        let file = format!("{RESCTRL}/schemata");
        let schemata = text(&file).ok_or(NoAllocation::NotMounted)?;
        let number = |name: &str| {
            let path = format!("{RESCTRL}/info/MB/{name}");
            let value = text(&path).and_then(|text| text.trim().parse::<u64>().ok());
            value
                .filter(|value| *value < MAX_VALUE)
                .ok_or_else(|| unknown(&path))
        };
        if !root.join(RESCTRL).join("info/MB").exists() {
            return Err(NoAllocation::NoBandwidth);
        }
        let values = bandwidths(&schemata).ok_or_else(|| unknown(&file))?;
        let domains = values.iter().map(|(cache, _)| BandwidthDomain {
            cache: *cache,
            nodes: nodes_of_cache(machine, &root.join(CPUS), *cache),
        });
        let mode = text(&format!("{RESCTRL}/info/MB/thread_throttle_mode"));
        Ok(BandwidthAllocation {
            unit: unit(
                &text("proc/mounts").unwrap_or_default(),
                &text("proc/cpuinfo").unwrap_or_default(),
            ),
            min: number("min_bandwidth")?,
            step: number("bandwidth_gran")?.max(1),
            groups: u32::try_from(number("num_closids")?).unwrap_or(u32::MAX),
            is_linear: number("delay_linear").unwrap_or(1) == 1,
            is_per_thread: mode.is_some_and(|mode| mode.trim() == "per-thread"),
            domains: domains.collect(),
        })
    }

    /// A value for a share of the bandwidth of a domain, which is this number of bytes/s: rounded up, so that no more is
    /// bounded than is wanted.
    pub fn value(&self, share: f64, bytes_s: f64) -> u64 {
        let exact = match self.unit {
            BandwidthUnit::Percent => share * 100.0,
            BandwidthUnit::MebibytesPerSecond => bytes_s / f64::from(1 << 20),
            BandwidthUnit::EighthsOfGigabytes => bytes_s / (1e9 / 8.0),
        };
        // The cast keeps to the range of the type. What rounding in binary adds is no further step.
        let steps = (exact / self.step as f64 - 1e-9).ceil().max(0.0) as u64;
        let value = steps.saturating_mul(self.step).max(self.min).max(1);
        match self.unit {
            BandwidthUnit::Percent => value.min(100),
            _ => value.min(MAX_VALUE),
        }
    }
}

/// The directory of the CPUs, below the root.
const CPUS: &str = "sys/devices/system/cpu";

/// The nodes of the CPUs that share this last-level cache, ascending. `cpus` is the kernel's directory of CPUs.
pub fn nodes_of_cache(machine: &Machine, cpus: &Path, cache: u32) -> Vec<NodeId> {
    let is_behind = |cpu: &CpuId| {
        let path = cpus.join(format!("cpu{}/cache/index3/id", cpu.0));
        read(&path).and_then(|id| id.trim().parse::<u32>().ok()) == Some(cache)
    };
    let nodes = machine.nodes.iter();
    let nodes = nodes.filter(|node| node.cpus.iter().any(is_behind));
    let nodes: BTreeSet<NodeId> = nodes.map(|node| node.id).collect();
    nodes.into_iter().collect()
}

/// The bandwidths of a schemata file, by cache: its line `MB:0=100;1=50`. `None` without such a line, or if it is none.
pub fn bandwidths(schemata: &str) -> Option<Vec<(u32, u64)>> {
    let mut lines = schemata.lines();
    let line = lines.find_map(|line| line.trim().strip_prefix("MB:"))?;
    let mut values = Vec::new();
    for part in line.split(';') {
        let (cache, value) = part.split_once('=')?;
        let value = value.trim().parse::<u64>().ok()?;
        values.push((
            cache.trim().parse().ok()?,
            Some(value).filter(|value| *value <= MAX_VALUE)?,
        ));
    }
    values.sort_unstable();
    let are_once = values.windows(2).all(|pair| pair[0].0 != pair[1].0);
    (are_once && !values.is_empty()).then_some(values)
}

fn read(path: &Path) -> Option<String> {
    read_text(path, MAX_BYTES, "mount resctrl again").ok()
}

fn unit(mounts: &str, cpus: &str) -> BandwidthUnit {
    let is_measured = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let (kind, options) = (words.next(), words.next().unwrap_or_default());
        kind == Some("resctrl") && options.split(',').any(|option| option == "mba_MBps")
    };
    if mounts.lines().any(is_measured) {
        BandwidthUnit::MebibytesPerSecond
    } else if cpus.contains("AuthenticAMD") || cpus.contains("HygonGenuine") {
        BandwidthUnit::EighthsOfGigabytes
    } else {
        BandwidthUnit::Percent
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Two nodes of one CPU each behind the caches 7 and 9, without resctrl.
    fn machine() -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        let mut machine = Machine::profile("optane-2s").unwrap();
        for (node, cache) in [(0, 7), (1, 9)] {
            machine.nodes[node].cpus = vec![CpuId(node as u16)];
            let path = format!("sys/devices/system/cpu/cpu{node}/cache/index3/id");
            file(root.path(), &path, &format!("{cache}\n"));
        }
        (root, machine)
    }

    fn file(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_is_missing_is_said() {
        let (root, machine) = machine();
        let why = || BandwidthAllocation::read(root.path(), &machine).unwrap_err();
        assert_eq!(why(), NoAllocation::NoResctrl);
        fs::create_dir_all(root.path().join(RESCTRL)).unwrap();
        assert_eq!(why(), NoAllocation::NotMounted);
        assert!(why().fix().is_some());
        file(root.path(), "sys/fs/resctrl/schemata", "    L3:7=ff;9=ff\n");
        assert_eq!(why(), NoAllocation::NoBandwidth);
        for name in ["min_bandwidth", "bandwidth_gran", "num_closids"] {
            file(
                root.path(),
                &format!("sys/fs/resctrl/info/MB/{name}"),
                "10\n",
            );
        }
        assert!(
            why().to_string().contains("sys/fs/resctrl/schemata"),
            "{}",
            why()
        );
        file(
            root.path(),
            "sys/fs/resctrl/schemata",
            "    MB:7=100;9=100\n",
        );
        file(root.path(), "sys/fs/resctrl/info/MB/bandwidth_gran", "many");
        assert!(why().to_string().contains("bandwidth_gran"), "{}", why());
    }

    #[test]
    fn domains_are_of_the_nodes_behind_their_cache() {
        let (root, machine) = machine();
        let schemata = "    L3:7=7ff;9=7ff\n    MB:9= 100;7=50\n";
        file(root.path(), "sys/fs/resctrl/schemata", schemata);
        for (name, text) in [
            ("min_bandwidth", "10"),
            ("bandwidth_gran", "10"),
            ("num_closids", "8"),
            ("delay_linear", "1"),
            ("thread_throttle_mode", "per-thread"),
        ] {
            file(root.path(), &format!("sys/fs/resctrl/info/MB/{name}"), text);
        }
        let found = BandwidthAllocation::read(root.path(), &machine).unwrap();
        let domain = |cache, node| BandwidthDomain {
            cache,
            nodes: vec![NodeId(node)],
        };
        let expected = BandwidthAllocation {
            unit: BandwidthUnit::Percent,
            min: 10,
            step: 10,
            groups: 8,
            is_linear: true,
            is_per_thread: true,
            domains: vec![domain(7, 0), domain(9, 1)],
        };
        assert_eq!(found, expected);
        for (share, value) in [(0.41, 50), (0.5, 50), (0.01, 10), (0.99, 100), (7.0, 100)] {
            assert_eq!(found.value(share, 1e9), value, "{share}");
        }
        let mounts = "resctrl /sys/fs/resctrl resctrl rw,relatime,mba_MBps 0 0\n";
        file(root.path(), "proc/mounts", mounts);
        let found = BandwidthAllocation::read(root.path(), &machine).unwrap();
        assert_eq!(found.unit, BandwidthUnit::MebibytesPerSecond);
        assert_eq!(found.value(0.5, 5e9), 4770);
        file(root.path(), "proc/mounts", "");
        file(root.path(), "proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
        let found = BandwidthAllocation::read(root.path(), &machine).unwrap();
        assert_eq!(found.unit, BandwidthUnit::EighthsOfGigabytes);
        assert_eq!(found.value(0.5, 5e9), 40);
    }

    #[test]
    fn bandwidths_are_one_number_for_each_cache() {
        let good = "    L3:0=ff\n    MB:1=  40;0=100\n";
        assert_eq!(bandwidths(good), Some(vec![(0, 100), (1, 40)]));
        for bad in [
            "",
            "L3:0=ff",
            "MB:",
            "MB:0",
            "MB:0=x",
            "MB:x=1",
            "MB:0=1;",
            "MB:0=1;0=2",
            "MB:0=-1",
            "MB:0=99999999999999999999",
        ] {
            assert_eq!(bandwidths(bad), None, "{bad:?}");
        }
    }
}
