//! One change of a volume: mostly a structure that is wrong in one way and sealed as if it were right.

use super::super::subject::Observations;
use super::super::values::HostileValues;
use super::layout::{Page, Record};
use super::samples::Sample;
use egeria_engine::format::*;
use egeria_media::{BlockNumber, Pool, PoolIndex, PoolOffset};
use egeria_stats::rng::Rng;
use std::sync::Arc;

/// Chance, and where it strikes.
pub(super) struct Forge<'a> {
    pub(super) rng: Rng,
    pub(super) sample: &'a Sample,
    observed: &'a mut Observations,
}

impl<'a> Forge<'a> {
    pub(super) fn new(rng: Rng, sample: &'a Sample, observed: &'a mut Observations) -> Forge<'a> {
        Forge {
            rng,
            sample,
            observed,
        }
    }

    /// Change something.
    pub(super) fn change(mut self) {
        match self.rng.below(20) {
            0..=3 => self.change_entry(),
            4 | 5 => self.change_sealed_bytes(),
            6..=8 => self.append_entries(),
            9 => self.change_commit(),
            10 => self.change_link(),
            11 => self.change_chain(),
            12 => self.change_certificate(),
            13 => self.change_pointer(),
            14 => self.change_journal(),
            15 => self.change_superblock(),
            16 => self.flood(),
            17 => self.move_block(),
            _ => self.change_bytes(),
        }
    }

    pub(super) fn line(&mut self, line: impl FnOnce() -> String) {
        self.observed.line(line);
    }

    pub(super) fn pool(&self, index: usize) -> Option<&'a Arc<Pool>> {
        self.sample.pool(index)
    }

    pub(super) fn load(&self, pool: usize, at: PoolOffset) -> u64 {
        let word = self.pool(pool).map(|pool| pool.load_u64(at));
        word.and_then(Result::ok).unwrap_or(0)
    }

    pub(super) fn store(&self, pool: usize, at: PoolOffset, value: u64) {
        self.write(pool, at, &value.to_le_bytes());
    }

    /// What lies outside is left out.
    pub(super) fn write(&self, pool: usize, at: PoolOffset, bytes: &[u8]) {
        let _ = self.pool(pool).map(|pool| pool.write_bytes(at, bytes));
    }

    pub(super) fn read<const N: usize>(&self, pool: usize, at: PoolOffset) -> [u8; N] {
        let mut bytes = [0; N];
        let _ = self.pool(pool).map(|pool| pool.read_bytes(at, &mut bytes));
        bytes
    }

    pub(super) fn any_pool(&mut self) -> usize {
        self.rng.index(self.sample.layout.geometry.len())
    }

    pub(super) fn any_page(&mut self) -> Option<Page> {
        self.rng.choose(&self.sample.layout.pages).copied()
    }

    pub(super) fn any_record(&mut self) -> Option<Record> {
        self.rng.choose(&self.sample.layout.records).copied()
    }

    /// A block that means something to the volume, or none at all.
    pub(super) fn any_block(&mut self) -> u64 {
        let pool = self.any_pool();
        let geometry = self.sample.layout.geometry[pool];
        let (data, blocks) = (geometry.data_block.0, geometry.blocks);
        match self.rng.below(10) {
            0 => self.rng.boundary_value(),
            1 => data.wrapping_add(self.rng.below(3)).wrapping_sub(1),
            2 => blocks.wrapping_add(self.rng.below(3)).wrapping_sub(1),
            3 => self.rng.below(data + 1),
            4 | 5 => self.any_page().map_or(data, |page| page.block),
            6 => self.any_record().map_or(data, |record| record.at.block().0),
            _ => data + self.rng.below(blocks - data),
        }
    }

    /// An inode that is there, one that is not, or none that can be.
    pub(super) fn any_ino(&mut self) -> u64 {
        match self.rng.below(8) {
            0 => self.rng.boundary_value(),
            1 => self.rng.below(600),
            _ => self.any_record().map_or(1, |record| record.ino),
        }
    }

    pub(super) fn any_position(&mut self) -> LogPosition {
        let line = match self.rng.below(4) {
            0 => self.rng.below(128) as u8,
            _ => 1 + self.rng.below(64) as u8,
        };
        if self.rng.one_in(2)
            && let Some(page) = self.any_page()
        {
            return page.position(line);
        }
        let pool = self.rng.below(self.sample.layout.geometry.len() as u64 + 1);
        let block = BlockNumber(self.any_block());
        LogPosition::new(PoolIndex(pool as u8), block, line)
    }

    /// A size or a place in a file.
    pub(super) fn any_length(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => self.rng.boundary_value(),
            1 => self.rng.below(12) * BLOCK as u64,
            _ => self.rng.below(60_000),
        }
    }

    pub(super) fn any_name(&mut self) -> Vec<u8> {
        let known = self.rng.choose(&self.sample.layout.names).cloned();
        match self.rng.below(8) {
            0 => vec![b'n'; self.rng.below(256) as usize],
            1 => vec![self.rng.below(256) as u8; 1 + self.rng.below(3) as usize],
            2 => [".", "..", "", "a/b", "lost+found"][self.rng.index(5)].into(),
            3 => format!("new-{}", self.rng.below(64)).into_bytes(),
            _ => known.unwrap_or_else(|| b"d".to_vec()),
        }
    }
}
