//! Crash images as pool files, whole or with a part of what recovery stored.

use egeria_fs::format::*;
use egeria_media::recorder::{CrashImage, CrashState};
use egeria_media::{CACHE_LINE_BYTES, PoolIndex, PoolOffset};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Size of a pool, and its chunks that are not all zeros.
type SparsePool = (u64, Vec<(u64, Vec<u8>)>);

/// The blocks of a crash image that are not all zeros, when nothing of what is pending arrived.
pub struct PointBase {
    pools: Vec<SparsePool>,
}

impl PointBase {
    pub fn of(image: &CrashImage, pools: usize) -> PointBase {
        let blocks_of = |index: usize| {
            let pool = image.pool(PoolIndex(index as u8)).expect("pool");
            let mut blocks = Vec::new();
            let mut bytes = vec![0; 64 << 10];
            let zeros = bytes.clone();
            for at in (0..pool.bytes()).step_by(bytes.len()) {
                pool.read_bytes(PoolOffset(at), &mut bytes)
                    .expect("read image");
                if bytes != zeros {
                    blocks.push((at, bytes.clone()));
                }
            }
            (pool.bytes(), blocks)
        };
        PointBase {
            pools: (0..pools).map(blocks_of).collect(),
        }
    }

    /// Write an image of this point to files: the base, and the lines that may differ from it.
    pub fn write(
        &self,
        image: &CrashImage,
        state: &CrashState<'_>,
        names: &[PathBuf],
        directory: &Path,
    ) -> Vec<PathBuf> {
        let pending = state.pending();
        let write_pool = |(index, name): (usize, &PathBuf)| {
            let path = directory.join(name.file_name().expect("a name"));
            let file = File::create_new(&path).expect("create");
            file.set_len(self.pools[index].0).expect("size");
            for (at, bytes) in &self.pools[index].1 {
                file.write_all_at(bytes, *at).expect("write");
            }
            let pool = PoolIndex(index as u8);
            for line in pending.iter().filter(|line| line.pool == pool) {
                let mut bytes = [0; CACHE_LINE_BYTES as usize];
                image
                    .pool(pool)
                    .expect("pool")
                    .read_bytes(line.at, &mut bytes)
                    .expect("read image");
                file.write_all_at(&bytes, line.at.0).expect("write");
            }
            path
        };
        names.iter().enumerate().map(write_pool).collect()
    }
}

/// A word that recovery stores.
pub struct StoredWord {
    pool: usize,
    at: usize,
    value: [u8; 8],
}

impl StoredWord {
    pub fn apply(&self, pools: &mut [Vec<u8>]) {
        pools[self.pool][self.at..self.at + 8].copy_from_slice(&self.value);
    }
}

/// Words that differ on media now, session line left out.
pub fn changed_words(before: &[Vec<u8>], pools: &[PathBuf]) -> Vec<StoredWord> {
    let mut changed = Vec::new();
    let line = SESSION_LINE_BLOCK.offset().0 as usize;
    for (index, (before, pool)) in before.iter().zip(pools).enumerate() {
        let after = std::fs::read(pool).expect("read");
        let words = before
            .chunks_exact(8)
            .zip(after.chunks_exact(8))
            .enumerate();
        for (word, (_, after)) in words.filter(|(_, (before, after))| before != after) {
            if index > 0 || !(line..line + 64).contains(&(word * 8)) {
                let value = after.try_into().expect("a word");
                changed.push(StoredWord {
                    pool: index,
                    at: word * 8,
                    value,
                });
            }
        }
    }
    changed
}

/// Committed journals of pool 0: slot and words.
pub fn journal_of(pool: &[u8]) -> Vec<(u64, Vec<JournalPair>)> {
    let word = |at: usize| u64::from_le_bytes(pool[at..at + 8].try_into().expect("a word"));
    (0..JOURNAL_SLOTS)
        .filter_map(|slot| {
            let at = journal_slot(slot).0 as usize;
            let count = journal_pair_count(word(at))?;
            let pairs = decode_journal_pairs(slot, word(at), &pool[at + 16..at + 16 + count * 16])?;
            Some((slot, pairs))
        })
        .collect()
}

/// What the journals say in part: round 0 all, 1 all and the journals gone, then some.
pub fn apply_part(journal: &[(u64, Vec<JournalPair>)], round: usize, pools: &mut [Vec<u8>]) {
    for (slot, pairs) in journal {
        for (number, pair) in pairs.iter().enumerate() {
            if round < 2 || (round - 1) >> number & 1 == 1 {
                let (pool, at) = (pair.pool.0 as usize, pair.at.0 as usize);
                StoredWord {
                    pool,
                    at,
                    value: pair.value.to_le_bytes(),
                }
                .apply(pools);
            }
        }
        if round == 1 {
            let at = journal_slot(*slot).0 as usize;
            StoredWord {
                pool: 0,
                at,
                value: [0; 8],
            }
            .apply(pools);
        }
    }
}
