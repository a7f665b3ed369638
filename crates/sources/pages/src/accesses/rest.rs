//! How long not to look again after a look.

use std::time::Duration;

/// Part of a core that looking may take, at memory and at threads.
const SHARE: f64 = 0.0045;
/// What looks at memory have of that, however much is spent on threads.
const MIN_SHARE: f64 = SHARE / 5.0;
/// After long looks less time passes than that, so that what is known is not old: but looking never takes more than
/// this part.
const MAX_SHARE: f64 = 0.02;
pub(super) const LONG: Duration = Duration::from_secs(30);

/// How long what was found by a look that took so much CPU time lasts, where this part of a core is spent on other
/// looks.
pub(super) fn after(looked: Duration, others: f64) -> Duration {
    let share = (SHARE - others).max(MIN_SHARE);
    let short = looked.div_f64(share).min(LONG);
    short.max(looked.div_f64(MAX_SHARE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_looks_share_half_a_percent_long_ones_take_two() {
        let after = |looked_ms, others| after(Duration::from_millis(looked_ms), others).as_millis();
        assert_eq!(
            (after(0, 0.0), after(9, 0.0), after(90, 0.0)),
            (0, 2000, 20_000)
        );
        assert_eq!((after(9, 0.0015), after(9, 0.5)), (3000, 10_000));
        // As of memory of 100 GiB.
        assert_eq!((after(300, 0.0), after(1000, 0.002)), (30_000, 50_000));
    }
}
