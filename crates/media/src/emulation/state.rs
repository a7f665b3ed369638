//! What is shared: the layout of the emulation in the session, and filling it once.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use egeria_machine::{AccessKind, EmulatedNode, Machine};

use super::cache::Cache;
use super::clock;

/// Most nodes of an emulated machine.
pub const MAX_EMULATED_NODES: usize = 16;
/// Most virtual cores of one node.
pub const MAX_EMULATED_CORES: usize = 64;
/// Accessors beyond so many cost what so many cost.
const CURVE_THREADS: usize = 64;
/// Threads that are told apart as accessors; more share.
pub(super) const SLOTS: usize = 512;
/// Words of a CPU mask; CPUs beyond belong to no emulated node.
pub(super) const CPU_WORDS: usize = 16;

/// Why a machine cannot be emulated.
#[derive(Debug, thiserror::Error)]
pub enum EmulationError {
    /// The machine declares no nodes.
    #[error(
        "machine {0} declares no emulated nodes: name a profile or add [emulation] to its file"
    )]
    NotEmulated(String),
    /// More than there is room for.
    #[error("machine {name} has {count} {what}, at most {most} can be emulated: declare fewer")]
    TooMany {
        /// The machine's name.
        name: String,
        /// Nodes, or virtual cores of a node.
        what: &'static str,
        /// How many it has.
        count: usize,
        /// How many there may be.
        most: usize,
    },
}

/// The emulation's state in shared memory. All zeros: nothing is emulated. Every field is
/// atomic; no process can leave it in a state that blocks another.
#[repr(C, align(64))]
pub struct EmulationState {
    configured: AtomicU32,
    timing: AtomicU32,
    node_count: AtomicU32,
    /// Slots below this one may be in use.
    pub(super) highest_slot: AtomicU32,
    /// Changes whenever timing is switched: what threads remember is then void.
    epoch: AtomicU64,
    /// Bits of an `f64`.
    dilation: AtomicU64,
    started_ns: AtomicU64,
    /// Host time for which the machine's clock stood still since it was configured, ns.
    pub(super) stalled_ns: AtomicU64,
    /// Latest time that observers saw, ns of [`EmulationState::now_ns`]: the clock goes back when it is stalled.
    observed_ns: AtomicU64,
    pub(super) own_cpu_cost_ns: AtomicU64,
    /// Host time at which somebody began to place a thread, 0 when nobody does.
    pub(super) placing_since_ns: AtomicU64,
    pub(super) used_slots: [AtomicU64; SLOTS / 64],
    pub(super) slots: [Slot; SLOTS],
    nodes: [NodeState; MAX_EMULATED_NODES],
    caches: [Cache; MAX_EMULATED_NODES],
}

/// What others see of a thread: where it lives and when it accesses which node.
#[repr(C)]
pub(super) struct Slot {
    /// Time of its present access: from.
    pub(super) from_ns: AtomicU64,
    /// Time of its present access: until.
    pub(super) until_ns: AtomicU64,
    /// The node it accesses.
    pub(super) memory_node: AtomicU32,
    /// The node it runs on, plus 1.
    pub(super) home: AtomicU32,
}

/// One emulated node.
#[repr(C, align(64))]
pub(super) struct NodeState {
    /// Time from which on the medium is free.
    pub(super) medium_free_ns: AtomicU64,
    cores: AtomicU32,
    _padding: AtomicU32,
    /// Time to the first byte, machine ns (bits of `f32`), by kind and remoteness.
    first_byte_ns: [[AtomicU32; 2]; 2],
    pub(super) cpus: [AtomicU64; CPU_WORDS],
    /// Time from which on each virtual core is free.
    core_free_ns: [AtomicU64; MAX_EMULATED_CORES],
    /// By kind, remoteness, and number of accessors less 1.
    rates: [[[Rate; CURVE_THREADS]; 2]; 2],
}

/// Machine ns per byte (bits of `f32`).
#[repr(C)]
struct Rate {
    service: AtomicU32,
    stream: AtomicU32,
}

/// What one access costs, machine ns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cost {
    /// Occupies the medium.
    pub(super) service_ns: f64,
    /// From beginning to end when nobody is in the way.
    pub(super) undisturbed_ns: f64,
}

