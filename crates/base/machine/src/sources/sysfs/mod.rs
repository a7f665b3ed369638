//! A machine as the kernel shows it, below a replaceable root.
//!
//! What a machine cannot be without (nodes, CPU lists, distances, memory sizes) must make sense,
//! else it is an error. What is an extra (HMAT, NVDIMM, DAX and CXL devices) is left out with a
//! warning when it does not: a strange device must not take the whole machine away.

mod access;
mod persistent;
mod tree;

use std::path::{Path, PathBuf};

use crate::sources::file;
use crate::sources::input;
use crate::{
    CpuId, Hardware, Interconnect, MAX_NODES, Machine, MachineError, Node, NodeId, Source, check,
    parse_cpu_list,
};
use tree::{MAX_FILE_BYTES, Tree};

const HINT: &str = "check the machine's firmware and kernel, or describe it in a machine file";
const ROOT_HINT: &str = "in a container, mount /sys or work from the host; for another machine, give --sysfs-root the directory that contains sys and proc";

/// The machine below `root`.
pub(crate) fn read_machine(root: &Path) -> Result<Machine, MachineError> {
    let mut tree = Tree::new(root);
    let ids = tree.node_ids()?;
    let (mut nodes, distances) = if ids.is_empty() {
        (vec![tree.only_node()?], file::default_distances(1))
    } else {
        let nodes: Result<Vec<Node>, _> = ids.iter().map(|&id| tree.node(id)).collect();
        (nodes?, tree.distances(&ids)?)
    };
    persistent::attach(&mut tree, &mut nodes);
    let machine = Machine {
        interconnect: Interconnect::default(),
        name: machine_name(root),
        source: Source::Sysfs(root.into()),
        nodes,
        distances,
        emulated: None,
        warnings: tree.warnings,
    };
    check::machine(&machine).map_err(|fault| MachineError::Sysfs {
        path: root.join("sys/devices/system/node"),
        problem: format!("{}: {}", fault.key, fault.problem),
        hint: HINT,
    })?;
    Ok(machine)
}

/// The CPUs that are online below `root`, ascending.
pub(crate) fn online_cpus(root: &Path) -> Result<Vec<CpuId>, MachineError> {
    let path = root.join("sys/devices/system/cpu/online");
    let text = input::read_text(&path, MAX_FILE_BYTES, ROOT_HINT)?;
    let cpus = parse_cpu_list(&text).map_err(|problem| nonsense(&path, problem))?;
    if cpus.is_empty() {
        return Err(nonsense(&path, "no CPU is online"));
    }
    Ok(cpus)
}

fn nonsense(path: &Path, problem: impl Into<String>) -> MachineError {
    MachineError::Sysfs {
        path: path.to_owned(),
        problem: problem.into(),
        hint: HINT,
    }
}

fn machine_name(root: &Path) -> String {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name
        .chars()
        .filter(|letter| !letter.is_control())
        .take(64)
        .collect();
    if name.is_empty() {
        "this machine".to_owned()
    } else {
        name
    }
}

