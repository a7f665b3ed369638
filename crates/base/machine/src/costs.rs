//! What one access takes next to others, on every memory of a machine. `egeria sim` and emulated machines use the same
//! arithmetic: the model for the mean of many accesses, the emulation for each.

use serde::{Deserialize, Serialize};

use crate::{
    AccessKind, Cache, Controller, EmulatedNode, LINE_BYTES, Lane, Machine, Memory, MemoryKind,
    Paths,
};

const NS_PER_S: f64 = 1e9;
/// Waits are looked for no longer than this, ns.
pub const MAX_WAIT_NS: f64 = 1e9;
/// If threads are held back for this part of their time (the inverse), all threads that use the same queue have as
/// many lines on their way as they can. If nothing holds threads back, only lines being served are on their way.
const HELD: f64 = 2.0;

/// Two transfers of a cache line between cores, to and fro, ns (assumed: a hundred nanoseconds each within a socket).
const TWO_LINES_NS: f64 = 200.0;
/// Handing a piece over to a delegate and back, ns.
pub const HANDOVER_NS: f64 = TWO_LINES_NS;
/// Asking for a turn at a memory, ns.
pub const TURN_NS: f64 = TWO_LINES_NS;

/// Where on a file or in memory accesses go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Anywhere.
    #[default]
    Random,
    /// One behind the other.
    Sequential,
}

/// A memory and where it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// Position of its node.
    pub node: usize,
    pub memory: Memory,
    /// Queues its requests stand in: positions in [`AccessCosts::queue_lines`].
    pub queues: Vec<usize>,
}

/// A machine's memories, and what accesses to them take. Nodes and memories by position.
#[derive(Clone, PartialEq, Debug)]
pub struct AccessCosts {
    /// Cores of each node.
    pub cores: Vec<u32>,
    /// Last-level cache of each node.
    pub caches: Vec<Option<Cache>>,
    /// All memories, those of a node one behind the other.
    pub places: Vec<Place>,
    /// Cache lines each queue holds.
    pub queue_lines: Vec<f64>,
    /// Links, and the ways over them.
    pub paths: Option<Paths>,
}

/// What is in the way now: how many are at each memory, how long each queue keeps a line waiting.
#[derive(Clone, PartialEq, Debug)]
pub struct Crowd {
    /// Threads at each memory, itself included.
    pub accessors: Vec<f64>,
    /// What each queue keeps a line waiting, ns.
    pub wait_ns: Vec<f64>,
    /// Of the bytes at each memory, the share that is written.
    pub written_shares: Vec<f64>,
    /// Memories that threads of several nodes read directly, so that each takes lines from the other.
    pub shared_reads: Vec<bool>,
}

/// What is in the way of one access of a memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Beside {
    /// Threads at the memory, itself included.
    pub accessors: f64,
    /// Of the bytes at the memory, the share that is written.
    pub written_share: f64,
    /// Threads of several nodes read it directly.
    pub shared_reads: bool,
}

impl Beside {
    /// No other thread accesses it.
    pub const ALONE: Beside = Beside {
        accessors: 1.0,
        written_share: 0.0,
        shared_reads: false,
    };
}

impl Crowd {
    /// What is in the way at one memory.
    pub fn beside(&self, place: usize) -> Beside {
        Beside {
            accessors: self.accessors[place],
            written_share: self.written_shares[place],
            shared_reads: self.shared_reads[place],
        }
    }

    /// A line stands in all queues of its memory at once, so the longest wait covers the others.
    pub fn wait_ns(&self, queues: &[usize]) -> f64 {
        let waits = queues.iter().map(|queue| self.wait_ns[*queue]);
        waits.fold(0.0, f64::max)
    }
}

impl AccessCosts {
    pub fn of(machine: &Machine) -> AccessCosts {
        let mut costs = AccessCosts {
            cores: Vec::new(),
            caches: Vec::new(),
            places: Vec::new(),
            queue_lines: Vec::new(),
            // Looked at when the machine was read; one that was made otherwise has no paths then.
            paths: machine.paths().ok().flatten(),
        };
        for (index, node) in machine.nodes.iter().enumerate() {
            costs.cores.push(machine.core_count(node) as u32);
            costs.add_node(index, machine);
        }
        costs
    }

