//! The machine as resources that flows share.
//!
//! ```text
//!   core of a node       thread-time/s: computing and accesses in flight occupy one
//!   a memory             service time/s: a byte takes 1 / (bandwidth with so many accessors), more from another node
//!   lane of a link       bytes/s, each way
//!   delegates of a node  thread-time/s: as many as there are
//!   turns at a memory    access time/s: as many as are admitted at once
//! ```
//!
//! What one access takes is defined once, in [`egeria_machine::Medium`]; here is what many get at once.

use egeria_machine::{
    AccessKind, Cache, Controller, CpuId, LINE_BYTES, Machine, Memory, MemoryKind, Paths,
};

use crate::crowd::Crowd;
use crate::error::SimError;
use crate::workload::{MediumKind, Pattern};

pub(crate) const NS_PER_S: f64 = 1e9;

/// A memory and where it is.
pub(crate) struct Place {
    /// Position of its node.
    pub(crate) node: usize,
    pub(crate) memory: Memory,
    /// Queues its requests stand in.
    pub(crate) queues: Vec<usize>,
}

/// The machine, looked up by position.
pub(crate) struct Model {
    pub(crate) machine: Machine,
    cores: Vec<f64>,
    caches: Vec<Option<Cache>>,
    pub(crate) places: Vec<Place>,
    /// Cache lines each queue holds.
    pub(crate) queue_lines: Vec<f64>,
    paths: Option<Paths>,
}

impl Model {
    /// The machine. Emulated nodes get CPUs of their own: a model stands on no host.
    pub(crate) fn new(machine: &Machine) -> Result<Model, SimError> {
        let mut machine = machine.clone();
        let mut model = Model {
            cores: Vec::new(),
            caches: Vec::new(),
            places: Vec::new(),
            queue_lines: Vec::new(),
            // Looked at when the machine was read; one that was made otherwise has no paths then.
            paths: machine.paths().ok().flatten(),
            machine: machine.clone(),
        };
        let mut next = 0;
        for index in 0..machine.nodes.len() {
            let cores = machine.core_count(&machine.nodes[index]);
            if machine.is_emulated() {
                let end = next + cores as u16;
                machine.nodes[index].cpus = (next..end).map(CpuId).collect();
                next = end;
            }
            model.cores.push(cores as f64);
            model.add_node(index);
        }
        model.machine = machine;
        // A node may have none, but then it has to say so, and another has some.
        let is_known = |node: usize| {
            let has_memory = model.places.iter().any(|place| place.node == node);
            has_memory || (!model.places.is_empty() && model.machine.nodes[node].memory_bytes == 0)
        };
        if let Some(node) = (0..model.cores.len()).find(|node| !is_known(*node)) {
            return Err(SimError::NoSpeeds {
                machine: model.machine.name,
                node: model.machine.nodes[node].id.0,
            });
        }
        Ok(model)
    }

    /// Memories, cache and queues of a node.
    fn add_node(&mut self, node: usize) {
        let hardware = self.machine.nodes[node].hardware.clone();
        let declared = self.machine.emulated.as_ref();
        let declared = declared.and_then(|emulated| emulated.nodes.get(node));
        let cache = declared.filter(|node| node.has_llc()).map(|node| Cache {
            bytes: node.llc_bytes,
            latency_ns: node.llc_latency_ns,
            read_bytes_s: node.llc_read_bytes_s,
            parts: 1,
        });
        self.caches.push(cache.or(hardware.cache));
        let medium = declared.map(egeria_machine::EmulatedNode::as_memory);
        let first = self.places.len();
        for memory in medium.into_iter().chain(hardware.memories) {
            self.places.push(Place {
                node,
                memory,
                queues: Vec::new(),
            });
        }
        for Controller { id, queue_lines } in hardware.controllers {
            self.add_queue(first, f64::from(queue_lines), |place| {
                place.memory.controller == id
            });
        }
        if let Some(lines) = hardware.socket_queue_lines {
            self.add_queue(first, f64::from(lines), |_| true);
        }
    }

