//! Random damage to pool images, mostly where something is.

use egeria_stats::rng::Rng;

/// Random numbers, some of them nasty.
pub struct Random(Rng);

impl Random {
    pub fn of(seed: u64) -> Random {
        Random(Rng::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0.index(bound)
    }

    /// A number as damage makes them: small, huge, near a power of two, anything.
    pub fn nasty(&mut self) -> u64 {
        match self.below(6) {
            0 => self.below(3) as u64,
            1 => u64::MAX - self.below(3) as u64,
            2 => (1u64 << self.below(64))
                .wrapping_add(self.below(3) as u64)
                .wrapping_sub(1),
            3 => i64::MAX as u64,
            4 => self.below(5000) as u64,
            _ => self.next(),
        }
    }
}

const BLOCK: usize = 4096;

/// A block of the pool, preferably one that is not all zeros.
pub fn used_block(random: &mut Random, pool: &[u8]) -> usize {
    for _ in 0..2000 {
        let block = random.below(pool.len() / BLOCK);
        if pool[block * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0) {
            return block * BLOCK;
        }
    }
    0
}

fn used_line(random: &mut Random, pool: &[u8]) -> usize {
    let block = used_block(random, pool);
    for _ in 0..200 {
        let line = block + random.below(64) * 64;
        if pool[line..line + 64].iter().any(|byte| *byte != 0) {
            return line;
        }
    }
    block
}

/// One piece of damage somewhere.
pub fn damage(random: &mut Random, pools: &mut [Vec<u8>]) {
    let index = random.below(pools.len());
    let pool = &mut pools[index];
    let line = used_line(random, pool);
    let word = line + random.below(8) * 8;
    match random.below(9) {
        0 | 1 => pool[line + random.below(64)] ^= 1 << random.below(8),
        2 => pool[line + random.below(64)] = random.next() as u8,
        3 => {
            let value = random.nasty();
            pool[word..word + 8].copy_from_slice(&value.to_le_bytes());
        }
        4 => pool[line..line + 64].fill(0),
        5 => {
            let from = used_line(random, pool);
            pool.copy_within(from..from + 64, line);
        }
        6 => {
            let (block, from) = (line / BLOCK * BLOCK, used_block(random, pool));
            pool.copy_within(from..from + BLOCK, block);
        }
        7 => pool[line / BLOCK * BLOCK..][..BLOCK].fill(random.next() as u8),
        _ => {
            let block = line / BLOCK * BLOCK;
            for at in (block..block + BLOCK).step_by(8) {
                let value = random.next();
                pool[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}
