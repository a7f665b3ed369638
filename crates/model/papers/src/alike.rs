//! When values are alike.

/// How far apart "similar" values may be (the papers do not say; their bars can be distinguished from 5 to 10 %).
pub(crate) const SIMILAR: f64 = 0.10;

/// The ratio farthest from 1; of equal ones the first.
pub(crate) fn farthest(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let distance = |ratio: f64| ratio.max(f64::MIN_POSITIVE).ln().abs();
    let farther = |one, other| {
        if distance(other) > distance(one) {
            other
        } else {
            one
        }
    };
    ratios.reduce(farther)
}
