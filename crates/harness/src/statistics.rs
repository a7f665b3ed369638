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

/// The order in which `count` subjects are measured in a round: each is first equally often, so that
/// what one leaves in the caches, and slow drifts of the machine, meet all alike.
pub fn rotated_order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| (place + round) % count)
}
