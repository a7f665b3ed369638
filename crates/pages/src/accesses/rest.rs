//! How long not to look again after a look.

use std::time::Duration;

/// Part of a core that looking may take.
const SHARE: f64 = 0.005;
/// After long looks less time passes than that, so that what is known is not old: but looking never takes more than this part.
const MAX_SHARE: f64 = 0.02;
const LONG: Duration = Duration::from_secs(30);

/// How long what was found lasts.
pub(super) fn after(looked: Duration) -> Duration {
    let short = looked.div_f64(SHARE).min(LONG);
    short.max(looked.div_f64(MAX_SHARE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_looks_take_half_a_percent_and_long_ones_two_at_most() {
        let after = |looked_ms| after(Duration::from_millis(looked_ms)).as_millis();
        assert_eq!((after(0), after(10), after(100)), (0, 2000, 20_000));
        // As of memory of 100 GiB.
        assert_eq!((after(300), after(1000)), (30_000, 50_000));
    }
}
