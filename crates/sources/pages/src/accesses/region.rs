//! Parts of a process's memory, and the nodes whose threads access them.

use std::ops::Range;

use egeria_facts::UNSHARED_SHARE;
use egeria_machine::NodeId;

use crate::NodeBytes;

/// What is taken for one part at least, so that huge pages stay whole.
pub const REGION_BYTES: usize = 2 << 20;

/// Memory that lies together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    pub range: Range<usize>,
    /// What of it lies on each node.
    pub resident: NodeBytes,
    /// What of it was accessed.
    pub accessed_bytes: u64,
    /// What threads on each node accessed; empty where that is not known.
    pub from: Vec<(NodeId, u64)>,
    /// Whether its owner bound it to one node or interleaved it.
    pub is_fixed: bool,
}

impl Region {
    /// The node whose threads alone access it, as far as known.
    pub fn accessor(&self) -> Option<NodeId> {
        let all = self.from.iter().map(|(_, bytes)| *bytes as f64);
        let all: f64 = all.sum();
        let most = self.from.iter().max_by_key(|(_, bytes)| *bytes);
        let alone = most.filter(|(_, bytes)| *bytes as f64 >= all * UNSHARED_SHARE);
        alone.filter(|_| all > 0.0).map(|(node, _)| *node)
    }

    /// How often each byte is accessed, to compare regions.
    pub fn density(&self) -> f64 {
        self.accessed_bytes as f64 / self.resident.total().max(1) as f64
    }

    /// Whether another, which begins where this one ends, is used by the same nodes.
    fn continues_in(&self, next: &Region) -> bool {
        let (own, other) = (self.accessor(), next.accessor());
        let is_alike = own == other && (own.is_some() || self.from.len() == next.from.len());
        self.range.end == next.range.start && self.is_fixed == next.is_fixed && is_alike
    }

    fn append(&mut self, next: Region) {
        self.range.end = next.range.end;
        self.resident.add_all(&next.resident);
        self.accessed_bytes = self.accessed_bytes.saturating_add(next.accessed_bytes);
        for (node, bytes) in next.from {
            match self.from.iter_mut().find(|(known, _)| *known == node) {
                Some((_, sum)) => *sum = sum.saturating_add(bytes),
                None => self.from.push((node, bytes)),
            }
        }
    }
}

/// Neighbours that the same nodes use become one; then at most `max`, the most used first.
pub(super) fn merged(mut regions: Vec<Region>, max: usize) -> Vec<Region> {
    regions.sort_by_key(|region| region.range.start);
    let mut merged: Vec<Region> = Vec::new();
    for region in regions {
        match merged.last_mut() {
            Some(last) if last.continues_in(&region) => last.append(region),
            _ => merged.push(region),
        }
    }
    merged.sort_by(|one, other| other.density().total_cmp(&one.density()));
    merged.truncate(max);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(number: usize, from: &[(u16, u64)]) -> Region {
        let mut resident = NodeBytes::default();
        resident.add(NodeId(0), REGION_BYTES as u64);
        Region {
            range: number * REGION_BYTES..(number + 1) * REGION_BYTES,
            resident,
            accessed_bytes: from.iter().map(|(_, bytes)| bytes).sum(),
            from: from
                .iter()
                .map(|(node, bytes)| (NodeId(*node), *bytes))
                .collect(),
            is_fixed: false,
        }
    }

    #[test]
    fn a_node_with_nearly_all_accesses_is_the_accessor() {
        assert_eq!(region(0, &[(1, 95), (0, 5)]).accessor(), Some(NodeId(1)));
        assert_eq!(region(0, &[(1, 75), (0, 25)]).accessor(), None);
        assert_eq!(region(0, &[]).accessor(), None);
        assert_eq!(region(0, &[(1, 0)]).accessor(), None);
    }

    #[test]
    fn neighbours_with_the_same_accessor_are_one_region() {
        let (mine, other, both) = (&[(1, 10)][..], &[(0, 70)][..], &[(0, 5), (1, 5)][..]);
        let regions = [
            region(3, other),
            region(0, mine),
            region(1, mine),
            region(2, both),
            region(5, other),
        ];
        let fixed = Region {
            is_fixed: true,
            ..region(4, other)
        };
        let parts = [regions[0].clone(), fixed];
        assert_eq!(
            merged(parts.to_vec(), 10).len(),
            2,
            "one of them does not move"
        );
        let found = merged(regions.to_vec(), 10);
        let ranges: Vec<_> = found
            .iter()
            .map(|each| {
                (
                    each.range.start / REGION_BYTES,
                    each.range.len() / REGION_BYTES,
                )
            })
            .collect();
        assert_eq!(ranges, [(3, 1), (5, 1), (0, 2), (2, 1)]);
        assert_eq!(
            (found[2].accessed_bytes, &found[2].from[..]),
            (20, &[(NodeId(1), 20)][..])
        );
        assert_eq!(merged(regions.to_vec(), 2).len(), 2, "the most used ones");
    }
}