/// A thread's part of the emulation, in its slot in shared memory. All zeros: a thread
/// that has not accessed anything yet. Only its own thread writes it while that lives.
#[repr(C, align(64))]
pub struct EmulatedThread {
    /// Its slot in the state, plus 1.
    pub(super) slot: AtomicU32,
    /// Its node, plus 1.
    pub(super) home: AtomicU32,
    /// The thread (kernel's id) whose timer slack was set.
    pub(super) precise_thread: AtomicU32,
    pub(super) _padding: AtomicU32,
    pub(super) epoch: AtomicU64,
    /// Time at which its last access should have ended.
    pub(super) ended_ns: AtomicU64,
    /// Time at which it went on.
    pub(super) woke_ns: AtomicU64,
    /// Its CPU time when it went on.
    pub(super) woke_cpu_ns: AtomicU64,
    /// Host time and CPU time at which the copy began, 0 when it has not.
    pub(super) entered_ns: AtomicU64,
    pub(super) entered_cpu_ns: AtomicU64,
    /// Host time at which its affinity was last looked at.
    pub(super) placed_ns: AtomicU64,
    /// How often it had given up the CPU when last looked at, and by our doing since.
    pub(super) switches: AtomicU64,
    pub(super) own_switches: AtomicU64,
    pub(super) busy_ns: AtomicU64,
    pub(super) computed_ns: AtomicU64,
    pub(super) queued_ns: AtomicU64,
    pub(super) accesses: AtomicU64,
    /// Bytes of the access to come that the LLC holds, by the node whose memory they are of.
    pub(super) cached: [AtomicU32; MAX_EMULATED_NODES],
    pub(super) cached_bytes: AtomicU64,
    /// Host time at which it went on.
    pub(super) woke_host_ns: AtomicU64,
    _reserved: [AtomicU64; 7],
}

const _: () = assert!(size_of::<EmulatedThread>() == 256);
/// Of which only pages in use take memory: the caches of nodes that exist, as large as declared.
const _: () = assert!(size_of::<EmulationState>() <= 3 << 20);

impl Default for EmulatedThread {
    fn default() -> EmulatedThread {
        // SAFETY: only atomic integers; all zeros is what "fresh" means.
        unsafe { std::mem::zeroed() }
    }
}

impl EmulatedThread {
    /// CPU time the thread has used on the emulated machine, machine ns: what it computed
    /// and what its accesses took. Waiting for a free core is not in it.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns.load(Relaxed)
    }

    /// The part of [`EmulatedThread::busy_ns`] that it computed.
    pub fn computed_ns(&self) -> u64 {
        self.computed_ns.load(Relaxed)
    }

    /// Machine ns it was ready to run and all virtual cores of its node were taken.
    pub fn queued_ns(&self) -> u64 {
        self.queued_ns.load(Relaxed)
    }

    /// Accesses charged.
    pub fn accesses(&self) -> u64 {
        self.accesses.load(Relaxed)
    }

    /// Bytes read that came from the last-level cache of the thread's node.
    pub fn cached_bytes(&self) -> u64 {
        self.cached_bytes.load(Relaxed)
    }

    /// For the access to come.
    pub(super) fn note_cached(&self, memory_node: usize, bytes: u64) {
        if let Some(cached) = self.cached.get(memory_node) {
            let sum = u64::from(cached.load(Relaxed)) + bytes;
            cached.store(sum.min(u64::from(u32::MAX)) as u32, Relaxed);
        }
    }

    /// What was noted, once.
    pub(super) fn take_cached(&self, memory_node: usize) -> u64 {
        let cached = self.cached.get(memory_node);
        cached.map_or(0, |cached| u64::from(cached.swap(0, Relaxed)))
    }

    pub(super) fn forget_cached(&self) {
        for cached in &self.cached {
            cached.store(0, Relaxed);
        }
    }
}

impl EmulationState {
    /// Bytes of the state in shared memory.
    pub const fn size() -> usize {
        size_of::<EmulationState>()
    }

    /// State on this process's heap, for tests and measurements.
    pub fn boxed() -> Box<EmulationState> {
        // SAFETY: only atomic integers; all zeros is what "off" means.
        unsafe { Box::<EmulationState>::new_zeroed().assume_init() }
    }

    /// Fills the state, once, before anybody else sees it.
    ///
    /// # Errors
    /// When the machine declares no nodes, or more than there is room for.
    pub fn configure(&self, machine: &Machine) -> Result<(), EmulationError> {
        let name = || machine.name.clone();
        let emulated = machine
            .emulated
            .as_ref()
            .ok_or_else(|| EmulationError::NotEmulated(name()))?;
        let check = |what, count, most| match count > most {
            true => Err(EmulationError::TooMany {
                name: name(),
                what,
                count,
                most,
            }),
            false => Ok(()),
        };
        check("nodes", emulated.nodes.len(), MAX_EMULATED_NODES)?;
        for node in &emulated.nodes {
            check("cores in a node", node.cores as usize, MAX_EMULATED_CORES)?;
        }
        for (cache, node) in self.caches.iter().zip(&emulated.nodes) {
            cache.fill(node);
        }
        for ((state, node), place) in self.nodes.iter().zip(&emulated.nodes).zip(&machine.nodes) {
            state.fill(node);
            for cpu in &place.cpus {
                if let Some(word) = state.cpus.get(usize::from(cpu.0) / 64) {
                    word.fetch_or(1 << (cpu.0 % 64), Relaxed);
                }
            }
        }
        self.node_count.store(emulated.nodes.len() as u32, Relaxed);
        self.dilation.store(emulated.dilation.to_bits(), Relaxed);
        self.own_cpu_cost_ns
            .store(clock::own_cpu_cost_ns(), Relaxed);
        self.started_ns.store(self.now_ns(), Relaxed);
        self.epoch.store(1, Relaxed);
        self.timing.store(u32::from(emulated.timing), Relaxed);
        self.configured
            .store(1 + u32::from(emulated.timing), Release);
        Ok(())
    }

