//! Contents of the last-level cache (LLC) of each node.
//!
//! ```text
//!   LLC of a node = sets of 8 tags, one host cache line each
//!   tag           = pool + 1 : 9 │ block : 39 │ a bit for each 256 B of the block : 16
//! ```
//!
//! A block may be in any of the 8 places of one set, as hardware has it (11 ways in the CPUs of the
//! `optane-2s` profile); with a single place per block, a hot set as large as the cache would lose
//! a third of its hits to blocks that happen to share a place. When a set is full the places are reused in
//! turn. 256 bytes are what Optane reads at once, so a small read brings in no more than that.
//!
//! Tags are hints: relaxed, without a lock, and harmless when left behind by a dead process. A lost race leaves one
//! tag more or less, so one hit or miss more or less is counted.
//!
//! Known gaps: a block counts as cached from the moment its read begins; a block with few bytes read takes a whole
//! place; code and data of the program itself take none.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use egeria_machine::emulated::{LLC_GRAIN_BYTES, MAX_LLC_BYTES};

use crate::{BLOCK_BYTES, PoolIndex, PoolOffset};

const NS_PER_S: f64 = 1e9;
const WAYS: usize = 8;
const MAX_SETS: usize = (MAX_LLC_BYTES / LLC_GRAIN_BYTES) as usize;
const SECTOR_BYTES: u64 = 256;
const SECTOR_BITS: u32 = 16;
const SECTORS: u64 = (1 << SECTOR_BITS) - 1;
const BLOCK_BITS: u32 = 39;
/// Maximum number of blocks of one access to examine: more than one call can move.
const MAX_BLOCKS: usize = 1 << 19;

const _: () = assert!(LLC_GRAIN_BYTES == WAYS as u64 * BLOCK_BYTES);
const _: () = assert!(SECTOR_BYTES * SECTOR_BITS as u64 == BLOCK_BYTES);

/// The last-level cache of one node.
#[repr(C, align(64))]
pub(super) struct Cache {
    /// Sets in use, 0: the node has no cache.
    sets: AtomicU32,
    /// The place to reuse next.
    turn: AtomicU32,
    /// Machine ns, bits of `f32`.
    latency_ns: AtomicU32,
    /// Machine ns per byte, bits of `f32`.
    byte_ns: AtomicU32,
    _padding: [AtomicU64; 6],
    tags: [[AtomicU64; WAYS]; MAX_SETS],
}

/// Bytes of a block, as sectors.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// Pool + 1 and block: the tag without sectors, never 0.
    name: u64,
    /// Bytes from, within the block.
    from: u64,
    /// Bytes to, within the block.
    to: u64,
}

impl Cache {
    /// The declared size; of a cache of several parts, the size of one part, which is what a thread sees.
    pub(super) fn fill(&self, declared: Option<&egeria_machine::Cache>) {
        let Some(declared) = declared else {
            return;
        };
        let bytes = declared.bytes / u64::from(declared.parts.max(1));
        let sets = (bytes / LLC_GRAIN_BYTES).min(MAX_SETS as u64) as u32;
        let bits = |value: f64| (value as f32).to_bits();
        self.latency_ns.store(bits(declared.latency_ns), Relaxed);
        let byte_ns = NS_PER_S / declared.read_bytes_s;
        self.byte_ns.store(bits(byte_ns), Relaxed);
        self.sets.store(sets, Relaxed);
    }

    pub(super) fn exists(&self) -> bool {
        self.sets.load(Relaxed) != 0
    }

    /// Time to the first byte from here, machine ns.
    pub(super) fn latency_ns(&self) -> f64 {
        f64::from(f32::from_bits(self.latency_ns.load(Relaxed)))
    }

    /// Time of this many bytes from here after the first, machine ns.
    pub(super) fn stream_ns(&self, bytes: u64) -> f64 {
        f64::from(f32::from_bits(self.byte_ns.load(Relaxed))) * bytes as f64
    }

    pub(super) fn clear(&self) {
        for tag in self.in_use().as_flattened() {
            tag.store(0, Relaxed);
        }
    }

    fn in_use(&self) -> &[[AtomicU64; WAYS]] {
        &self.tags[..(self.sets.load(Relaxed) as usize).min(MAX_SETS)]
    }

    fn set(&self, name: u64) -> Option<&[AtomicU64; WAYS]> {
        let sets = self.in_use();
        let mixed = name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        sets.get((mixed as usize * sets.len()) >> 32)
    }

    /// Bytes of the piece that are cached; afterwards all of them are.
    pub(super) fn read(&self, piece: Piece) -> u64 {
        let Some(set) = self.set(piece.name) else {
            return 0;
        };
        let wanted = piece.sectors();
        for tag in set {
            let before = tag.load(Relaxed);
            if before >> SECTOR_BITS == piece.name {
                // If another thread reused it in the meantime, the other thread's tag stays.
                let _ = tag.compare_exchange(before, before | wanted, Relaxed, Relaxed);
                return piece.bytes_in(before);
            }
        }
        let empty = set.iter().find(|tag| tag.load(Relaxed) == 0);
        let tag = empty.unwrap_or_else(|| &set[self.turn.fetch_add(1, Relaxed) as usize % WAYS]);
        tag.store(piece.name << SECTOR_BITS | wanted, Relaxed);
        0
    }

    /// Evicts the whole block: a write to part of it may also move the rest (copy-on-write).
    pub(super) fn evict(&self, piece: Piece) {
        for tag in self.set(piece.name).into_iter().flatten() {
            let before = tag.load(Relaxed);
            if before >> SECTOR_BITS == piece.name {
                let _ = tag.compare_exchange(before, 0, Relaxed, Relaxed);
            }
        }
    }
}

impl Piece {
    /// A bit for each sector that the piece touches.
    fn sectors(self) -> u64 {
        let (first, end) = (self.from / SECTOR_BYTES, self.to.div_ceil(SECTOR_BYTES));
        (SECTORS << first) & ((1 << end) - 1)
    }

    /// Bytes of the piece in the sectors of a tag.
    fn bytes_in(self, tag: u64) -> u64 {
        let held = tag & self.sectors();
        if held == self.sectors() {
            return self.to - self.from;
        }
        let bytes = |sector: u64| {
            let begin = sector * SECTOR_BYTES;
            (begin + SECTOR_BYTES).min(self.to) - begin.max(self.from)
        };
        (0..u64::from(SECTOR_BITS))
            .filter(|sector| held >> sector & 1 != 0)
            .map(bytes)
            .sum()
    }
}

/// A range of a pool as pieces of one block each, up to the limits of tags and [`MAX_BLOCKS`].
pub(super) fn pieces(
    (pool, offset): (PoolIndex, PoolOffset),
    bytes: u64,
) -> impl Iterator<Item = Piece> {
    let from = offset.0;
    let end = from.saturating_add(bytes).min(BLOCK_BYTES << BLOCK_BITS);
    let first = from / BLOCK_BYTES;
    let after = if from < end {
        end.div_ceil(BLOCK_BYTES)
    } else {
        first
    };
    (first..after).take(MAX_BLOCKS).map(move |block| {
        let start = block * BLOCK_BYTES;
        Piece {
            name: (u64::from(pool.0) + 1) << BLOCK_BITS | block,
            from: from.max(start) - start,
            to: (end - start).min(BLOCK_BYTES),
        }
    })
}
