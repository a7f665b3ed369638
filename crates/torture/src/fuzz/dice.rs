//! Chance that can be thrown again: everything random of a case follows from its numbers.

/// A sequence of numbers (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(super) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound.max(1)
    }

    /// A place in something of this length.
    pub(super) fn place(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True once in so many times.
    pub(super) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these; `None` of nothing.
    pub(super) fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.place(all.len()))
    }

    /// A number that code is likely to have trouble with: ends of ranges and their neighbours.
    pub(super) fn nasty(&mut self) -> u64 {
        const WIDTHS: [u32; 14] = [7, 8, 12, 16, 20, 31, 32, 40, 44, 47, 51, 52, 56, 63];
        match self.below(8) {
            0 => self.below(4),
            1 => u64::MAX - self.below(4),
            2 | 3 => {
                let edge = 1u64 << WIDTHS[self.place(WIDTHS.len())];
                edge.wrapping_add(self.below(3)).wrapping_sub(1)
            }
            4 => 1 << self.below(64),
            5 => self.below(256),
            6 => self.below(1 << 16),
            _ => self.word(),
        }
    }

    /// Near `value`: one bit, a little more or less, twice or half, or nasty.
    pub(super) fn near(&mut self, value: u64) -> u64 {
        match self.below(5) {
            0 => value ^ (1 << self.below(64)),
            1 => value.wrapping_add(1 + self.below(8)),
            2 => value.wrapping_sub(1 + self.below(8)),
            3 => value.rotate_left(1 + self.below(63) as u32),
            _ => self.nasty(),
        }
    }
}

/// A number spread over all bits.
pub(super) fn mix(number: u64) -> u64 {
    let mut word = number;
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// One number of several.
pub(super) fn mix_all(numbers: &[u64]) -> u64 {
    let step = |sum: u64, number: &u64| mix(sum.wrapping_mul(31).wrapping_add(*number));
    numbers.iter().fold(0, step)
}
