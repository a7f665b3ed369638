//! Numbers that code is likely to have trouble with.

use egeria_stats::rng::Rng;

/// More to draw from a generator, for inputs that are forged.
pub(super) trait HostileValues {
    /// Mostly ends of ranges and their neighbours.
    fn boundary_value(&mut self) -> u64;

    /// Near `value`: one bit, a little more or less, shifted, or a boundary value.
    fn near_value(&mut self, value: u64) -> u64;
}

impl HostileValues for Rng {
    fn boundary_value(&mut self) -> u64 {
        const WIDTHS: [u32; 14] = [7, 8, 12, 16, 20, 31, 32, 40, 44, 47, 51, 52, 56, 63];
        match self.below(8) {
            0 => self.below(4),
            1 => u64::MAX - self.below(4),
            2 | 3 => {
                let edge = 1u64 << WIDTHS[self.index(WIDTHS.len())];
                edge.wrapping_add(self.below(3)).wrapping_sub(1)
            }
            4 => 1 << self.below(64),
            5 => self.below(256),
            6 => self.below(1 << 16),
            _ => self.next_u64(),
        }
    }

    fn near_value(&mut self, value: u64) -> u64 {
        match self.below(5) {
            0 => value ^ (1 << self.below(64)),
            1 => value.wrapping_add(1 + self.below(8)),
            2 => value.wrapping_sub(1 + self.below(8)),
            3 => value.rotate_left(1 + self.below(63) as u32),
            _ => self.boundary_value(),
        }
    }
}
