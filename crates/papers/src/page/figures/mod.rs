//! The figures of the papers that the model redraws.

mod nthread;

use super::figure::{Facts, Figure};

/// All that were run, in the papers' order.
pub(super) fn all(facts: &Facts<'_>) -> Vec<Figure> {
    nthread::figures(facts)
}