    fn add_queue(&mut self, first: usize, lines: f64, stands_in: impl Fn(&Place) -> bool) {
        let queue = self.queue_lines.len();
        self.queue_lines.push(lines);
        for place in &mut self.places[first..] {
            if stands_in(place) {
                place.queues.push(queue);
            }
        }
    }

    pub(crate) fn node_count(&self) -> usize {
        self.cores.len()
    }

    pub(crate) fn cores(&self, node: usize) -> f64 {
        self.cores[node]
    }

    /// The memory of a node that data of this kind is kept in.
    pub(crate) fn place_of(&self, node: usize, medium: MediumKind) -> Option<usize> {
        let order = match medium {
            MediumKind::Storage => [
                MemoryKind::Persistent,
                MemoryKind::Dram,
                MemoryKind::Expander,
            ],
            MediumKind::Memory => [
                MemoryKind::Dram,
                MemoryKind::Expander,
                MemoryKind::Persistent,
            ],
        };
        let find = |kind: MemoryKind| {
            let is_it = |place: &Place| place.node == node && place.memory.kind == kind;
            self.places.iter().position(is_it)
        };
        order.into_iter().find_map(find)
    }

    /// The memories that data of this kind is spread over when nothing else is said: persistent ones for storage
    /// where there are any, DRAM for memory where there is any, else one of each node.
    pub(crate) fn places_of(&self, medium: MediumKind) -> Vec<usize> {
        let wanted = match medium {
            MediumKind::Storage => MemoryKind::Persistent,
            MediumKind::Memory => MemoryKind::Dram,
        };
        let all = (0..self.node_count()).filter_map(|node| self.place_of(node, medium));
        let all: Vec<usize> = all.collect();
        let has_kind = |place: &usize| self.places[*place].memory.kind == wanted;
        let of_kind: Vec<usize> = all.iter().copied().filter(has_kind).collect();
        if of_kind.is_empty() { all } else { of_kind }
    }

    /// Of [`Model::places_of`], the one nearest to a node.
    pub(crate) fn nearest_place(&self, node: usize, medium: MediumKind) -> usize {
        let distance = |place: &usize| self.machine.distances[node][self.places[*place].node];
        let places = self.places_of(medium);
        // Some node has a memory (`new`), so there is one.
        places.into_iter().min_by_key(distance).unwrap_or(0)
    }

    /// Where the delegates of a node run: where it has no cores, on the nearest node that has.
    pub(crate) fn delegate_host(&self, node: usize) -> usize {
        let hosts = (0..self.node_count()).filter(|host| self.cores(*host) > 0.0);
        let distance = |host: &usize| match *host == node {
            true => 0,
            false => self.machine.distances[*host][node],
        };
        hosts.min_by_key(distance).unwrap_or(node)
    }

    pub(crate) fn lanes(&self) -> &[egeria_machine::Lane] {
        self.paths.as_ref().map_or(&[], |paths| &paths.lanes)
    }

    pub(crate) fn core_resource(&self, node: usize) -> usize {
        node
    }

    pub(crate) fn memory_resource(&self, place: usize) -> usize {
        self.node_count() + place
    }

    pub(crate) fn delegate_resource(&self, node: usize) -> usize {
        self.node_count() + self.places.len() + self.lanes().len() + node
    }

    pub(crate) fn turn_resource(&self, place: usize) -> usize {
        2 * self.node_count() + self.places.len() + self.lanes().len() + place
    }

    /// Capacity of every resource; delegates and turns as given, per node and per memory.
    pub(crate) fn capacities(&self, delegates: f64, turns: &[Option<f64>]) -> Vec<f64> {
        let cores = self.cores.iter().copied();
        let memories = self.places.iter().map(|_| 1.0);
        let lanes = self.lanes().iter().map(|lane| lane.bytes_s);
        let delegates = self.cores.iter().map(|_| delegates);
        let turns = turns.iter().map(|turns| turns.unwrap_or(f64::INFINITY));
        let media = cores.chain(memories).chain(lanes);
        media.chain(delegates).chain(turns).collect()
    }

