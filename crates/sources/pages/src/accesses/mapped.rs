//! The mappings of a process as looks know them: read some at a time, and remembered until they are read again.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use egeria_facts::{MAX_REGIONS, ProcessKey};

use super::region::{REGION_BYTES, Region};
use super::sampler::Sample;
use crate::NodeBytes;
use crate::memory::areas::Area;
use crate::memory::walk::{self, LiveWalk, Part};

/// Mappings that one look reads of a process. Of more, the next look reads the next ones.
const MAX_MAPPINGS: usize = 1 << 14;
/// Parts that are remembered of a process, each of 2 MiB at least where mappings lie together.
const MAX_PARTS: usize = 1 << 16;

/// What is known of a process.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// Where the next look goes on; `None`: at the first mapping.
    walk: Option<LiveWalk>,
    /// As the last look at each said, by address.
    parts: BTreeMap<usize, Part>,
}

impl Mapped {
    /// Reads some mappings more from `maps`, or from `smaps` for what was accessed. Returns whether another program tracks
    /// what is written in them, as far as the file says.
    ///
    /// # Errors
    /// When the process is gone or another user's.
    pub(super) fn look(&mut self, process_id: u32, file: &str) -> io::Result<bool> {
        let mut walk = match self.walk.take() {
            Some(walk) => walk,
            None => walk::begin(process_id, file)?,
        };
        let slice = walk.next(MAX_MAPPINGS)?;
        self.walk = (!slice.is_last).then_some(walk);
        let mut later = self.parts.split_off(&slice.range.start);
        // What ends later than this slice began later.
        self.parts.append(&mut later.split_off(&slice.range.end));
        let parts = slice.parts.into_iter();
        self.parts
            .extend(parts.map(|part| (part.area.range.start, part)));
        while self.parts.len() > MAX_PARTS {
            self.parts.pop_first();
        }
        Ok(slice.is_tracked)
    }

    /// By address.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.values()
    }

    /// What was accessed, the most used in proportion to its size first.
    pub(super) fn hot(&self) -> Vec<Part> {
        let accessed = self.parts().filter(|part| part.accessed_bytes > 0);
        let mut hot: Vec<Part> = accessed.cloned().collect();
        sort_by_use(&mut hot);
        hot
    }

    /// What these parts say of a process that was looked at for so long.
    pub(super) fn sample(&self, process: ProcessKey, hot: &[Part], took: Duration) -> Sample {
        let (mut accessed, mut resident) = (NodeBytes::default(), NodeBytes::default());
        let mut huge_bytes = 0_u64;
        for part in self.parts() {
            resident.add_all(&by_node(&part.area));
            huge_bytes = huge_bytes.saturating_add(part.huge_bytes);
        }
        for part in hot {
            let own = by_node(&part.area);
            accessed.add_all(&own.scaled_to(part.accessed_bytes.min(own.total())));
        }
        let small = resident.total().saturating_sub(huge_bytes) / 4096;
        Sample {
            process,
            accessed,
            resident,
            from: Vec::new(),
            unassigned: NodeBytes::default(),
            pages: small.saturating_add(huge_bytes / REGION_BYTES as u64),
            is_tracked: false,
            regions: hot.iter().take(MAX_REGIONS).map(region).collect(),
            took,
        }
    }
}

/// The most used in proportion to its size first.
pub(super) fn sort_by_use(parts: &mut [Part]) {
    parts.sort_by(|one, other| density(other).total_cmp(&density(one)));
}

fn by_node(area: &Area) -> NodeBytes {
    let mut all = NodeBytes::default();
    for (node, bytes) in &area.bytes {
        all.add(*node, *bytes);
    }
    all
}

fn density(part: &Part) -> f64 {
    let all = part.area.bytes.iter().map(|(_, bytes)| *bytes as f64);
    part.accessed_bytes as f64 / all.sum::<f64>().max(1.0)
}

/// A part as a region whose accessors are not known.
pub(super) fn region(part: &Part) -> Region {
    let resident = by_node(&part.area);
    Region {
        range: part.area.range.clone(),
        accessed_bytes: part.accessed_bytes.min(resident.total()),
        resident,
        from: Vec::new(),
        is_fixed: part.area.is_fixed(),
    }
}