    /// Memories, cache and queues of a node.
    fn add_node(&mut self, index: usize, machine: &Machine) {
        let node = &machine.nodes[index];
        let hardware = &node.hardware;
        let declared = machine.emulated_node(node.id);
        let cache = declared.filter(|node| node.has_llc()).map(|node| Cache {
            bytes: node.llc_bytes,
            latency_ns: node.llc_latency_ns,
            read_bytes_s: node.llc_read_bytes_s,
            parts: 1,
        });
        self.caches.push(cache.or_else(|| hardware.cache.clone()));
        let medium = declared.map(EmulatedNode::as_memory);
        let first = self.places.len();
        for memory in medium.into_iter().chain(hardware.memories.iter().cloned()) {
            self.places.push(Place {
                node: index,
                memory,
                queues: Vec::new(),
            });
        }
        for Controller { id, queue_lines } in &hardware.controllers {
            self.add_queue(first, f64::from(*queue_lines), |place| {
                place.memory.controller == *id
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

    /// The first memory of a kind in a node.
    pub fn place_of_kind(&self, node: usize, kind: MemoryKind) -> Option<usize> {
        let is_it = |place: &Place| place.node == node && place.memory.kind == kind;
        self.places.iter().position(is_it)
    }

    /// The lanes of all links.
    pub fn lanes(&self) -> &[Lane] {
        self.paths.as_ref().map_or(&[], |paths| &paths.lanes)
    }

    /// The lanes that data of an access crosses: a read's towards the thread, a write's towards the memory.
    pub fn lanes_of(
        &self,
        kind: AccessKind,
        home: usize,
        memory_node: usize,
    ) -> impl Iterator<Item = usize> + '_ {
        let (from, to) = match kind {
            AccessKind::Read => (memory_node, home),
            AccessKind::Write => (home, memory_node),
        };
        let way = self.paths.iter().flat_map(move |paths| paths.way(from, to));
        way.copied()
    }

    /// The time that lines wait in a queue, beyond the lines that it holds, ns. `lines` are on their way, of threads
    /// that were held back for a part of their time (`held`); `through_s` lines go through per second.
    pub fn queue_wait_ns(&self, queue: usize, lines: f64, held: f64, through_s: f64) -> f64 {
        let (lines, holds) = (lines * held, self.queue_lines[queue]);
        if lines > holds {
            ((lines - holds) / through_s.max(1e-9) * NS_PER_S).min(MAX_WAIT_NS)
        } else {
            0.0
        }
    }

    /// How far the lines of threads fill a queue that nothing holds back for this share of their time.
    pub fn held(unheld_share: f64) -> f64 {
        (HELD * (1.0 - unheld_share)).clamp(0.0, 1.0)
    }

    /// Time that the ways to a memory and back add to an access, ns.
    pub fn path_ns(&self, home: usize, memory_node: usize) -> f64 {
        self.paths.as_ref().map_or(0.0, |paths| {
            paths.latency_ns(home, memory_node) + paths.latency_ns(memory_node, home)
        })
    }

    /// Time of an access that waits only for `wait_ns` in queues, ns, with `accessors` in all (may be a fraction).
    /// Waiting lengthens the time to the first byte; the lines in flight bound the speed of the rest.
    pub fn access_ns(&self, access: &Access, accessors: f64, wait_ns: f64) -> f64 {
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
        if wait_ns > 0.0 {
            stream_ns.max(rounds * (ahead_ns + wait_ns))
        } else {
            stream_ns
        }
    }

    /// Time for which the access occupies the medium, ns.
    pub fn service_ns(&self, access: &Access, beside: Beside) -> f64 {
        let place = &self.places[access.place];
        let memory = &place.memory;
        let medium = memory.medium();
        let accessors = beside.accessors;
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
        let mixed = medium.mixed(is_remote, beside.written_share, accessors);
        let own_ns = own_ns / balance * mixed;
        let directory_bytes = self.directory_bytes(access, beside);
        if directory_bytes <= 0.0 {
            return own_ns;
        }
        let directory_ns = between(accessors, |threads| {
            medium.service_ns(access.bytes, AccessKind::Write, false, threads)
        });
        own_ns + directory_ns * directory_bytes / access.bytes as f64
    }

    /// Bytes that a remote read makes the memory write to its directory, where several nodes read the same lines.
    fn directory_bytes(&self, access: &Access, beside: Beside) -> f64 {
        let place = &self.places[access.place];
        let changes = access.kind == AccessKind::Read && beside.shared_reads;
        if changes && access.home != place.node {
            access.bytes as f64 * place.memory.directory_write_share.max(0.0)
        } else {
            0.0
        }
    }

    /// Bytes that an access makes the medium write: whole grains, unless writes in a row are combined, and its directory.
    /// What more a medium writes because too many threads write at once is in its curve, not here.
    pub fn medium_written_bytes(&self, access: &Access, beside: Beside) -> f64 {
        let grain_bytes = self.places[access.place].memory.granularity_bytes;
        match (access.kind, access.pattern) {
            (AccessKind::Read, _) => self.directory_bytes(access, beside),
            (AccessKind::Write, Pattern::Sequential) => access.bytes as f64,
            (AccessKind::Write, Pattern::Random) => {
                access.bytes.next_multiple_of(grain_bytes) as f64
            }
        }
    }

    /// Cache lines that a thread in the middle of an access keeps on their way.
    pub fn lines_on_their_way(&self, access: &Access) -> f64 {
        let memory = &self.places[access.place].memory;
        let most = f64::from(memory.lines_in_flight(access.kind));
        let at_once = f64::from(memory.lines_at_once(access.kind));
        match access.at_once && access.lines() <= at_once {
            true => at_once.min(most),
            false if access.at_once => most,
            false => access.lines().min(most),
        }
    }

    /// Time that a line is on its way without contention, ns.
    pub fn line_ns(&self, access: &Access) -> f64 {
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

    /// Parts of a node's cache that `threads` threads see.
    pub fn cache_parts(&self, home: usize, threads: usize) -> f64 {
        let parts = self.caches[home].as_ref().map_or(1, |cache| cache.parts);
        f64::from(parts).min(threads.max(1) as f64)
    }

    /// Share of reads of a node's threads that its cache serves, if all threads that see one part of it read this
    /// number of bytes at random together.
    pub fn cached_share(&self, home: usize, working_set_bytes: f64) -> f64 {
        match &self.caches[home] {
            Some(cache) if working_set_bytes > 0.0 => {
                (cache.bytes as f64 / f64::from(cache.parts) / working_set_bytes).min(1.0)
            }
            _ => 0.0,
        }
    }

    /// Time a read takes that the cache serves, ns.
    pub fn cached_ns(&self, home: usize, bytes: u64) -> f64 {
        self.caches[home].as_ref().map_or(0.0, |cache| {
            cache.latency_ns + bytes as f64 / cache.read_bytes_s * NS_PER_S
        })
    }
}

/// One access by a thread of `home` (a position in `nodes`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Access {
    pub kind: AccessKind,
    /// Position of the node that the thread runs on.
    pub home: usize,
    /// Position of the memory.
    pub place: usize,
    pub bytes: u64,
    /// Where they lie relative to those of the access before.
    pub pattern: Pattern,
    /// The thread does not wait for it before it begins the next.
    pub at_once: bool,
}

impl Access {
    /// Cache lines of it.
    pub fn lines(&self) -> f64 {
        self.bytes.div_ceil(LINE_BYTES) as f64
    }
}

/// A function of whole threads, at a number between.
fn between(threads: f64, of: impl Fn(u32) -> f64) -> f64 {
    let threads = threads.max(1.0);
    let (below, part) = (threads.floor(), threads.fract());
    let low = of(below as u32);
    if part > 0.0 {
        low + (of(below as u32 + 1) - low) * part
    } else {
        low
    }
}
