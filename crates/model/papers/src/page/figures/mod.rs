//! The figures of the papers that the model redraws.

mod nthread;
mod others;
mod pats;

use super::figure::{Facts, Figure};

/// All that were run, in the papers' order.
pub(super) fn all(facts: &Facts<'_>) -> Vec<Figure> {
    let mut all = nthread::figures(facts);
    all.extend(pats::figures(facts));
    all.extend(others::figures(facts));
    all
}
