//! A mapping of a process, as memory that may be moved: its range, the size of its pages, and the nodes that its owner
//! bound it to.

use std::ops::Range;

use egeria_machine::{MAX_NODES, NodeId};

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    pub range: Range<usize>,
    /// Size of its pages; huge pages that the kernel makes of small ones are reported as small.
    pub page_bytes: usize,
    /// Its owner wants its pages on these nodes; `None`: anywhere.
    pub bound_to: Option<Vec<NodeId>>,
    /// Its owner spreads its pages over these nodes.
    pub is_interleaved: bool,
    /// What it has on each node, bytes.
    pub bytes: Vec<(NodeId, u64)>,
    /// The file or shared memory that it is of.
    pub file: Option<MappedFile>,
    /// Most processes that have mapped one of its pages; 1 for private memory.
    pub mappers: u32,
}

/// A file, or shared memory, as `/proc/PID/maps` names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MappedFile {
    /// Major and minor number of its device.
    pub device: (u32, u32),
    pub inode: u64,
}

impl Area {
    /// Whether its owner lets its pages be on a node.
    pub fn allows(&self, node: NodeId) -> bool {
        let bound = self.bound_to.as_ref();
        bound.is_none_or(|nodes| nodes.contains(&node))
    }

    /// Whether its owner wants its pages where they are: on one node, or spread.
    pub fn is_fixed(&self) -> bool {
        let bound = self.bound_to.as_ref();
        self.is_interleaved || bound.is_some_and(|nodes| nodes.len() < 2)
    }
}

/// `START-END …` of a line of `maps`.
pub(super) fn range(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    (range.start < range.end).then_some(range)
}

/// Of a line of `maps`: `START-END PERMISSIONS OFFSET MAJOR:MINOR INODE …`.
pub(super) fn file(line: &str) -> Option<MappedFile> {
    let mut words = line.split_ascii_whitespace().skip(3);
    let (major, minor) = words.next()?.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let inode = words.next()?.parse().ok().filter(|inode| *inode > 0)?;
    let device = (number(major)?, number(minor)?);
    Some(MappedFile { device, inode })
}

/// A line of `numa_maps`, without its end.
pub(super) fn area(line: &str) -> Option<Area> {
    let (address, rest) = line.trim_end().split_once(' ')?;
    let start = usize::from_str_radix(address, 16).ok()?;
    let mut page_bytes = 4096_usize;
    let (mut pages, mut mappers) = (Vec::new(), 1);
    for word in rest.split_ascii_whitespace() {
        if let Some(kib) = word.strip_prefix("kernelpagesize_kB=") {
            let kib = kib.parse::<usize>().ok()?;
            let is_size = (4..=1 << 24).contains(&kib) && kib.is_power_of_two();
            page_bytes = is_size.then_some(kib << 10)?;
        } else if let Some(count) = word.strip_prefix("mapmax=") {
            mappers = count.parse().ok()?;
        } else if let Some((node, count)) =
            word.strip_prefix('N').and_then(|word| word.split_once('='))
        {
            let (Ok(node), Ok(count)) = (node.parse::<u16>(), count.parse::<u64>()) else {
                continue;
            };
            pages.push((NodeId(node), count));
        }
    }
    let bytes = |(node, count): (NodeId, u64)| (node, count.saturating_mul(page_bytes as u64));
    Some(Area {
        range: start..start,
        page_bytes,
        bound_to: bound_to(rest),
        is_interleaved: is_interleaved(rest),
        bytes: pages.into_iter().map(bytes).collect(),
        file: None,
        mappers,
    })
}

/// The nodes of `bind:0-1`, `interleave=static:0,2`, `prefer (many):1` or `weighted interleave:0-3`, which a line has
/// behind its address; `None` of `default` and `local`.
fn bound_to(rest: &str) -> Option<Vec<NodeId>> {
    let mut words = rest.split_ascii_whitespace();
    let first = words.next()?;
    let policy = match (first, words.next()) {
        ("prefer" | "weighted", Some(second)) => second,
        _ => first,
    };
    let (name, list) = policy.split_once(':')?;
    // `default` and unknown policies have no list.
    let is_policy = |word: &str| name.starts_with(word);
    let known = ["bind", "interleave", "prefer", "(many)"];
    known.into_iter().any(is_policy).then(|| nodes(list))
}

/// Whether a line says `interleave…` or `weighted interleave…` behind its address.
pub(super) fn is_interleaved(rest: &str) -> bool {
    let mut words = rest.split_ascii_whitespace();
    let words = [words.next(), words.next()];
    let policy = if words[0] == Some("weighted") {
        words[1]
    } else {
        words[0]
    };
    policy.is_some_and(|policy| policy.starts_with("interleave"))
}

/// The nodes of `0-1,3`.
fn nodes(list: &str) -> Vec<NodeId> {
    let parts = list.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        // More nodes than Linux can have would only take memory.
        Some(first..=last.min(first.saturating_add(MAX_NODES as u16 * 16)))
    });
    parts.flatten().map(NodeId).collect()
}
