//! Facts with the traffic of memories that hardware counts, so that programs outside the volume count as well.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use egeria_facts::{FactSource, Facts, MemoryTraffic, TrafficOrigin};
use egeria_machine::{Machine, MemoryKind};
use egeria_perf::{MemoryCounters, MemoryEvents, Traffic};
use egeria_proc::masks::SharedMasks;
use egeria_proc::{LiveSource, Membership};

/// A source, and counters that are read in each of its windows.
struct CountedMemories {
    inner: Box<dyn LiveSource>,
    counters: MemoryCounters,
    since: Instant,
}

/// The source together with hardware counters, where the machine has them. What is counted is added to `sources`, and why
/// nothing is, where something could be, to `unseen`.
pub(crate) fn counted(
    inner: Box<dyn LiveSource>,
    machine: &Machine,
    (sources, unseen): (&mut Vec<String>, &mut Vec<String>),
) -> Box<dyn LiveSource> {
    let found = MemoryEvents::find(Path::new("/"), machine);
    for line in &found.left_out {
        tracing::info!("{line}");
    }
    if found.events.is_empty() {
        return inner;
    }
    match MemoryCounters::begin(&found) {
        Ok(counters) => {
            sources.push(format!("traffic of memories: {}", found.description()));
            Box::new(CountedMemories {
                inner,
                counters,
                since: Instant::now(),
            })
        }
        Err(error) => {
            unseen.push(format!(
                "what other programs load on memory does not count: {error}"
            ));
            inner
        }
    }
}

/// Bytes counted in this number of seconds, as rates.
fn rates(traffic: &[Traffic], seconds: f64) -> Vec<MemoryTraffic> {
    let rate = |bytes: u64| bytes as f64 / seconds.max(1e-6);
    let of = |each: &Traffic| MemoryTraffic {
        node: each.node,
        kind: each.kind,
        read_bytes_s: rate(each.read_bytes),
        written_bytes_s: rate(each.written_bytes),
        origin: match each.kind {
            MemoryKind::Expander => TrafficOrigin::CxlDevice,
            MemoryKind::Dram | MemoryKind::Persistent => TrafficOrigin::MemoryController,
        },
    };
    traffic.iter().map(of).collect()
}

impl FactSource for CountedMemories {
    type Error = Infallible;

    fn machine(&self) -> &Machine {
        self.inner.machine()
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
        let facts = self.inner.next_facts()?;
        let traffic = self.counters.take();
        let took = std::mem::replace(&mut self.since, Instant::now()).elapsed();
        Ok(facts.map(|facts| Facts {
            memories: rates(&traffic, took.as_secs_f64()),
            ..facts
        }))
    }
}

impl LiveSource for CountedMemories {
    fn dilation(&self) -> f64 {
        self.inner.dilation()
    }

    fn start_over(&mut self) {
        self.inner.start_over();
        let _ = self.counters.take();
        self.since = Instant::now();
    }

    fn masks(&self) -> SharedMasks {
        self.inner.masks()
    }

    fn members(&self) -> Arc<dyn Membership> {
        self.inner.members()
    }
}
