//! Files of a volume, with data in pools on nodes.

use std::ops::Range;
use std::sync::Arc;

use egeria_engine::{InodeNumber, Volume};
use egeria_facts::FileKey;
use egeria_machine::{Machine, NodeId};
use egeria_media::PoolIndex;
use egeria_policy::ActionOutcome;

use crate::movable::{MovableFiles, Part, refused};

/// Blocks of one part: what one commit moves.
const PART_BLOCKS: u64 = 256;
const BLOCK_BYTES: u64 = 4096;

pub(crate) struct VolumeFiles {
    volume: Arc<Volume>,
    pools: Vec<(NodeId, Vec<PoolIndex>)>,
}

impl VolumeFiles {
    pub(crate) fn new(volume: Arc<Volume>, machine: &Machine) -> VolumeFiles {
        let count = volume.pool_nodes().len();
        let pools_on = |(position, node): (usize, &egeria_machine::Node)| {
            let there = (0..count).filter(|pool| volume.node_position(*pool) == position);
            (node.id, there.map(|pool| PoolIndex(pool as u8)).collect())
        };
        let pools = machine.nodes.iter().enumerate().map(pools_on).collect();
        VolumeFiles { volume, pools }
    }

    fn pools_on(&self, node: NodeId) -> &[PoolIndex] {
        let of_node = self.pools.iter().find(|(other, _)| *other == node);
        of_node.map_or(&[], |(_, pools)| pools)
    }
}

impl MovableFiles for VolumeFiles {
    fn part_bytes(&self) -> u64 {
        PART_BLOCKS * BLOCK_BYTES
    }

    fn check(
        &self,
        _file: FileKey,
        (from, to): (NodeId, NodeId),
        _bytes: u64,
    ) -> Result<(), ActionOutcome> {
        if self.pools_on(to).is_empty() {
            return Err(refused("the volume has no pool on that node"));
        }
        if self.pools_on(from).is_empty() {
            Err(ActionOutcome::Vanished)
        } else {
            Ok(())
        }
    }

    fn size_bytes(&self, file: FileKey) -> Option<u64> {
        let attributes = self.volume.attributes(InodeNumber(file.inode)).ok()?;
        Some(attributes.size_bytes)
    }

    fn next_part(&self, _file: FileKey, at: u64) -> u64 {
        at
    }

    fn move_part(&self, file: FileKey, range: Range<u64>, (from, to): (NodeId, NodeId)) -> Part {
        let ino = InodeNumber(file.inode);
        let (Some(target), Ok(open)) = (self.pools_on(to).first(), self.volume.open(ino, None))
        else {
            return Part {
                is_hopeless: true,
                ..Part::default()
            };
        };
        let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        let mut all = Part::default();
        for source in self.pools_on(from) {
            match self
                .volume
                .relocate(open, blocks.clone(), (*source, *target))
            {
                Ok(part) => {
                    all.moved_bytes += part.moved_bytes;
                    all.is_given_up |= part.is_given_up;
                }
                // No room, deleted, or of a kind that cannot be moved.
                Err(_) => all.is_hopeless = true,
            }
        }
        self.volume.close(ino);
        all
    }
}
