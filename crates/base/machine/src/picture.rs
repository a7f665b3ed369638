//! The machine as a text drawing: a box per node, four to a row, with the distance on the line
//! between neighbours; then all distances, where the lines do not tell them.

use std::fmt::Write;

use crate::{
    CpuId, EmulatedNode, Hardware, Machine, Memory, MemoryKind, Node, RegionKind, Source,
    format_bandwidth, format_bytes, format_cpu_list,
};

/// No line is longer.
const MAX_COLUMNS: usize = 100;
const BOXES_IN_A_ROW: usize = 4;
const BOX_COLUMNS: usize = 22;
const INNER_COLUMNS: usize = BOX_COLUMNS - 4;
/// Between two boxes: a line, a distance of up to three digits.
const LINK_COLUMNS: usize = 4;
/// Most lines a node's CPU list, or its regions, take in a box.
const MAX_LIST_LINES: usize = 3;
/// A matrix of more nodes would not fit; each node's distances are then put into words.
const MAX_MATRIX_NODES: usize = 16;

impl Machine {
    /// A drawing of the nodes with their CPUs, memory, persistent memory, bandwidth (`R` read,
    /// `W` write) and distances. At most 100 columns wide, whatever the machine; ends with a
    /// line feed.
    pub fn picture(&self) -> String {
        let mut text = self.title();
        let indices: Vec<usize> = (0..self.nodes.len()).collect();
        for row in indices.chunks(BOXES_IN_A_ROW) {
            text.push('\n');
            self.draw_row(row, &mut text);
        }
        if !self.lines_tell_all_distances() {
            text.push('\n');
            self.draw_distances(&mut text);
        }
        self.draw_groups(&mut text);
        self.draw_links(&mut text);
        text
    }

    /// A line for each socket, where one has several nodes.
    fn draw_groups(&self, text: &mut String) {
        let groups = self.list_groups();
        if groups.len() == self.nodes.len() {
            return;
        }
        text.push_str("\ngroups\n");
        for group in groups {
            // Node numbers borrow the CPU list's format.
            let nodes: Vec<CpuId> = group.nodes.iter().map(|node| CpuId(node.0)).collect();
            let plural = if nodes.len() == 1 { "" } else { "s" };
            let nodes = format!("node{plural} {}", format_cpu_list(&nodes));
            let line = match group.socket {
                Some(socket) => format!("  socket {socket}: {nodes}"),
                None => format!("  {nodes}"),
            };
            push_line(text, &fit(&line, MAX_COLUMNS));
        }
    }

    /// One line per link, both directions on it.
    fn draw_links(&self, text: &mut String) {
        let links = &self.interconnect.links;
        if !links.is_empty() {
            text.push_str("\nlinks\n");
        }
        for link in links {
            let there = format_bandwidth(link.bytes_s);
            let back = match link.back_bytes_s {
                Some(back) if back == link.bytes_s => "both ways".to_owned(),
                Some(back) => format!("back {}", format_bandwidth(back)),
                None => "one way".to_owned(),
            };
            let line = format!("  {} to {}: {there}, {back}", link.from.0, link.to.0);
            text.push_str(&(fit(&line, MAX_COLUMNS) + "\n"));
        }
    }

    fn title(&self) -> String {
        let count = self.nodes.len();
        let plural = if count == 1 { "" } else { "s" };
        let source = match (&self.source, &self.emulated) {
            (_, Some(emulated)) if emulated.timing => {
                format!(", emulated, dilation {}", emulated.dilation)
            }
            (_, Some(_)) => ", emulated, timing off".to_owned(),
            (Source::Sysfs(_), None) => String::new(),
            (_, None) => ", described".to_owned(),
        };
        let title = format!("{}: {count} node{plural}{source}", self.name);
        fit(&title, MAX_COLUMNS) + "\n"
    }