    /// The lanes that data of an access crosses: a read's towards the thread, a write's towards the memory.
    pub(crate) fn lane_resources(
        &self,
        kind: AccessKind,
        home: usize,
        memory_node: usize,
    ) -> impl Iterator<Item = usize> + '_ {
        let (from, to) = match kind {
            AccessKind::Read => (memory_node, home),
            AccessKind::Write => (home, memory_node),
        };
        let first = self.node_count() + self.places.len();
        let way = self.paths.iter().flat_map(move |paths| paths.way(from, to));
        way.map(move |lane| first + lane)
    }

    /// Time that the ways to a memory and back add to an access, ns.
    pub(crate) fn path_ns(&self, home: usize, memory_node: usize) -> f64 {
        self.paths.as_ref().map_or(0.0, |paths| {
            paths.latency_ns(home, memory_node) + paths.latency_ns(memory_node, home)
        })
    }

    /// Time an access that waits for nobody but `wait_ns` in queues takes, ns, beside `accessors` in all (may be
    /// broken). Waiting lengthens the time to the first byte, and what the lines in flight can carry bounds the rest.
    pub(crate) fn access_ns(&self, access: &Access, accessors: f64, wait_ns: f64) -> f64 {
        let place = &self.places[access.place];
        let mut medium = place.memory.medium();
        if access.pattern == Pattern::Sequential {
            let own_ns = place.memory.sequential_read_latency_ns;
            medium.read.latency_ns = own_ns.unwrap_or(medium.read.latency_ns);
        }
        let side = *medium.side(access.kind);
        let is_remote = access.home != place.node;
        let times = if is_remote {
            side.remote_latency_factor
        } else {
            1.0
        };
        let path_ns = self.path_ns(access.home, place.node);
        if access.at_once {
            return self.overlapped_ns(
                access,
                (side.latency_ns * times + path_ns, times),
                accessors,
                wait_ns,
            );
        }
        if access.bytes <= LINE_BYTES {
            // The first line is what the latency was measured of.
            return side.latency_ns * times + path_ns + wait_ns;
        }
        let alone_ns = between(accessors, |threads| {
            medium.undisturbed_ns(access.bytes, access.kind, is_remote, threads)
        });
        let alone_ns = alone_ns + path_ns;
        if wait_ns <= 0.0 {
            return alone_ns;
        }
        let line_ns = side.latency_ns + wait_ns;
        let rounds = access.lines() / f64::from(place.memory.lines_in_flight(access.kind));
        (alone_ns + wait_ns).max(rounds * line_ns)
    }

    /// Time of an access in a row of them that do not wait for each other, ns. Prefetchers run ahead of what is long;
    /// of what is short, as many lines are on their way as a core keeps.
    fn overlapped_ns(
        &self,
        access: &Access,
        (latency_ns, times): (f64, f64),
        accessors: f64,
        wait_ns: f64,
    ) -> f64 {
        let place = &self.places[access.place];
        let memory = &place.memory;
        let medium = memory.medium();
        let stream_ns = between(accessors, |threads| {
            let capacity_bytes_s = medium.capacity_bytes_s(access.kind, false, threads);
            let stream_bytes_s = medium.side(access.kind).stream_bytes_s;
            access.bytes as f64 / stream_bytes_s.min(capacity_bytes_s) * NS_PER_S
        });
        let stream_ns = stream_ns * times;
        let at_once = f64::from(memory.lines_at_once(access.kind));
        if access.lines() <= at_once {
            return stream_ns.max((latency_ns + wait_ns) * access.lines() / at_once);
        }
        let ahead_ns = match access.kind {
            AccessKind::Read => memory.sequential_read_latency_ns,
            AccessKind::Write => None,
        };
        let ahead_ns = ahead_ns.unwrap_or(medium.side(access.kind).latency_ns);
        let rounds = access.lines() / f64::from(memory.lines_in_flight(access.kind));
        match wait_ns > 0.0 {
            true => stream_ns.max(rounds * (ahead_ns + wait_ns)),
            false => stream_ns,
        }
    }

    /// Time for which the access occupies the medium, ns, beside such a crowd.
    pub(crate) fn service_ns(&self, access: &Access, crowd: &Crowd) -> f64 {
        let place = &self.places[access.place];
        let memory = &place.memory;
        let medium = memory.medium();
        let accessors = crowd.accessors[access.place];
        let is_remote = access.home != place.node;
        let (moved, balance) = match access.pattern {
            Pattern::Random => (
                access.bytes.next_multiple_of(memory.granularity_bytes),
                memory.balance(access.kind, access.bytes, accessors, access.at_once),
            ),
            Pattern::Sequential => (access.bytes, 1.0),
        };
        let own_ns = between(accessors, |threads| {
            medium.service_ns(moved, access.kind, is_remote, threads)
        });
        let mixed = medium.mixed(is_remote, crowd.written_shares[access.place], accessors);
        let own_ns = own_ns / balance * mixed;
        let turns = access.kind == AccessKind::Read && crowd.shared_reads[access.place];
        if !is_remote || !turns || memory.directory_write_share <= 0.0 {
            return own_ns;
        }
        let directory_ns = between(accessors, |threads| {
            medium.service_ns(access.bytes, AccessKind::Write, false, threads)
        });
        own_ns + directory_ns * memory.directory_write_share
    }

    /// Cache lines that a thread in the middle of an access keeps on their way.
    pub(crate) fn lines_on_their_way(&self, access: &Access) -> f64 {
        let memory = &self.places[access.place].memory;
        let most = f64::from(memory.lines_in_flight(access.kind));
        let at_once = f64::from(memory.lines_at_once(access.kind));
        match access.at_once && access.lines() <= at_once {
            true => at_once.min(most),
            false if access.at_once => most,
            false => access.lines().min(most),
        }
    }

    /// Time that a line is on its way when it waits for nobody, ns.
    pub(crate) fn line_ns(&self, access: &Access) -> f64 {
        let place = &self.places[access.place];
        let medium = place.memory.medium();
        let side = medium.side(access.kind);
        let is_remote = access.home != place.node;
        let times = if is_remote {
            side.remote_latency_factor
        } else {
            1.0
        };
        side.latency_ns * times + self.path_ns(access.home, place.node)
    }

    /// Parts of a node's cache that so many threads see.
    pub(crate) fn cache_parts(&self, home: usize, threads: usize) -> f64 {
        let parts = self.caches[home].as_ref().map_or(1, |cache| cache.parts);
        f64::from(parts).min(threads.max(1) as f64)
    }

    /// Share of reads of a node's threads that its cache serves when they read so many bytes at random, all that see
    /// one part of it together.
    pub(crate) fn cached_share(&self, home: usize, working_set_bytes: f64) -> f64 {
        match &self.caches[home] {
            Some(cache) if working_set_bytes > 0.0 => {
                (cache.bytes as f64 / f64::from(cache.parts) / working_set_bytes).min(1.0)
            }
            _ => 0.0,
        }
    }

    /// Time a read takes that the cache serves, ns.
    pub(crate) fn cached_ns(&self, home: usize, bytes: u64) -> f64 {
        self.caches[home].as_ref().map_or(0.0, |cache| {
            cache.latency_ns + bytes as f64 / cache.read_bytes_s * NS_PER_S
        })
    }
}

/// One access by a thread of `home` (a position in `nodes`).
pub(crate) struct Access {
    pub(crate) kind: AccessKind,
    pub(crate) home: usize,
    pub(crate) place: usize,
    pub(crate) bytes: u64,
    pub(crate) pattern: Pattern,
    /// The thread does not wait for it before it begins the next.
    pub(crate) at_once: bool,
}

impl Access {
    pub(crate) fn lines(&self) -> f64 {
        self.bytes.div_ceil(LINE_BYTES) as f64
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
