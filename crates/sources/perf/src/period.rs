//! How many events one sample stands for: as few as give enough samples, and no more.

/// Raised at once when there are too many samples, lowered by halves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Period {
    now: u64,
    min: u64,
    step: u64,
}

const MAX: u64 = 1 << 40;

impl Period {
    /// Never below the first one; always a multiple of `step`.
    pub(crate) fn new(first: u64, step: u64) -> Period {
        let step = step.max(1);
        let first = first.clamp(step, MAX).next_multiple_of(step);
        Period {
            now: first,
            min: first,
            step,
        }
    }

    pub(crate) fn now(self) -> u64 {
        self.now
    }

    /// After a window: whether it is another one now. `samples` are those of the busiest CPU, `wanted` are enough.
    pub(crate) fn adapt(&mut self, samples: u64, wanted: u64) -> bool {
        let wanted = wanted.max(1);
        let next = match samples {
            // Between a quarter of what is enough and that, nothing changes: a period that swings compares badly.
            _ if samples > wanted => {
                let scaled = u128::from(self.now) * u128::from(samples) / u128::from(wanted);
                u64::try_from(scaled).unwrap_or(MAX).max(self.now + 1)
            }
            _ if samples < wanted / 4 => self.now / 2,
            _ => self.now,
        };
        let next = next.clamp(self.min, MAX).next_multiple_of(self.step);
        std::mem::replace(&mut self.now, next) != next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_steady_rate_soon_gives_enough_samples_and_no_more(events in 0_u64..1 << 36, wanted in 8_u64..2000) {
            let mut period = Period::new(16, 16);
            let mut samples = 0;
            for _ in 0..64 {
                samples = events / period.now();
                period.adapt(samples, wanted);
            }
            prop_assert!(samples <= wanted);
            prop_assert!(samples >= wanted / 4 || period.now() == 16, "{samples} {period:?}");
            prop_assert!(!period.adapt(samples, wanted), "it swings");
            prop_assert_eq!(period.now() % 16, 0);
        }

        #[test]
        fn no_count_leads_outside(counts in proptest::collection::vec(any::<u64>(), 0..50), wanted: u64) {
            let mut period = Period::new(100, 16);
            for count in counts {
                period.adapt(count, wanted);
                prop_assert!((112..=MAX).contains(&period.now()));
            }
        }
    }
}