    fn draw_row(&self, row: &[usize], text: &mut String) {
        let boxes: Vec<Vec<String>> = row.iter().map(|&index| self.box_lines(index)).collect();
        let height = boxes.iter().map(Vec::len).max().unwrap_or(0);
        let gap = " ".repeat(LINK_COLUMNS);
        let tops: Vec<String> = row.iter().map(|&index| self.top_edge(index)).collect();
        push_line(text, &tops.join(&gap));
        for line in 0..height {
            let cells: Vec<String> = boxes
                .iter()
                .map(|lines| box_cell(lines.get(line)))
                .collect();
            text.push_str(&cells[0]);
            for (pair, cell) in row.windows(2).zip(&cells[1..]) {
                // The link joins the boxes at their first line.
                let link = if line == 0 {
                    self.link(pair[0], pair[1])
                } else {
                    gap.clone()
                };
                text.push_str(&link);
                text.push_str(cell);
            }
            text.push('\n');
        }
        let bottoms = vec![format!("└{}┘", "─".repeat(BOX_COLUMNS - 2)); row.len()];
        push_line(text, &bottoms.join(&gap));
    }

    fn top_edge(&self, index: usize) -> String {
        let title = format!("┌─ node {} ", self.nodes[index].id.0);
        let rest = (BOX_COLUMNS - 1).saturating_sub(title.chars().count());
        format!("{title}{}┐", "─".repeat(rest))
    }

    /// The distance between neighbours, when it is the same both ways.
    fn link(&self, left: usize, right: usize) -> String {
        let label = match (self.distance_at(left, right), self.distance_at(right, left)) {
            (Some(there), Some(back)) if there == back => there.to_string(),
            _ => "≠".to_owned(),
        };
        let label = fit(&label, LINK_COLUMNS);
        format!("{label:─^LINK_COLUMNS$}")
    }

    fn distance_at(&self, from: usize, to: usize) -> Option<u32> {
        self.distances.get(from)?.get(to).copied()
    }

    fn box_lines(&self, index: usize) -> Vec<String> {
        let node = &self.nodes[index];
        let declared = self
            .emulated
            .as_ref()
            .and_then(|emulated| emulated.nodes.get(index));
        let mut lines = cpu_lines(node, declared);
        match node.memory() {
            None | Some(0) if declared.is_some() => {}
            None => lines.push("memory unknown".to_owned()),
            Some(0) => lines.push("no memory".to_owned()),
            Some(bytes) => lines.push(format!("memory {}", format_bytes(bytes))),
        }
        lines.extend(region_lines(node));
        if let Some(declared) = declared {
            let plural = if declared.dimms == 1 { "" } else { "s" };
            lines.push(format!("{} emulated DIMM{plural}", declared.dimms));
            lines.push(speed('R', declared.read_bytes_s, declared.read_latency_ns));
            lines.push(speed(
                'W',
                declared.write_bytes_s,
                declared.write_latency_ns,
            ));
        } else if let Some(class) = &node.bandwidth {
            lines.push(speed('R', class.read_bytes_s, class.read_latency_ns));
            lines.push(speed('W', class.write_bytes_s, class.write_latency_ns));
        }
        lines.extend(hardware_lines(&node.hardware));
        lines.iter().map(|line| fit(line, INNER_COLUMNS)).collect()
    }

    fn lines_tell_all_distances(&self) -> bool {
        match self.nodes.len() {
            1 => true,
            2 => self.distance_at(0, 1) == self.distance_at(1, 0),
            _ => false,
        }
    }

    fn draw_distances(&self, text: &mut String) {
        push_line(text, "distances (from the node of the line)");
        if self.nodes.len() <= MAX_MATRIX_NODES {
            self.draw_matrix(text);
        } else {
            (0..self.nodes.len()).for_each(|from| self.describe_distances(from, text));
        }
    }

    fn draw_matrix(&self, text: &mut String) {
        let cell = |number: String| format!("{:>5}", fit(&number, 5));
        let header: String = self
            .nodes
            .iter()
            .map(|node| cell(node.id.0.to_string()))
            .collect();
        push_line(text, &format!("  node    {header}"));
        for (node, row) in self.nodes.iter().zip(&self.distances) {
            let cells: String = row
                .iter()
                .map(|distance| cell(distance.to_string()))
                .collect();
            push_line(text, &format!("  {:<8}{cells}", node.id.0));
        }
    }

