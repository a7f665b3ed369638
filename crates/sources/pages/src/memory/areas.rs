//! The mappings of a process, as memory that may be moved: ranges, the size of their pages, and the nodes that their
//! owner bound them to.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;

use egeria_machine::{MAX_NODES, NodeId};
use egeria_proc::living;

/// The kernel's lines are shorter: a path of 4 KiB, each byte escaped, and numbers.
const MAX_LINE_BYTES: u64 = 1 << 16;
/// More mappings than a process can have (`vm.max_map_count` is 65,530 by default).
const MAX_AREAS: usize = 1 << 22;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    pub range: Range<usize>,
    /// Size of its pages; huge pages that the kernel makes of small ones are reported as small.
    pub page_bytes: usize,
    /// Its owner wants its pages on these nodes; `None`: anywhere.
    pub bound_to: Option<Vec<NodeId>>,
    /// What it has on each node, bytes.
    pub bytes: Vec<(NodeId, u64)>,
}

impl Area {
    /// Whether its owner lets its pages be on a node.
    pub fn allows(&self, node: NodeId) -> bool {
        let bound = self.bound_to.as_ref();
        bound.is_none_or(|nodes| nodes.contains(&node))
    }
}

/// The mappings of a process that have pages.
///
/// # Errors
/// As for [`crate::memory::process::memory`].
pub fn of(process_id: u32) -> io::Result<Vec<Area>> {
    let open = |name: &str| File::open(living::path(process_id, name));
    let facts = BufReader::with_capacity(1 << 16, open("numa_maps")?);
    let ranges = BufReader::with_capacity(1 << 16, open("maps")?);
    joined(facts, ranges)
}

/// The mappings of `numa_maps` with the ends from `maps`. A mapping in only one of them appeared or vanished in
/// between.
fn joined(facts: impl BufRead, ranges: impl BufRead) -> io::Result<Vec<Area>> {
    let mut areas = HashMap::new();
    each_line(facts, |line| {
        let area = area(line).filter(|area| !area.bytes.is_empty());
        areas.extend(area.map(|area| (area.range.start, area)));
        areas.len() < MAX_AREAS
    })?;
    let mut found = Vec::with_capacity(areas.len());
    each_line(ranges, |line| {
        if let Some((range, mut area)) =
            range(line).and_then(|range| Some((range.clone(), areas.remove(&range.start)?)))
        {
            area.range = range;
            found.push(area);
        }
        true
    })?;
    Ok(found)
}

fn each_line(mut lines: impl BufRead, mut take: impl FnMut(&str) -> bool) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut lines).take(MAX_LINE_BYTES);
        if limited.read_until(b'\n', &mut line)? == 0 || !take(&String::from_utf8_lossy(&line)) {
            return Ok(());
        }
    }
}

/// `START-END …` of a line of `maps`.
pub(crate) fn range(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    (range.start < range.end).then_some(range)
}

/// A line of `numa_maps`, without its end.
fn area(line: &str) -> Option<Area> {
    let (address, rest) = line.trim_end().split_once(' ')?;
    let start = usize::from_str_radix(address, 16).ok()?;
    let mut page_bytes = 4096_usize;
    let mut pages = Vec::new();
    for word in rest.split_ascii_whitespace() {
        if let Some(kib) = word.strip_prefix("kernelpagesize_kB=") {
            let kib = kib.parse::<usize>().ok()?;
            let is_size = (4..=1 << 24).contains(&kib) && kib.is_power_of_two();
            page_bytes = is_size.then_some(kib << 10)?;
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
        bytes: pages.into_iter().map(bytes).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_ranges_pages_and_the_owner_s_nodes() {
        let facts = "1000 default heap anon=3 N0=2 N2=1 kernelpagesize_kB=4\n\
            8000 bind:1,3-4 anon=1 N1=1 kernelpagesize_kB=4\n\
            200000 prefer (many):2 file=/a huge N0=1 kernelpagesize_kB=2048\n\
            900000 weighted interleave:0-1 N0=1 kernelpagesize_kB=4\n\
            a00000 local file=/b\n\
            b00000 interleave=static:5 N0=1 kernelpagesize_kB=4\n";
        let ranges = "1000-4000 rw-p 0 00:00 0 [heap]\n5000-6000 r--p 0 00:00 0\n8000-9000 rw-p 0 00:00 0\n\
            200000-400000 rw-p 0 00:00 0\n900000-901000 rw-p 0 00:00 0\na00000-a01000 r--p 0 00:00 0 /b\n";
        let found = joined(facts.as_bytes(), ranges.as_bytes()).unwrap();
        let bound: Vec<_> = found.iter().map(|area| area.bound_to.clone()).collect();
        let nodes = |all: &[u16]| Some(all.iter().copied().map(NodeId).collect::<Vec<_>>());
        assert_eq!(
            bound,
            [None, nodes(&[1, 3, 4]), nodes(&[2]), nodes(&[0, 1])]
        );
        assert_eq!(found[0].range, 0x1000..0x4000);
        assert_eq!(found[0].bytes, [(NodeId(0), 2 * 4096), (NodeId(2), 4096)]);
        assert_eq!(
            (found[2].page_bytes, found[2].bytes[0].1),
            (2 << 20, 2 << 20)
        );
        assert!(found[0].allows(NodeId(7)) && !found[1].allows(NodeId(2)));
    }

    #[test]
    fn lines_that_make_no_sense_are_left_out() {
        let facts = "zz default N0=1\n1000\n2000 bind:9999-1 N0=1 kernelpagesize_kB=3\n\
            3000 bind:0-65535 N0=18446744073709551615 Nx=2 kernelpagesize_kB=4\n";
        let ranges = "3000-2000 x\n3000-4000 x\n2000-3000 x\n";
        let found = joined(facts.as_bytes(), ranges.as_bytes()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].bytes, [(NodeId(0), u64::MAX)]);
        assert!(found[0].bound_to.as_ref().unwrap().len() < 2000);
    }
}
