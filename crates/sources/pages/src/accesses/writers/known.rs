//! What is known of the writers of one process's memory.

use std::collections::BTreeMap;

use egeria_facts::MAX_REGIONS;
use egeria_machine::NodeId;

use super::super::region::{self, REGION_BYTES, Region};

/// Faults that a part of 2 MiB needs to say something. A huge page has one in a look: which of several threads is
/// first then is chance.
const MIN_FAULTS: u64 = 4;
/// A fault counts as much, so that some halves of it are something.
const UNIT: u64 = 16;
/// Parts that are remembered of a process: of 128 GiB.
const MAX_PARTS: usize = 1 << 16;

/// By the begin of each part of 2 MiB, faults by node of the thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(BTreeMap<usize, Vec<(NodeId, u64)>>);

impl Known {
    /// What was found before counts three quarters.
    pub(super) fn age(&mut self) {
        self.0.retain(|_, heat| {
            heat.iter_mut()
                .for_each(|(_, weight)| *weight -= weight.div_ceil(4));
            heat.retain(|(_, weight)| *weight > 0);
            !heat.is_empty()
        });
    }

    pub(super) fn add(&mut self, page: usize, node: NodeId, weight: u64) {
        let part = page / REGION_BYTES * REGION_BYTES;
        if self.0.len() >= MAX_PARTS && !self.0.contains_key(&part) {
            return;
        }
        let weight = weight.saturating_mul(UNIT);
        let heat = self.0.entry(part).or_default();
        match heat.iter_mut().find(|(known, _)| *known == node) {
            Some((_, sum)) => *sum = sum.saturating_add(weight),
            None => heat.push((node, weight)),
        }
    }

    /// The regions, cut where it is known which nodes write a part.
    pub(super) fn refined(&self, regions: Vec<Region>) -> Vec<Region> {
        let mut refined = Vec::new();
        for region in regions {
            let mut at = region.range.start;
            let first = at / REGION_BYTES * REGION_BYTES;
            for (part, heat) in self.0.range(first..region.range.end) {
                let all = heat.iter().map(|(_, weight)| *weight);
                let all = all.fold(0, u64::saturating_add);
                let start = (*part).max(at);
                let end = part.saturating_add(REGION_BYTES).min(region.range.end);
                // A little less, because earlier looks count less.
                if all < MIN_FAULTS * UNIT / 2 + UNIT || start >= end {
                    continue;
                }
                refined.extend(cut(&region, at, start));
                refined.extend(cut(&region, start, end).map(|piece| written(piece, heat, all)));
                at = end;
            }
            refined.extend(cut(&region, at, region.range.end));
        }
        region::merged(refined, MAX_REGIONS)
    }
}

/// A piece of a region, which is as full and as much used as the others.
fn cut(region: &Region, start: usize, end: usize) -> Option<Region> {
    if start >= end {
        return None;
    }
    let share = (end - start) as f64 / region.range.len() as f64;
    let part = |bytes: u64| (bytes as f64 * share) as u64;
    Some(Region {
        range: start..end,
        resident: region.resident.scaled_to(part(region.resident.total())),
        accessed_bytes: part(region.accessed_bytes),
        from: Vec::new(),
        is_fixed: region.is_fixed,
    })
}

fn written(piece: Region, heat: &[(NodeId, u64)], all: u64) -> Region {
    let part = |weight: u64| {
        let bytes = u128::from(piece.accessed_bytes) * u128::from(weight) / u128::from(all.max(1));
        bytes as u64
    };
    let from = heat.iter().map(|(node, weight)| (*node, part(*weight)));
    Region {
        from: from.collect(),
        ..piece
    }
}