impl Tree<'_> {
    fn node_ids(&self) -> Result<Vec<NodeId>, MachineError> {
        let directory = self.path("sys/devices/system/node");
        let found = self.numbered(&directory, "node");
        if found.len() > MAX_NODES {
            let problem = format!("{} nodes are more than {MAX_NODES}", found.len());
            return Err(nonsense(&directory, problem));
        }
        Ok(found
            .into_iter()
            .map(|(number, _)| NodeId(number))
            .collect())
    }

    fn node_path(&self, id: NodeId, name: &str) -> PathBuf {
        self.path(&format!("sys/devices/system/node/node{}/{name}", id.0))
    }

    fn node(&mut self, id: NodeId) -> Result<Node, MachineError> {
        let path = self.node_path(id, "cpulist");
        let text = input::read_text(&path, MAX_FILE_BYTES, HINT)?;
        let cpus = parse_cpu_list(&text).map_err(|problem| nonsense(&path, problem))?;
        let (memory_bytes, free_bytes) = self.memory(&self.node_path(id, "meminfo"))?;
        let bandwidth = access::read(self, &self.node_path(id, ""));
        let persistent_regions = Vec::new();
        Ok(Node {
            id,
            socket: self.socket(&cpus),
            cpus,
            memory_bytes,
            free_bytes,
            persistent_regions,
            bandwidth,
            pool_bandwidth: None,
            hardware: Hardware::default(),
        })
    }

    /// The socket that all these CPUs are in; none where the kernel does not know, or where they are in several.
    fn socket(&mut self, cpus: &[CpuId]) -> Option<u32> {
        let (first, last) = (cpus.first()?, cpus.last()?);
        let mut package = |cpu: &CpuId| {
            let name = format!(
                "sys/devices/system/cpu/cpu{}/topology/physical_package_id",
                cpu.0
            );
            let path = self.path(&name);
            // Below 0: unknown.
            u32::try_from(self.extra_number(&path)?).ok()
        };
        package(first).filter(|socket| package(last) == Some(*socket))
    }

    /// A kernel without NUMA support: everything is one node.
    fn only_node(&mut self) -> Result<Node, MachineError> {
        let cpus = online_cpus(self.root)?;
        let (memory_bytes, free_bytes) = self.memory(&self.path("proc/meminfo"))?;
        let directory = self.path("sys/devices/system/node");
        self.warn(&directory, "no nodes; the machine is taken as one node");
        Ok(Node {
            id: NodeId(0),
            socket: None,
            cpus,
            memory_bytes,
            free_bytes,
            persistent_regions: Vec::new(),
            bandwidth: None,
            pool_bandwidth: None,
            hardware: Hardware::default(),
        })
    }

    /// Total and free bytes of a meminfo file, of a node or of the whole machine.
    fn memory(&mut self, path: &Path) -> Result<(u64, Option<u64>), MachineError> {
        if !path.exists() {
            self.warn(path, "not there; the size of the memory is unknown");
            return Ok((0, None));
        }
        let text = input::read_text(path, MAX_FILE_BYTES, HINT)?;
        let bytes_of = |key: &str| meminfo_bytes(&text, key);
        let total = bytes_of("MemTotal:").map_err(|problem| nonsense(path, problem))?;
        let free = bytes_of("MemFree:").map_err(|problem| nonsense(path, problem))?;
        let total = total.ok_or_else(|| nonsense(path, "there is no MemTotal line"))?;
        let none = (total == 0).then_some(0);
        Ok((total, free.or(none)))
    }

    /// All nodes' rows; the usual 10 and 20 when the kernel shows none.
    fn distances(&mut self, ids: &[NodeId]) -> Result<Vec<Vec<u32>>, MachineError> {
        let mut matrix = Vec::with_capacity(ids.len());
        for &id in ids {
            let path = self.node_path(id, "distance");
            if !path.exists() {
                self.warn(&path, "not there; distances are taken as 10 and 20");
                return Ok(file::default_distances(ids.len()));
            }
            let text = input::read_text(&path, MAX_FILE_BYTES, HINT)?;
            matrix.push(distance_row(&text).map_err(|problem| nonsense(&path, problem))?);
            let row = &matrix[matrix.len() - 1];
            if row.len() != ids.len() {
                let problem = format!("{} distances for {} nodes", row.len(), ids.len());
                return Err(nonsense(&path, problem));
            }
        }
        check::distances(ids.len(), &matrix).map_err(|fault| {
            let directory = self.path("sys/devices/system/node");
            nonsense(&directory, format!("{}: {}", fault.key, fault.problem))
        })?;
        Ok(matrix)
    }
}

/// The value of a line such as `Node 0 MemTotal: 5204180 kB`, in bytes; none without the line.
fn meminfo_bytes(text: &str, key: &str) -> Result<Option<u64>, String> {
    for line in text.lines() {
        let mut words = line.split_whitespace().skip_while(|&word| word != key);
        if words.next().is_none() {
            continue;
        }
        let bytes = match (words.next().map(str::parse::<u64>), words.next()) {
            (Some(Ok(kib)), Some("kB")) => kib.checked_mul(1024),
            _ => None,
        };
        return match bytes {
            Some(bytes) if bytes <= check::values::MAX_BYTES => Ok(Some(bytes)),
            _ => Err(format!("the value of {key} is not a size in kB")),
        };
    }
    Ok(None)
}

fn distance_row(text: &str) -> Result<Vec<u32>, String> {
    let number = |word: &str| {
        let shown: String = word.chars().take(20).collect();
        word.parse()
            .map_err(|_| format!("{shown:?} is not a distance"))
    };
    text.split_whitespace().map(number).collect()
}
