//! Random numbers from a seed: a run repeats its choices.

/// splitmix64.
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed and stream.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed ^ stream.wrapping_mul(0xA24B_AED4_963E_E407));
        random.next();
        random
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from `0..bound`; 0 when there is nothing to choose from.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Evenly from (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Gamma distributed with shape 1.5, as filebench's file sizes are: an exponential variable
    /// plus half the square of a normal one.
    pub fn gamma(&mut self, mean: f64) -> f64 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        mean / 1.5 * (-self.unit().ln() + normal * normal / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_has_the_mean_asked_for_and_is_spread() {
        let mut random = Random::new(7, 0);
        let values: Vec<f64> = (0..40_000).map(|_| random.gamma(16_384.0)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean / 16_384.0 - 1.0).abs() < 0.02, "{mean}");
        let square = |value: &f64| (value - mean).powi(2);
        let variance = values.iter().map(square).sum::<f64>() / values.len() as f64;
        // Of a gamma variable: mean^2 / shape.
        assert!((variance / (mean * mean / 1.5) - 1.0).abs() < 0.1);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let take = |stream| {
            let mut random = Random::new(7, stream);
            (0..8).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
        assert!(take(1).iter().all(|value| *value < 1000));
    }
}
