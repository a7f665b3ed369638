//! What the kernel says of a counter.

use std::os::fd::OwnedFd;

use perf_event_open_sys::bindings;

/// A counter must be opened with this format to be read.
pub(crate) const TIMES: u64 =
    (bindings::PERF_FORMAT_TOTAL_TIME_ENABLED | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING) as u64;

/// What the kernel says of a counter.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Reading {
    value: u64,
    /// How long it was wanted, and how long it counted, ns: counters share hardware.
    enabled_ns: u64,
    running_ns: u64,
}

impl Reading {
    pub(crate) fn of(event: &OwnedFd) -> Option<Reading> {
        let mut bytes = [0; 24];
        let count = rustix::io::read(event, &mut bytes).ok()?;
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        (count == bytes.len()).then(|| Reading {
            value: word(0),
            enabled_ns: word(8),
            running_ns: word(16),
        })
    }

    /// What was counted since `last`, had it counted all the time.
    pub(crate) fn since(self, last: Reading) -> f64 {
        let count = self.value.saturating_sub(last.value) as f64;
        let enabled = self.enabled_ns.saturating_sub(last.enabled_ns) as f64;
        match self.running_ns.saturating_sub(last.running_ns) {
            0 => 0.0,
            running => count * (enabled / running as f64).max(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_shares_its_hardware_is_scaled() {
        let reading = |value, enabled_ns, running_ns| Reading {
            value,
            enabled_ns,
            running_ns,
        };
        let first = reading(100, 1000, 1000);
        assert_eq!(reading(300, 2000, 2000).since(first), 200.0);
        assert_eq!(reading(300, 2000, 1500).since(first), 400.0);
        assert_eq!(
            reading(100, 2000, 1000).since(first),
            0.0,
            "it never counted"
        );
        assert_eq!(reading(0, 0, 0).since(first), 0.0, "it went backwards");
    }
}
