//! Quantiles.

/// The least of the sorted values that so large a share is at most; 0 of none.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count if share == 0.5 && count % 2 == 0 => {
            (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0
        }
        count => sorted[((share * count as f64).ceil() as usize).clamp(1, count) - 1],
    }
}
