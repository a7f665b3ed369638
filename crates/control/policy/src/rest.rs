//! Rests, each longer than the one before.

/// What brought nothing rests: twice as long after each further time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    /// Windows that are left.
    windows: u32,
    times: u32,
}

impl Rest {
    /// A window has passed.
    pub(crate) fn pass(&mut self) {
        self.windows = self.windows.saturating_sub(1);
    }

    /// Rests for the first time this number of windows, then doubled each time up to the most.
    pub(crate) fn begin(&mut self, first: u32, most: u32) {
        let factor = 1u32.checked_shl(self.times).unwrap_or(u32::MAX);
        self.windows = first.saturating_mul(factor).min(most);
        self.times = self.times.saturating_add(1);
    }

    /// Rests this number of windows for once; the next time is as long as it would have been.
    pub(crate) fn only(&mut self, windows: u32) {
        self.windows = windows;
    }

    /// Windows that are left.
    pub(crate) fn windows(&self) -> u32 {
        self.windows
    }

    /// Whether it rests no more.
    pub(crate) fn is_over(&self) -> bool {
        self.windows == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rest_is_twice_as_long_up_to_the_most() {
        let mut rest = Rest::default();
        let lengths = [0; 5].map(|_| {
            rest.begin(3, 20);
            rest.windows()
        });
        assert_eq!(lengths, [3, 6, 12, 20, 20]);
        (0..20).for_each(|_| rest.pass());
        assert!(rest.is_over());
    }
}
