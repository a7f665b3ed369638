//! Sizes of files, drawn as filebench draws them.

use egeria_stats::rng::Rng;

/// Gamma distributed with shape 1.5: an exponential variable plus half the square of a normal one.
pub fn gamma(rng: &mut Rng, mean: f64) -> f64 {
    let normal = (-2.0 * rng.unit().ln()).sqrt() * (std::f64::consts::TAU * rng.unit()).cos();
    mean / 1.5 * (-rng.unit().ln() + normal * normal / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_has_the_mean_asked_for_and_is_spread() {
        let mut rng = Rng::of(&[7, 0]);
        let values: Vec<f64> = (0..40_000).map(|_| gamma(&mut rng, 16_384.0)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean / 16_384.0 - 1.0).abs() < 0.02, "{mean}");
        let square = |value: &f64| (value - mean).powi(2);
        let variance = values.iter().map(square).sum::<f64>() / values.len() as f64;
        // Of a gamma variable: mean^2 / shape.
        assert!((variance / (mean * mean / 1.5) - 1.0).abs() < 0.1);
    }
}
