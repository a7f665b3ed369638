//! Windows measured under one limit, and how much they differ from each other.

/// The most windows that a limit is tried for.
pub(super) const MAX_WINDOWS: u32 = 9;

/// Standard deviations per mean absolute difference of two, for normal noise: sqrt(pi) / 2.
const DEVIATION_PER_DIFFERENCE: f64 = 0.886;
/// Standard error of a median divided by that of a mean, for normal noise: sqrt(pi / 2).
const MEDIAN_ERROR: f64 = 1.253;
/// A leap from one window to the next is change, not noise: it counts for at most this share.
const LEAP: f64 = 0.3;
/// How much one more window counts in what is known of noise.
const NOISE_GAIN: f64 = 1.0 / 16.0;

/// Throughput in a window, bytes/s.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Rates {
    pub pm: f64,
    pub dram: f64,
}

/// Windows of one limit, the last [`MAX_WINDOWS`] at most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Samples {
    windows: [Rates; MAX_WINDOWS as usize],
    count: u32,
}

impl Samples {
    pub(super) fn push(&mut self, rates: Rates) {
        if self.count < MAX_WINDOWS {
            self.windows[self.count as usize] = rates;
            self.count += 1;
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn all(&self) -> &[Rates] {
        &self.windows[..self.count as usize]
    }

    /// One wild window does not move it.
    pub(super) fn median(&self) -> Rates {
        Rates {
            pm: self.median_of(|rates| rates.pm),
            dram: self.median_of(|rates| rates.dram),
        }
    }

    fn median_of(&self, part: impl Fn(&Rates) -> f64) -> f64 {
        let mut sorted = self.windows.map(|rates| part(&rates));
        let sorted = &mut sorted[..self.count as usize];
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => 0.0,
            odd if odd % 2 == 1 => sorted[odd / 2],
            even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
        }
    }
}

/// How much windows under the same limit differ: standard deviations, shares of the mean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noise {
    pub pm: f64,
    pub dram: f64,
    seen: u32,
    last: Option<Rates>,
}

impl Noise {
    /// The next window is under another limit.
    pub(super) fn cut(&mut self) {
        self.last = None;
    }

    pub(super) fn observe(&mut self, rates: Rates) {
        if let Some(last) = self.last {
            self.seen = self.seen.saturating_add(1);
            let gain = NOISE_GAIN.max(1.0 / f64::from(self.seen));
            self.pm += gain * (deviation(last.pm, rates.pm) - self.pm);
            self.dram += gain * (deviation(last.dram, rates.dram) - self.dram);
        }
        self.last = Some(rates);
    }

    /// Standard error of the difference of two medians of persistent memory, for these numbers of windows.
    pub(super) fn gain_error(&self, windows: u32, base_windows: u32) -> f64 {
        let share = |windows: u32| 1.0 / f64::from(windows.max(1));
        MEDIAN_ERROR * self.pm * (share(windows) + share(base_windows)).sqrt()
    }

    /// Standard error of a median of DRAM over this number of windows.
    pub(super) fn loss_error(&self, windows: u32) -> f64 {
        MEDIAN_ERROR * self.dram / f64::from(windows.max(1)).sqrt()
    }
}

fn deviation(one: f64, other: f64) -> f64 {
    let most = one.max(other);
    if most <= 0.0 {
        return 0.0;
    }
    ((one - other).abs() / most).min(LEAP) * DEVIATION_PER_DIFFERENCE
}
