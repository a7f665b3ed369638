//! How many DIMMs there are, from the kernel's files below a root: of DRAM what firmware's table says (SMBIOS, type 17), which
//! only root may read; of persistent memory the mappings of its regions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use egeria_machine::{Machine, MemoryKind, NodeId};

use crate::figures::MeasuredMemory;

/// More devices than this are not looked at.
const MAX_DEVICES: usize = 4096;
/// So far sizes of nodes may be apart, and their DIMMs still be as many.
const SAME_SIZE: f64 = 0.1;

/// Offsets in a table entry of a memory device, bytes (SMBIOS 3.2, 7.18).
const TYPE: usize = 0x00;
const SIZE: usize = 0x0c;
const TYPE_DETAIL: usize = 0x13;
const TECHNOLOGY: usize = 0x28;
const MEMORY_DEVICE: u8 = 17;
const NON_VOLATILE: u16 = 1 << 12;
/// NVDIMM-N to Intel persistent memory.
const PERSISTENT_TECHNOLOGIES: std::ops::RangeInclusive<u8> = 4..=7;

/// DIMMs of each kind and node, where they are known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Modules {
    dram: Option<u32>,
    persistent: BTreeMap<NodeId, u32>,
}

impl Modules {
    pub(crate) fn find(root: &Path, machine: &Machine) -> Modules {
        Modules {
            dram: dram_of_each(root, machine),
            persistent: persistent(root),
        }
    }

    /// How many a memory consists of.
    pub(crate) fn of(&self, memory: &MeasuredMemory) -> Option<u32> {
        match memory.kind {
            MemoryKind::Dram => self.dram,
            MemoryKind::Persistent if memory.is_direct => {
                self.persistent.get(&memory.node).copied()
            }
            MemoryKind::Persistent | MemoryKind::Expander => None,
        }
    }
}

/// The table does not say which node a DIMM is of: nodes with CPUs that are about as large have as many.
fn dram_of_each(root: &Path, machine: &Machine) -> Option<u32> {
    let nodes = machine.nodes.iter();
    let with_dram = nodes.filter(|node| !node.cpus.is_empty() && node.memory_bytes > 0);
    let sizes: Vec<f64> = with_dram.map(|node| node.memory_bytes as f64).collect();
    let (least, most) = (sizes.iter()).fold((f64::INFINITY, 0.0_f64), |(least, most), size| {
        (least.min(*size), most.max(*size))
    });
    let nodes = sizes.len() as u32;
    let entries = fs::read_dir(root.join("sys/firmware/dmi/entries")).ok()?;
    let entries = entries.flatten().take(MAX_DEVICES);
    let raw = entries.filter_map(|entry| fs::read(entry.path().join("raw")).ok());
    let dimms = raw.filter(|raw| is_dram(raw)).count() as u32;
    let are_alike = nodes > 0 && least >= (1.0 - SAME_SIZE) * most && dimms.is_multiple_of(nodes);
    (are_alike && dimms > 0).then(|| dimms / nodes)
}

/// Whether an entry is a DIMM that is there and forgets.
fn is_dram(raw: &[u8]) -> bool {
    let word = |at: usize| {
        let bytes = raw.get(at..at + 2)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    };
    let is_kept = word(TYPE_DETAIL).is_some_and(|detail| detail & NON_VOLATILE != 0)
        || (raw.get(TECHNOLOGY)).is_some_and(|kind| PERSISTENT_TECHNOLOGIES.contains(kind));
    raw.get(TYPE) == Some(&MEMORY_DEVICE) && word(SIZE).is_some_and(|size| size != 0) && !is_kept
}

fn persistent(root: &Path) -> BTreeMap<NodeId, u32> {
    let mut modules = BTreeMap::new();
    let Ok(entries) = fs::read_dir(root.join("sys/bus/nd/devices")) else {
        return modules;
    };
    for entry in entries.flatten().take(MAX_DEVICES) {
        let number = |name: &str| {
            let text = fs::read_to_string(entry.path().join(name)).ok()?;
            text.trim().parse::<u16>().ok()
        };
        if let Some((node, mappings)) = number("numa_node").zip(number("mappings")) {
            *modules.entry(NodeId(node)).or_insert(0) += u32::from(mappings);
        }
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table entry: size in MiB, non-volatile or not, technology.
    fn entry(size: u16, is_kept: bool, technology: u8) -> Vec<u8> {
        let mut raw = vec![0; 0x54];
        raw[TYPE] = MEMORY_DEVICE;
        raw[SIZE..SIZE + 2].copy_from_slice(&size.to_le_bytes());
        raw[TYPE_DETAIL + 1] = u8::from(is_kept) << 4;
        raw[TECHNOLOGY] = technology;
        raw
    }

    fn machine(sizes: &[u64]) -> Machine {
        let node = |(id, bytes): (usize, &u64)| {
            format!("[[nodes]]\nid = {id}\nmemory_bytes = {bytes}\ncpus = \"{id}\"\n")
        };
        let nodes: String = sizes.iter().enumerate().map(node).collect();
        let text = format!("name = \"dimms\"\n{nodes}");
        Machine::from_toml(&text, "dimms.toml".as_ref()).unwrap()
    }

    fn found(table: &[Vec<u8>], machine: &Machine) -> Option<u32> {
        let root = tempfile::tempdir().unwrap();
        for (index, raw) in table.iter().enumerate() {
            let directory = root
                .path()
                .join(format!("sys/firmware/dmi/entries/17-{index}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("raw"), raw).unwrap();
        }
        Modules::find(root.path(), machine).dram
    }

    #[test]
    fn dimms_of_dram_are_shared_out_where_nodes_are_alike() {
        let two = machine(&[1 << 36, (1 << 36) - (1 << 30)]);
        let mut table = vec![entry(0x7fff, false, 3); 12];
        // Empty slots, Optane by either mark, and what is no memory device.
        table.extend([
            entry(0, false, 3),
            entry(0x7fff, false, 7),
            entry(0x7fff, true, 2),
        ]);
        table.extend([vec![16, 0], Vec::new(), vec![MEMORY_DEVICE]]);
        assert_eq!(found(&table, &two), Some(6));
        assert_eq!(found(&table, &machine(&[1 << 36, 1 << 35])), None);
        assert_eq!(found(&table[..11], &two), None);
        assert_eq!(found(&[], &two), None);
    }

    #[test]
    fn regions_say_how_many_modules_they_map() {
        let root = tempfile::tempdir().unwrap();
        for (name, node, mappings) in [
            ("region0", "0", "6"),
            ("region1", "1", "1"),
            ("region2", "1", "1"),
            ("region3", "-1", "4"),
            ("nmem0", "0", ""),
        ] {
            let directory = root.path().join("sys/bus/nd/devices").join(name);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("numa_node"), format!("{node}\n")).unwrap();
            fs::write(directory.join("mappings"), format!("{mappings}\n")).unwrap();
        }
        let modules = Modules::find(root.path(), &machine(&[1 << 30]));
        let memory = |node: u16, kind: MemoryKind, is_direct: bool| MeasuredMemory {
            node: NodeId(node),
            kind,
            path: None,
            is_direct,
            bytes: 0,
            modules: None,
        };
        let of = |node, is_direct| modules.of(&memory(node, MemoryKind::Persistent, is_direct));
        assert_eq!(
            (of(0, true), of(1, true), of(2, true)),
            (Some(6), Some(2), None)
        );
        assert_eq!(of(0, false), None, "the page cache is no such memory");
        assert_eq!(modules.of(&memory(0, MemoryKind::Dram, true)), None);
    }
}
