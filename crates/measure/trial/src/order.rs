//! The order of runs: rounds in which every side runs once, in a random order that a seed fixes.

use egeria_stats::rng::Rng;

/// The orders of rounds, one after the other.
#[derive(Clone, Debug)]
pub struct Orders {
    rng: Rng,
    sides: usize,
}

impl Orders {
    /// Of this number of sides.
    pub fn new(seed: u64, sides: usize) -> Orders {
        Orders {
            rng: Rng::new(seed),
            sides,
        }
    }

    /// The next round's sides, the first to run first. All orders are equally likely: what a trial claims rests on that.
    pub fn next_round(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.sides).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.rng.index(at + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn all_orders_come_equally_often_and_again_by_their_seed() {
        let rounds = |seed, sides| -> Vec<Vec<usize>> {
            let mut orders = Orders::new(seed, sides);
            (0..6000).map(|_| orders.next_round()).collect()
        };
        assert_eq!(rounds(1, 3), rounds(1, 3));
        assert_ne!(rounds(1, 3), rounds(2, 3));
        for (sides, orders) in [(2, 2), (3, 6)] {
            let mut counts = HashMap::<Vec<usize>, usize>::new();
            for order in rounds(7, sides) {
                *counts.entry(order).or_default() += 1;
            }
            assert_eq!(counts.len(), orders);
            let usual = 6000 / orders;
            assert!(
                counts
                    .values()
                    .all(|count| count.abs_diff(usual) < usual / 8)
            );
        }
    }
}
