//! The machine as resources that flows share.
//!
//! ```text
//!   core of a node     thread-time/s: computing and accesses in flight occupy one
//!   medium of a node   service time/s: a byte takes 1 / (bandwidth with so many accessors), more from another node
//!   lane of a link     bytes/s, each way
//! ```
//!
//! What one access takes is defined once, in [`egeria_machine::emulated`]; here is what many get at once.

use egeria_machine::{AccessKind, CpuId, EmulatedNode, Machine, Paths};

use crate::error::SimError;

pub(crate) const NS_PER_S: f64 = 1e9;

/// Where in a list of capacities each resource stands.
pub(crate) struct Model {
    pub(crate) machine: Machine,
    speeds: Vec<EmulatedNode>,
    paths: Option<Paths>,
}

impl Model {
    /// The machine, with CPUs of its own for each node: a model stands on no host.
    pub(crate) fn new(machine: &Machine) -> Result<Model, SimError> {
        let Some(emulated) = &machine.emulated else {
            return Err(SimError::NoSpeeds {
                machine: machine.name.clone(),
            });
        };
        let mut machine = machine.clone();
        let speeds = emulated.nodes.clone();
        let mut next = 0;
        for (node, speed) in machine.nodes.iter_mut().zip(&speeds) {
            let end = next + speed.cores as u16;
            node.cpus = (next..end).map(CpuId).collect();
            next = end;
        }
        // Looked at when the machine was read; one that was made otherwise has no paths then.
        let paths = machine.paths().ok().flatten();
        Ok(Model {
            machine,
            speeds,
            paths,
        })
    }

    pub(crate) fn node_count(&self) -> usize {
        self.speeds.len()
    }

    pub(crate) fn cores(&self, node: usize) -> f64 {
        f64::from(self.speeds[node].cores)
    }

    pub(crate) fn core_resource(&self, node: usize) -> usize {
        node
    }

    pub(crate) fn medium_resource(&self, node: usize) -> usize {
        self.node_count() + node
    }

    /// Capacity of every resource: cores, s/s; media, s/s; lanes, bytes/s.
    pub(crate) fn capacities(&self) -> Vec<f64> {
        let cores = (0..self.node_count()).map(|node| self.cores(node));
        let media = self.speeds.iter().map(|_| 1.0);
        let lanes = self.paths.iter().flat_map(|paths| &paths.lanes);
        cores
            .chain(media)
            .chain(lanes.map(|lane| lane.bytes_s))
            .collect()
    }

    /// The lanes that data of an access crosses: a read's towards the thread, a write's towards the memory.
    pub(crate) fn lane_resources(
        &self,
        kind: AccessKind,
        home: usize,
        memory: usize,
    ) -> impl Iterator<Item = usize> + '_ {
        let (from, to) = match kind {
            AccessKind::Read => (memory, home),
            AccessKind::Write => (home, memory),
        };
        let first = 2 * self.node_count();
        let way = self.paths.iter().flat_map(move |paths| paths.way(from, to));
        way.map(move |lane| first + lane)
    }

    /// Time an access that waits for nobody takes, ns, beside `accessors` in all (may be broken).
    pub(crate) fn undisturbed_ns(&self, access: &Access, accessors: f64) -> f64 {
        let speed = &self.speeds[access.memory];
        let alone = between(accessors, |threads| {
            speed.undisturbed_ns(access.bytes, access.kind, access.is_remote(), threads)
        });
        let path_ns = self.paths.as_ref().map_or(0.0, |paths| {
            paths.latency_ns(access.home, access.memory)
                + paths.latency_ns(access.memory, access.home)
        });
        alone + path_ns
    }

    /// Time for which the access occupies the medium, ns.
    pub(crate) fn service_ns(&self, access: &Access, accessors: f64) -> f64 {
        let speed = &self.speeds[access.memory];
        between(accessors, |threads| {
            speed.service_ns(access.bytes, access.kind, access.is_remote(), threads)
        })
    }

    /// Share of reads of a node's threads that its cache serves when they read so many bytes at random.
    pub(crate) fn cached_share(&self, home: usize, working_set_bytes: f64) -> f64 {
        let held = self.speeds[home].llc_bytes as f64;
        match working_set_bytes > 0.0 {
            true => (held / working_set_bytes).min(1.0),
            false => 0.0,
        }
    }

    /// Time a read takes that the cache serves, ns.
    pub(crate) fn cached_ns(&self, home: usize, bytes: u64) -> f64 {
        self.speeds[home].cached_ns(bytes)
    }
}

/// One access of a thread of `home` (positions in `nodes`).
pub(crate) struct Access {
    pub(crate) kind: AccessKind,
    pub(crate) home: usize,
    pub(crate) memory: usize,
    pub(crate) bytes: u64,
}

impl Access {
    fn is_remote(&self) -> bool {
        self.home != self.memory
    }
}

/// A function of whole threads, at a number between.
fn between(threads: f64, of: impl Fn(u32) -> f64) -> f64 {
    let threads = threads.max(1.0);
    let (below, part) = (threads.floor(), threads.fract());
    let low = of(below as u32);
    match part > 0.0 {
        true => low + (of(below as u32 + 1) - low) * part,
        false => low,
    }
}