    /// As `node 3: 10 to 3; 16 to 0-2; 22 to 4-63`.
    fn describe_distances(&self, from: usize, text: &mut String) {
        let mut by_distance = std::collections::BTreeMap::<u32, Vec<CpuId>>::new();
        for (node, &distance) in self.nodes.iter().zip(&self.distances[from]) {
            // Node numbers borrow the CPU list's format.
            by_distance
                .entry(distance)
                .or_default()
                .push(CpuId(node.id.0));
        }
        let mut line = format!("  node {}:", self.nodes[from].id.0);
        for (distance, nodes) in by_distance {
            let nodes = format_cpu_list(&nodes);
            write!(line, " {distance} to {nodes};").expect("writing to a String cannot fail");
        }
        push_line(text, &fit(line.trim_end_matches(';'), MAX_COLUMNS));
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn cpu_lines(node: &Node, declared: Option<&EmulatedNode>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(declared) = declared {
        let plural = if declared.cores == 1 { "" } else { "s" };
        lines.push(format!("{} virtual core{plural}", declared.cores));
    }
    let list = format_cpu_list(&node.cpus);
    match node.cpus.len() {
        0 if declared.is_some() => {}
        0 if node.memory() == Some(0) => lines.push("no CPUs".to_owned()),
        0 => lines.push("memory only".to_owned()),
        1 => lines.push(format!("CPU {list}")),
        count => lines.extend(wrap(&format!("{count} CPUs {list}"))),
    }
    lines
}

/// One line of a box, with its sides.
fn box_cell(inside: Option<&String>) -> String {
    let inside = inside.map_or("", String::as_str);
    let padding = " ".repeat(INNER_COLUMNS.saturating_sub(inside.chars().count()));
    format!("│ {inside}{padding} │")
}

fn region_lines(node: &Node) -> Vec<String> {
    let mut lines: Vec<String> = node
        .persistent_regions
        .iter()
        .take(MAX_LIST_LINES)
        .map(|region| {
            let kind = match region.kind {
                RegionKind::Nvdimm => "PM",
                RegionKind::Dax => "DAX",
                RegionKind::Cxl => "CXL PM",
            };
            format!("{kind} {}", format_bytes(region.bytes))
        })
        .collect();
    let more = node.persistent_regions.len().saturating_sub(MAX_LIST_LINES);
    if more > 0 {
        lines.push(format!("  {more} more regions"));
    }
    lines
}

/// The cache, and three lines per memory; behind which controller, where there are several.
fn hardware_lines(hardware: &Hardware) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(cache) = &hardware.cache {
        lines.push(format!("cache {}", format_bytes(cache.bytes)));
    }
    let first = hardware.memories.first().map(|memory| memory.controller);
    let differs = |memory: &Memory| Some(memory.controller) != first;
    let several = hardware.memories.iter().any(differs);
    for memory in &hardware.memories {
        lines.push(modules(memory));
        if several {
            lines.push(format!("  controller {}", memory.controller));
        }
        lines.push(speed('R', memory.read_bytes_s, memory.read_latency_ns));
        lines.push(speed('W', memory.write_bytes_s, memory.write_latency_ns));
    }
    lines
}

/// As `3 DRAM DIMMs`.
fn modules(memory: &Memory) -> String {
    let what = match memory.kind {
        MemoryKind::Dram => "DRAM DIMM",
        MemoryKind::Persistent => "PM DIMM",
        MemoryKind::Expander => "CXL expander",
    };
    match (memory.modules, memory.kind) {
        // One is also what a file says that does not say how many.
        (1, MemoryKind::Dram) => "DRAM".to_owned(),
        (1, _) => format!("1 {what}"),
        (count, _) => format!("{count} {what}s"),
    }
}

fn speed(letter: char, bytes_s: f64, latency_ns: f64) -> String {
    format!("{letter} {} {latency_ns:.0} ns", format_bandwidth(bytes_s))
}

/// Breaks a list at its commas into lines that fit a box.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in text.split_inclusive(',') {
        let last = lines.len() - 1;
        if lines[last].chars().count() + part.chars().count() <= INNER_COLUMNS {
            lines[last].push_str(part);
        } else {
            lines.push(format!("  {part}"));
        }
    }
    if lines.len() > MAX_LIST_LINES {
        lines.truncate(MAX_LIST_LINES);
        lines.push("  …".to_owned());
    }
    lines
}

/// The text in at most `columns` columns, without control characters.
fn fit(text: &str, columns: usize) -> String {
    let shown: Vec<char> = text.chars().filter(|letter| !letter.is_control()).collect();
    if shown.len() <= columns {
        return shown.into_iter().collect();
    }
    let kept = shown[..columns - 1].iter();
    kept.collect::<String>() + "…"
}