    /// Whether accesses are charged now.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.timing.load(Relaxed) != 0
    }

    /// Whether nodes are emulated, with or without timing.
    #[inline]
    pub fn is_configured(&self) -> bool {
        self.configured.load(Acquire) != 0
    }

    /// Switches timing, as off while data is prepared; last-level caches are empty then. Stays off
    /// when the machine declares no timing (or none is emulated).
    pub fn set_timing(&self, on: bool) {
        if self.configured.load(Acquire) == 2 {
            // Nobody told them what was written while timing was off.
            self.caches().iter().for_each(Cache::clear);
            self.epoch.fetch_add(1, Relaxed);
            self.timing.store(u32::from(on), Release);
        }
    }

    /// Emulated nodes; 0 when nothing is emulated.
    pub fn node_count(&self) -> usize {
        (self.node_count.load(Relaxed) as usize).min(MAX_EMULATED_NODES)
    }

    /// Host time per machine time; 1 when nothing is emulated.
    pub fn dilation(&self) -> f64 {
        let dilation = f64::from_bits(self.dilation.load(Relaxed));
        if dilation >= 1.0 { dilation } else { 1.0 }
    }

    /// Time on the emulated machine since it was configured, ns. It stands still while the host cannot keep up: rates on
    /// the machine are to be taken by this clock, not by the host's and the dilation.
    pub fn machine_now_ns(&self) -> u64 {
        let now_ns = self.now_ns();
        let now_ns = now_ns.max(self.observed_ns.fetch_max(now_ns, Relaxed));
        let since_ns = now_ns.saturating_sub(self.started_ns.load(Relaxed));
        (since_ns as f64 / self.dilation()) as u64
    }

    /// Host time for which the machine's clock stood still because threads got no CPU of the host, ns.
    pub(super) fn stalled_ns(&self) -> u64 {
        self.stalled_ns.load(Relaxed)
    }

    /// The clock that accesses are charged on: the host's, without the time for which it stood still.
    pub(super) fn now_ns(&self) -> u64 {
        self.at_ns(clock::now_ns())
    }

    /// A host time on that clock.
    pub(super) fn at_ns(&self, host_ns: u64) -> u64 {
        host_ns.saturating_sub(self.stalled_ns.load(Relaxed))
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    pub(super) fn nodes(&self) -> &[NodeState] {
        &self.nodes[..self.node_count()]
    }

    pub(super) fn caches(&self) -> &[Cache] {
        &self.caches[..self.node_count()]
    }
}

impl NodeState {
    fn fill(&self, node: &EmulatedNode) {
        self.cores.store(node.cores.max(1), Relaxed);
        for kind in [AccessKind::Read, AccessKind::Write] {
            for remote in [false, true] {
                let (row, column) = (kind as usize, usize::from(remote));
                let first_byte_ns = node.undisturbed_ns(0, kind, remote, 1);
                put(&self.first_byte_ns[row][column], first_byte_ns);
                for (index, rate) in self.rates[row][column].iter().enumerate() {
                    let threads = index as u32 + 1;
                    // One line: so little that the first byte dominates, as it does
                    // where the time grows with the stream's bandwidth.
                    let line_ns = node.undisturbed_ns(64, kind, remote, threads);
                    put(
                        &rate.service,
                        node.service_ns(64, kind, remote, threads) / 64.0,
                    );
                    put(&rate.stream, (line_ns - first_byte_ns) / 64.0);
                }
            }
        }
    }

    /// What [`EmulatedNode::service_ns`] and [`EmulatedNode::undisturbed_ns`] say.
    pub(super) fn cost(&self, bytes: u64, kind: AccessKind, remote: bool, accessors: u32) -> Cost {
        let (row, column) = (kind as usize, usize::from(remote));
        let index = (accessors.max(1) as usize).min(CURVE_THREADS) - 1;
        let rate = &self.rates[row][column][index];
        let service_ns = get(&rate.service) * bytes as f64;
        let first_byte_ns = get(&self.first_byte_ns[row][column]);
        let stream_ns = first_byte_ns + get(&rate.stream) * bytes as f64;
        Cost {
            service_ns,
            undisturbed_ns: stream_ns.max(service_ns),
        }
    }

    pub(super) fn cores(&self) -> &[AtomicU64] {
        let cores = (self.cores.load(Relaxed) as usize).clamp(1, MAX_EMULATED_CORES);
        &self.core_free_ns[..cores]
    }
}

fn put(place: &AtomicU32, value: f64) {
    place.store((value as f32).to_bits(), Relaxed);
}

fn get(place: &AtomicU32) -> f64 {
    f64::from(f32::from_bits(place.load(Relaxed)))
}
