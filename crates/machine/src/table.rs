//! The machine as rows and columns; who prints them decides how.

use crate::{Machine, Node, RegionKind, format_bandwidth, format_bytes, format_cpu_list};

/// Headers and rows of text, all rows as long as the headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Column titles.
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

    /// Read and write bandwidth and latency: declared, else what firmware says, else a dash.
    fn speeds(&self, index: usize) -> (String, String) {
        let speed =
            |bytes_s, latency_ns: f64| format!("{} {latency_ns:.0} ns", format_bandwidth(bytes_s));
        let declared = self
            .emulated
            .as_ref()
            .and_then(|emulated| emulated.nodes.get(index));
        if let Some(node) = declared {
            return (
                speed(node.read_bytes_s, node.read_latency_ns),
                speed(node.write_bytes_s, node.write_latency_ns),
            );
        }
        match &self.nodes[index].bandwidth {
            Some(class) => (
                speed(class.read_bytes_s, class.read_latency_ns),
                speed(class.write_bytes_s, class.write_latency_ns),
            ),
            None => (dash(), dash()),
        }
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn memory(node: &Node) -> String {
    if node.memory_bytes == 0 {
        dash()
    } else {
        format_bytes(node.memory_bytes)
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
