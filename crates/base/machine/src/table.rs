//! The machine as rows and columns; the caller decides how they are printed.

use crate::{
    Machine, MemoryKind, Node, RegionKind, format_bandwidth, format_bytes, format_cpu_list,
};

/// Headers and rows of text, all rows as long as the headers. A cell may have several lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    pub headers: Vec<&'static str>,
    /// One row per node.
    pub rows: Vec<Vec<String>>,
}

impl Machine {
    /// One row per node: CPUs, memory, persistent memory, bandwidths, latencies and distances.
    pub fn table(&self) -> Table {
        let headers = vec![
            "node",
            "CPUs",
            "memory",
            "free",
            "persistent memory",
            "read",
            "write",
            "distances",
        ];
        let rows = (0..self.nodes.len())
            .map(|index| self.table_row(index))
            .collect();
        Table { headers, rows }
    }

    fn table_row(&self, index: usize) -> Vec<String> {
        let node = &self.nodes[index];
        let (read, write) = self.speeds(index);
        let free = node.free_bytes.map_or_else(dash, format_bytes);
        let distances = self.distances.get(index).map_or(&[][..], Vec::as_slice);
        let distances: Vec<String> = distances.iter().map(u32::to_string).collect();
        vec![
            node.id.0.to_string(),
            self.cpus_for_people(index),
            memory(node),
            free,
            persistent_memory(node),
            read,
            write,
            distances.join(" "),
        ]
    }

    /// Real CPUs, and the virtual cores they stand for.
    pub(crate) fn cpus_for_people(&self, index: usize) -> String {
        let cpus = match &self.nodes[index].cpus[..] {
            [] => "none".to_owned(),
            cpus => format_cpu_list(cpus),
        };
        match self
            .emulated
            .as_ref()
            .and_then(|emulated| emulated.nodes.get(index))
        {
            Some(node) => format!("{} cores on CPU {cpus}", node.cores),
            None => cpus,
        }
    }

    /// Read and write bandwidth and latency, a line for each memory: declared, else what firmware says, else what
    /// a file says of memories, else a dash.
    fn speeds(&self, index: usize) -> (String, String) {
        let node = &self.nodes[index];
        let mut lines: Vec<(String, String)> = Vec::new();
        let declared = self.emulated.as_ref();
        if let Some(node) = declared.and_then(|emulated| emulated.nodes.get(index)) {
            lines.push((
                speed("", node.read_bytes_s, node.read_latency_ns),
                speed("", node.write_bytes_s, node.write_latency_ns),
            ));
        } else if let Some(class) = &node.bandwidth {
            lines.push((
                speed("", class.read_bytes_s, class.read_latency_ns),
                speed("", class.write_bytes_s, class.write_latency_ns),
            ));
        }
        lines.extend(node.hardware.memories.iter().map(|memory| {
            let kind = match memory.kind {
                MemoryKind::Dram => "DRAM ",
                MemoryKind::Persistent => "PM ",
                MemoryKind::Expander => "CXL ",
            };
            (
                speed(kind, memory.read_bytes_s, memory.read_latency_ns),
                speed(kind, memory.write_bytes_s, memory.write_latency_ns),
            )
        }));
        if lines.is_empty() {
            return (dash(), dash());
        }
        let (read, write): (Vec<String>, Vec<String>) = lines.into_iter().unzip();
        (read.join("\n"), write.join("\n"))
    }
}

/// As `PM 6.80 GB/s 305 ns`.
fn speed(kind: &str, bytes_s: f64, latency_ns: f64) -> String {
    format!("{kind}{} {latency_ns:.0} ns", format_bandwidth(bytes_s))
}

fn dash() -> String {
    "-".to_owned()
}

fn memory(node: &Node) -> String {
    match node.memory() {
        None => dash(),
        Some(0) => "none".to_owned(),
        Some(bytes) => format_bytes(bytes),
    }
}

fn persistent_memory(node: &Node) -> String {
    let describe = |region: &crate::PersistentRegion| {
        let kind = match region.kind {
            RegionKind::Nvdimm => "NVDIMM",
            RegionKind::Dax => "device DAX",
            RegionKind::Cxl => "CXL",
        };
        format!("{} {} {kind}", region.name, format_bytes(region.bytes))
    };
    let regions: Vec<String> = node.persistent_regions.iter().map(describe).collect();
    if regions.is_empty() {
        dash()
    } else {
        regions.join(", ")
    }
}
