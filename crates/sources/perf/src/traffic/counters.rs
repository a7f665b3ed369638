//! Counting the traffic of memories.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use egeria_machine::{MemoryKind, NodeId};
use rustix::io::Errno;

use super::find::{Counted, MemoryEvent, MemoryEvents};
use crate::error::{PerfError, Result};
use crate::reading::{Reading, TIMES};
use crate::sampler::{Of, attributes, open_event};

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
    attributes.read_format = TIMES;
    open_event(&mut attributes, Of::Cpu(cpu), None)
}

#[cfg(test)]
mod tests {
    use perf_event_open_sys::bindings;

    use super::*;
    use crate::event::Selection;
    use crate::format::Words;

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
