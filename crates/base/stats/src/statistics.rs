//! Figures of repeated measurements.

/// The middle value; the mean of the two middle ones of an even number; `None` of none.
///
/// Values that are no numbers are left out.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| !value.is_nan())
        .collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// How far repeated measurements lie apart: the largest less the least, as a share of their median (0.1: 10 %). `None` for
/// fewer than two, and where the median is not above 0.
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values).filter(|middle| *middle > 0.0 && values.len() > 1)?;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    Some((most - least) / middle)
}

/// Fewer measurements say nothing of how far they vary.
pub const MIN_SETTLED: usize = 3;

/// Whether repeated measurements agree: three quarters of them within `tolerance` of their median, as a share of it.
/// `None` for fewer than [`MIN_SETTLED`].
pub fn is_settled(values: &[f64], tolerance: f64) -> Option<bool> {
    let median = median(values).filter(|_| values.len() >= MIN_SETTLED)?;
    let is_near = |value: &&f64| (**value - median).abs() <= tolerance * median.abs();
    let near = values.iter().filter(is_near).count();
    Some(near * 4 >= values.len() * 3)
}

/// The order in which `count` subjects are measured in a round: each is first equally often, so that
/// what one leaves in the caches, and slow drifts of the machine, meet all alike.
pub fn rotated_order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| (place + round) % count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_settle_when_three_quarters_agree() {
        let settled = |values: &[f64]| is_settled(values, 0.1);
        assert_eq!(settled(&[1.0, 1.0]), None);
        assert_eq!(settled(&[1.0, 1.05, 0.95]), Some(true));
        assert_eq!(
            settled(&[1.0, 1.05, 1.2]),
            Some(false),
            "one of three is too many"
        );
        assert_eq!(
            settled(&[1.0, 1.05, 0.95, 5.0]),
            Some(true),
            "one of four is not"
        );
        assert_eq!(settled(&[1.0, 1.0, 1.2, 0.8, 1.0]), Some(false));
        assert_eq!(settled(&[f64::NAN; 4]), None);
    }

    #[test]
    fn a_spread_needs_two_values_above_nothing() {
        assert_eq!(spread(&[9.0, 10.0, 12.0]), Some(0.3));
        assert_eq!(spread(&[5.0, 5.0]), Some(0.0));
        assert_eq!(spread(&[5.0]), None);
        assert_eq!(spread(&[0.0, 0.0]), None);
    }
}
