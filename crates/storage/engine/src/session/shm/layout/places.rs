//! Where each part of the session lies in its segment.

use super::*;

/// Offsets of all parts, computed from the sizes of the pools; equal in every process.
#[derive(Clone, Debug)]
pub struct SessionLayout {
    /// Blocks and inodes of each pool; the last ones may be room for pools that are added later.
    pub sizes: Vec<(u64, u64)>,
    /// Pools that the session is made for.
    pub first_pools: usize,
    /// [`ProcessSlot`]s.
    pub processes: usize,
    /// Words of ranges of files.
    pub range_locks: usize,
    /// [`ThreadSlot`]s.
    pub threads: usize,
    /// [`CallerSlot`]s.
    pub callers: usize,
    /// [`AdmissionGate`]s: one per pool for accesses, then one per pool for its delegates.
    pub gates: usize,
    /// [`DescriptionEntry`]s.
    pub descriptions: usize,
    /// [`TreeUsage`]s.
    pub usage: usize,
    /// Bit maps of the numbers that a mount's kernel remembers: per mount, one per pool.
    pub lookup_reference_maps: [Vec<usize>; MAX_LOOKUP_MOUNTS],
    /// Bit maps of blocks, one per pool.
    pub block_maps: Vec<usize>,
    /// Bit maps of inode numbers, one per pool.
    pub inode_maps: Vec<usize>,
    /// [`SessionInode`]s, one array per pool.
    pub inodes: Vec<usize>,
    /// Bit maps of blocks that were freed during a snapshot, one per pool.
    pub held_maps: Vec<usize>,
    /// [`KeptRecord`]s, one array per pool.
    pub kept_records: Vec<usize>,
    /// Bit map of the preceding pages that have memory.
    pub backed: usize,
    /// The link of each free arena page.
    pub arena_links: usize,
    pub arena: usize,
    pub arena_pages: usize,
    /// Bytes of the segment.
    pub bytes: usize,
}

impl SessionLayout {
    /// Layout for pools of these many blocks and inodes. The last ones, behind `first_pools`, are room for pools that are added.
    pub fn new(pools: &[(u64, u64)], first_pools: usize) -> SessionLayout {
        let mut at = size_of::<SessionHeader>().next_multiple_of(BLOCK);
        let mut take = |bytes: usize| {
            let here = at;
            at = (at + bytes).next_multiple_of(BLOCK);
            here
        };
        let processes = take(PROCESS_SLOTS * size_of::<ProcessSlot>());
        let range_locks = take(RANGE_LOCKS * size_of::<AtomicU32>());
        let threads = take(THREAD_SLOTS * size_of::<ThreadSlot>());
        let callers = take(CALLER_SLOTS * size_of::<CallerSlot>());
        let gates = take(2 * pools.len() * size_of::<AdmissionGate>());
        let descriptions = take(DESCRIPTION_SLOTS * size_of::<DescriptionEntry>());
        let usage = take(MAX_TREES * size_of::<TreeUsage>());
        let lookup_reference_maps = std::array::from_fn(|_| {
            let map = |(_, inodes): &(u64, u64)| take(inodes.div_ceil(64) as usize * 8);
            pools.iter().map(map).collect()
        });
        let block_maps = pools
            .iter()
            .map(|(blocks, _)| take(blocks.div_ceil(64) as usize * 8))
            .collect();
        let inode_maps = pools
            .iter()
            .map(|(_, inodes)| take(inodes.div_ceil(64) as usize * 8))
            .collect();
        let inodes = pools
            .iter()
            .map(|(_, inodes)| take(*inodes as usize * size_of::<SessionInode>()))
            .collect();
        let held_maps = pools
            .iter()
            .map(|(blocks, _)| take(blocks.div_ceil(64) as usize * 8))
            .collect();
        let kept_records = pools
            .iter()
            .map(|(_, inodes)| take(*inodes as usize * size_of::<KeptRecord>()))
            .collect();
        let pages_before = take(0) / BLOCK;
        let backed = take(pages_before.div_ceil(64) * 8);
        let blocks_of = |pools: &[(u64, u64)]| pools.iter().map(|(blocks, _)| blocks).sum::<u64>();
        let total_blocks = blocks_of(&pools[..first_pools]);
        let added_pages = blocks_of(&pools[first_pools..]) * 8 / BLOCK as u64;
        // Sparse: a page costs memory once touched. Indexes take 8 bytes per block, directories up to 16 bytes per
        // name; the rest is room for many small trees.
        let arena_pages = (total_blocks as usize / 2).max(1 << 16) + added_pages as usize;
        let arena_links = take(arena_pages * 8);
        let arena = take(arena_pages * BLOCK);
        SessionLayout {
            sizes: pools.to_vec(),
            first_pools,
            processes,
            range_locks,
            threads,
            callers,
            gates,
            descriptions,
            usage,
            lookup_reference_maps,
            block_maps,
            inode_maps,
            inodes,
            held_maps,
            kept_records,
            backed,
            arena_links,
            arena,
            arena_pages,
            bytes: at,
        }
    }
}
