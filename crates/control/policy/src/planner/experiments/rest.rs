//! A rest after what brought too little.

/// Twice as long after each further time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    /// Windows of rest that are left.
    windows: u32,
    times: u32,
}

impl Rest {
    /// A window has passed.
    pub(super) fn pass(&mut self) {
        self.windows = self.windows.saturating_sub(1);
    }

    /// It brought too little once more: it rests for this number of windows, doubled for each time before, but not
    /// more often than this. The window that is decided next passes at once, so one more is added. Returns how long it
    /// rests.
    pub(super) fn begin(&mut self, windows: u32, max_doublings: u32) -> u32 {
        let doublings = self.times.min(max_doublings);
        self.windows = windows.saturating_mul(1 << doublings).saturating_add(1);
        self.times = self.times.saturating_add(1);
        self.windows
    }

    /// Windows that are left.
    pub(super) fn windows(&self) -> u32 {
        self.windows
    }
}
