//! Counting the traffic of memories.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use egeria_machine::{MemoryKind, NodeId};
use perf_event_open_sys::bindings;
use rustix::io::Errno;

use super::find::{Counted, MemoryEvent, MemoryEvents};
use crate::error::{PerfError, Result};
use crate::sampler::{attributes, open_event};

/// Bytes read and written of a node's memory since the last look.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Traffic {
    pub node: NodeId,
    pub kind: MemoryKind,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// Counters of all PMUs, open.
#[derive(Debug)]
pub struct MemoryCounters {
    counters: Vec<Counter>,
}

#[derive(Debug)]
struct Counter {
    node: NodeId,
    kind: MemoryKind,
    is_write: bool,
    bytes: f64,
    event: OwnedFd,
    last: Reading,
}

/// What the kernel says of a counter.
#[derive(Clone, Copy, Default, Debug)]
struct Reading {
    value: u64,
    /// How long it was wanted, and how long it counted, ns: counters share hardware.
    enabled_ns: u64,
    running_ns: u64,
}

impl Reading {
    fn of(event: &OwnedFd) -> Option<Reading> {
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
    fn since(self, last: Reading) -> f64 {
        let count = self.value.saturating_sub(last.value) as f64;
        let enabled = self.enabled_ns.saturating_sub(last.enabled_ns) as f64;
        match self.running_ns.saturating_sub(last.running_ns) {
            0 => 0.0,
            running => count * (enabled / running as f64).max(1.0),
        }
    }
}

impl MemoryCounters {
    /// Begins to count.
    ///
    /// # Errors
    /// Without such PMUs or rights, or when the kernel does not take an event.
    pub fn begin(found: &MemoryEvents) -> Result<MemoryCounters> {
        let mut counters = Vec::new();
        for event in &found.events {
            for place in &event.places {
                for (is_write, counted) in [(false, event.read), (true, event.write)] {
                    let opened = open(counted, place.0);
                    let opened =
                        opened.map_err(|errno| PerfError::of_open(&event.pmu, 1, errno))?;
                    counters.push(Counter::of(
                        event,
                        place.1,
                        (is_write, counted.bytes),
                        opened,
                    ));
                }
            }
        }
        if counters.is_empty() {
            return Err(PerfError::NoMemoryPmu);
        }
        Ok(MemoryCounters { counters })
    }

    /// What was counted since the last call, by node and memory.
    pub fn take(&mut self) -> Vec<Traffic> {
        let mut sums: BTreeMap<(NodeId, MemoryKind), [f64; 2]> = BTreeMap::new();
        for counter in &mut self.counters {
            let Some(now) = Reading::of(&counter.event) else {
                continue;
            };
            let count = now.since(std::mem::replace(&mut counter.last, now));
            let sum = sums.entry((counter.node, counter.kind)).or_default();
            sum[usize::from(counter.is_write)] += count * counter.bytes;
        }
        let traffic = |((node, kind), [read, written]): (_, [f64; 2])| Traffic {
            node,
            kind,
            read_bytes: read as u64,
            written_bytes: written as u64,
        };
        sums.into_iter().map(traffic).collect()
    }
}

impl Counter {
    fn of(
        event: &MemoryEvent,
        node: NodeId,
        (is_write, bytes): (bool, f64),
        opened: OwnedFd,
    ) -> Counter {
        Counter {
            node,
            kind: event.kind,
            is_write,
            bytes,
            last: Reading::of(&opened).unwrap_or_default(),
            event: opened,
        }
    }
}

fn open(counted: Counted, cpu: u32) -> std::result::Result<OwnedFd, Errno> {
    let mut attributes = attributes(counted.selection);
    let times = bindings::PERF_FORMAT_TOTAL_TIME_ENABLED | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING;
    attributes.read_format = u64::from(times);
    open_event(&mut attributes, cpu, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Selection;
    use crate::format::Words;

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

    /// With an event of software in the place of the hardware's: the CPU's clock, in ns.
    #[test]
    fn counts_of_all_places_come_as_bytes_per_memory() {
        let clock = Counted {
            selection: Selection {
                pmu: bindings::PERF_TYPE_SOFTWARE,
                words: Words {
                    config: u64::from(bindings::PERF_COUNT_SW_CPU_CLOCK),
                    ..Words::default()
                },
            },
            bytes: 64.0,
        };
        let found = MemoryEvents {
            events: vec![MemoryEvent {
                pmu: "clock".to_owned(),
                kind: MemoryKind::Dram,
                places: vec![(0, NodeId(0))],
                read: clock,
                write: clock,
            }],
            left_out: Vec::new(),
        };
        let mut counters = match MemoryCounters::begin(&found) {
            Ok(counters) => counters,
            Err(error) => {
                assert!(error.is_of_rights(), "{error}");
                egeria_harness::testing::skip(error);
                return;
            }
        };
        std::thread::sleep(std::time::Duration::from_millis(5));
        let traffic = counters.take();
        assert_eq!(traffic.len(), 1);
        assert_eq!(
            (traffic[0].node, traffic[0].kind),
            (NodeId(0), MemoryKind::Dram)
        );
        assert!(traffic[0].read_bytes >= 64 * 5_000_000, "{traffic:?}");
        let none = MemoryCounters::begin(&MemoryEvents::default()).unwrap_err();
        assert!(none.to_string().contains("no PMU here counts"), "{none}");
    }
}
