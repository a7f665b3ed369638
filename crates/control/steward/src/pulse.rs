//! Whether a steward still looks at its windows, for processes that monitor it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A look may be late by this, on a busy machine and with many threads.
const PATIENCE: Duration = Duration::from_secs(20);

/// Shared by the steward's thread, which records when its next look is due, and by threads that check it.
#[derive(Clone)]
pub(crate) struct Pulse {
    begun: Instant,
    due_ns: Arc<AtomicU64>,
}

impl Pulse {
    pub(crate) fn new(begun: Instant) -> Pulse {
        Pulse {
            begun,
            due_ns: Arc::new(AtomicU64::new(0)),
        }
    }

    /// The next look is due then.
    pub(crate) fn due(&self, when: Instant) {
        let due_ns = when.saturating_duration_since(self.begun).as_nanos() as u64;
        self.due_ns.store(due_ns, Ordering::Relaxed);
    }

    pub(crate) fn beats_at(&self, now: Instant) -> bool {
        let due = Duration::from_nanos(self.due_ns.load(Ordering::Relaxed));
        now.saturating_duration_since(self.begun) <= due + PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_beats_until_a_look_is_overdue() {
        let begun = Instant::now();
        let pulse = Pulse::new(begun);
        let hour = Duration::from_secs(3600);
        assert!(pulse.beats_at(begun));
        assert!(!pulse.beats_at(begun + hour));
        pulse.due(begun + hour);
        assert!(pulse.beats_at(begun + hour + PATIENCE));
        assert!(!pulse.beats_at(begun + hour + PATIENCE + Duration::from_secs(1)));
    }
}
