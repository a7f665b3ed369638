//! Shared state: the layout of an emulated machine in memory that all its processes map, and its one-time setup.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use egeria_machine::Machine;
use egeria_machine::costs::{AccessCosts, Pattern};

use super::cache::Cache;
use super::clock;

/// Most nodes of an emulated machine.
pub const MAX_EMULATED_NODES: usize = 16;
/// Most virtual cores of one node.
pub const MAX_EMULATED_CORES: usize = 128;
/// Most memories, of all nodes together.
pub const MAX_EMULATED_MEMORIES: usize = 64;
/// Maximum number of directions of links.
const MAX_LANES: usize = MAX_EMULATED_NODES * (MAX_EMULATED_NODES - 1);
/// Most queues of memory controllers.
const MAX_QUEUES: usize = 64;
/// Largest description of a machine, bytes.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// First word of the memory of an emulated machine when it is complete.
const READY: u64 = 0x4547_4552_4941_454d;
/// Threads counted as separate accessors; further threads share these slots.
pub(super) const SLOTS: usize = 512;
/// Words of a CPU mask; CPUs beyond belong to no emulated node.
pub(super) const CPU_WORDS: usize = 16;

/// Why a machine cannot be emulated.
#[derive(Debug, thiserror::Error)]
pub enum EmulationError {
    /// The machine declares no nodes.
    #[error(
        "machine {0} declares no emulated nodes: give --dilation, name another profile, or add [emulation] to its file"
    )]
    NotEmulated(String),
    /// The content of shared memory is no valid machine.
    #[error(
        "the memory of the emulated machine is damaged or of another release: detach its volumes everywhere, then attach again"
    )]
    Damaged,
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
    /// [`READY`] when all that follows is filled.
    ready: AtomicU64,
    configured: AtomicU32,
    timing: AtomicU32,
    node_count: AtomicU32,
    /// Slots below this one may be in use.
    pub(super) highest_slot: AtomicU32,
    /// Changes whenever timing is switched: what threads recorded before is then void.
    epoch: AtomicU64,
    /// Bits of an `f64`.
    dilation: AtomicU64,
    started_ns: AtomicU64,
    /// Host time for which the machine's clock stood still since it was configured, ns.
    pub(super) stalled_ns: AtomicU64,
    /// Latest time returned to observers, ns of [`EmulationState::now_ns`]: the clock goes back when it is stalled.
    observed_ns: AtomicU64,
    pub(super) own_cpu_cost_ns: AtomicU64,
    /// Host time at which a process began to place a thread, 0 when none does.
    pub(super) placing_since_ns: AtomicU64,
    pub(super) used_slots: [AtomicU64; SLOTS / 64],
    pub(super) slots: [Slot; SLOTS],
    nodes: [NodeState; MAX_EMULATED_NODES],
    /// Time from which each memory is free.
    pub(super) memory_free_ns: [AtomicU64; MAX_EMULATED_MEMORIES],
    /// Time from which each direction of each link is free.
    pub(super) lane_free_ns: [AtomicU64; MAX_LANES],
    /// Bytes read from and written to each memory, without caches.
    pub(super) moved_bytes: [AtomicU64; MAX_EMULATED_MEMORIES],
    /// Bytes that each medium wrote: whole grains, and its directory.
    pub(super) written_bytes: [AtomicU64; MAX_EMULATED_MEMORIES],
    /// Wait of a line in each queue, machine ns: bits of an `f64`.
    pub(super) queue_wait_ns: [AtomicU64; MAX_QUEUES],
    /// The machine as JSON.
    text_bytes: AtomicU64,
    text: [AtomicU64; MAX_TEXT_BYTES / 8],
    caches: [Cache; MAX_EMULATED_NODES],
}

/// State of a thread that others read: its node, and when it accesses which memory.
#[repr(C)]
pub(super) struct Slot {
    /// Time of its present access: from.
    pub(super) from_ns: AtomicU64,
    /// Time of its present access: until.
    pub(super) until_ns: AtomicU64,
    /// The memories it accesses, a bit each.
    pub(super) places: AtomicU64,
    /// The node it runs on, plus 1.
    pub(super) home: AtomicU32,
    /// 1 for a write.
    pub(super) kind: AtomicU32,
    /// Cache lines in flight at the same time, bits of an `f32`.
    pub(super) lines: AtomicU32,
    /// Cache lines in all, bits of an `f32`.
    pub(super) lines_moved: AtomicU32,
    /// Time that one line takes without contention, machine ns, bits of an `f32`.
    pub(super) line_ns: AtomicU32,
    /// Time of the access without contention, machine ns, bits of an `f32`.
    pub(super) unwaited_ns: AtomicU32,
}

/// One emulated node.
#[repr(C, align(64))]
pub(super) struct NodeState {
    cores: AtomicU32,
    _padding: AtomicU32,
    pub(super) cpus: [AtomicU64; CPU_WORDS],
    /// Time from which each virtual core is free.
    core_free_ns: [AtomicU64; MAX_EMULATED_CORES],
}

/// A thread's part of the emulation, in its slot in shared memory. All zeros: a thread without accesses so far. While
/// the thread lives, only it writes this part.
#[repr(C, align(64))]
pub struct EmulatedThread {
    /// Its slot in the state, plus 1.
    pub(super) slot: AtomicU32,
    /// Its node, plus 1.
    pub(super) home: AtomicU32,
    /// The thread (kernel's id) with its timer slack set.
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
    /// Host time of the last check of its affinity.
    pub(super) placed_ns: AtomicU64,
    /// How often it had given up the CPU at the last check, and how often because of us since.
    pub(super) switches: AtomicU64,
    pub(super) own_switches: AtomicU64,
    pub(super) busy_ns: AtomicU64,
    pub(super) computed_ns: AtomicU64,
    pub(super) queued_ns: AtomicU64,
    pub(super) accesses: AtomicU64,
    /// Bytes of the next access that the LLC holds, by the node that owns their memory.
    pub(super) cached: [AtomicU32; MAX_EMULATED_NODES],
    pub(super) cached_bytes: AtomicU64,
    /// Host time at which it went on.
    pub(super) woke_host_ns: AtomicU64,
    /// Where its last access of a pool ended, pool and offset.
    pub(super) last_end: AtomicU64,
    /// 1 when the next access begins there.
    pub(super) is_sequential: AtomicU32,
    /// 1 when that is known of the next access.
    pub(super) is_touched: AtomicU32,
    /// Steps between threads that the next access is charged for, machine ns.
    pub(super) owed_ns: AtomicU64,
    /// How long it has waited for delegates since its last access, host ns.
    pub(super) waited_ns: AtomicU64,
    _reserved: [AtomicU64; 3],
}

const _: () = assert!(size_of::<EmulatedThread>() == 256);
/// A slot has a bit for each memory.
const _: () = assert!(MAX_EMULATED_MEMORIES <= u64::BITS as usize);
/// Only used pages take memory: caches of existing nodes, in their declared size.
const _: () = assert!(size_of::<EmulationState>() <= 4 << 20);

impl Default for EmulatedThread {
    fn default() -> EmulatedThread {
        // SAFETY: only atomic integers; all zeros is what "fresh" means.
        unsafe { std::mem::zeroed() }
    }
}

impl EmulatedThread {
    /// CPU time of the thread on the emulated machine, machine ns: computing and accesses, without waiting for a free
    /// core.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns.load(Relaxed)
    }

    /// The part of [`EmulatedThread::busy_ns`] that it computed.
    pub fn computed_ns(&self) -> u64 {
        self.computed_ns.load(Relaxed)
    }

    /// Machine ns in which it was ready to run, but all virtual cores of its node were busy.
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

    /// Note cached bytes for the next access.
    pub(super) fn note_cached(&self, memory_node: usize, bytes: u64) {
        if let Some(cached) = self.cached.get(memory_node) {
            let sum = u64::from(cached.load(Relaxed)) + bytes;
            cached.store(sum.min(u64::from(u32::MAX)) as u32, Relaxed);
        }
    }

    /// The noted bytes; reading resets them.
    pub(super) fn take_cached(&self, memory_node: usize) -> u64 {
        let cached = self.cached.get(memory_node);
        cached.map_or(0, |cached| u64::from(cached.swap(0, Relaxed)))
    }

    /// Whether the next access begins where the last one ended; reading it resets it.
    pub(super) fn take_pattern(&self) -> Pattern {
        self.is_touched.store(0, Relaxed);
        match self.is_sequential.swap(0, Relaxed) {
            0 => Pattern::Random,
            _ => Pattern::Sequential,
        }
    }

    /// For the next access: its first part sets where it begins, its last part where it ends.
    pub(super) fn note_place(&self, from: u64, end: u64) {
        if self.is_touched.swap(1, Relaxed) == 0 {
            let is_next = self.last_end.load(Relaxed) == from;
            self.is_sequential.store(u32::from(is_next), Relaxed);
        }
        self.last_end.store(end, Relaxed);
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

    /// State on this process's heap.
    pub(super) fn boxed() -> Box<EmulationState> {
        // SAFETY: only atomic integers; all zeros is what "off" means.
        unsafe { Box::<EmulationState>::new_zeroed().assume_init() }
    }

    /// Fills the state, once, before any other process sees it.
    ///
    /// # Errors
    /// [`EmulationError::NotEmulated`] when the machine declares no nodes, [`EmulationError::TooMany`] when more than there
    /// is room for.
    pub fn configure(&self, machine: &Machine) -> Result<(), EmulationError> {
        let name = || machine.name.clone();
        let emulated = machine
            .emulated
            .as_ref()
            .ok_or_else(|| EmulationError::NotEmulated(name()))?;
        let check = |what, count, most| {
            if count > most {
                Err(EmulationError::TooMany {
                    name: name(),
                    what,
                    count,
                    most,
                })
            } else {
                Ok(())
            }
        };
        let costs = AccessCosts::of(machine);
        check("nodes", machine.nodes.len(), MAX_EMULATED_NODES)?;
        check("memories", costs.places.len(), MAX_EMULATED_MEMORIES)?;
        check("ways of links", costs.lanes().len(), MAX_LANES)?;
        check("controllers", costs.queue_lines.len(), MAX_QUEUES)?;
        for cores in &costs.cores {
            check("cores in a node", *cores as usize, MAX_EMULATED_CORES)?;
        }
        let text = serde_json::to_vec(machine).map_err(|_| EmulationError::Damaged)?;
        check("bytes of description", text.len(), MAX_TEXT_BYTES)?;
        for (word, bytes) in self.text.iter().zip(text.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Relaxed);
        }
        self.text_bytes.store(text.len() as u64, Relaxed);
        for (cache, declared) in self.caches.iter().zip(&costs.caches) {
            cache.fill(declared.as_ref());
        }
        let nodes = self.nodes.iter().zip(&costs.cores).zip(&machine.nodes);
        for ((state, cores), node) in nodes {
            state.cores.store(*cores, Relaxed);
            for cpu in &node.cpus {
                if let Some(word) = state.cpus.get(usize::from(cpu.0) / 64) {
                    word.fetch_or(1 << (cpu.0 % 64), Relaxed);
                }
            }
        }
        self.node_count.store(machine.nodes.len() as u32, Relaxed);
        self.dilation.store(emulated.dilation.to_bits(), Relaxed);
        self.own_cpu_cost_ns
            .store(clock::own_cpu_cost_ns(), Relaxed);
        self.started_ns.store(self.now_ns(), Relaxed);
        self.epoch.store(1, Relaxed);
        self.timing.store(u32::from(emulated.timing), Relaxed);
        self.configured
            .store(1 + u32::from(emulated.timing), Release);
        self.ready.store(READY, Release);
        Ok(())
    }

    /// The machine that the state was configured for.
    ///
    /// # Errors
    /// [`EmulationError::Damaged`] when it was not configured, or is no machine.
    pub fn machine(&self) -> Result<Machine, EmulationError> {
        let bytes = self.text_bytes.load(Relaxed) as usize;
        if self.ready.load(Acquire) != READY || bytes > MAX_TEXT_BYTES {
            return Err(EmulationError::Damaged);
        }
        let words = self.text[..bytes.div_ceil(8)].iter();
        let mut text: Vec<u8> = words
            .flat_map(|word| word.load(Relaxed).to_le_bytes())
            .collect();
        text.truncate(bytes);
        let machine: Machine =
            serde_json::from_slice(&text).map_err(|_| EmulationError::Damaged)?;
        // Written by another process.
        machine.validate().map_err(|_| EmulationError::Damaged)?;
        let fits = machine.nodes.len() == self.node_count() && machine.is_emulated();
        fits.then_some(machine).ok_or(EmulationError::Damaged)
    }

    /// Damages the description, as another process could by accident.
    #[cfg(test)]
    pub(super) fn spoil_description(&self) {
        let word = self.text[8].load(Relaxed);
        self.text[8].store(!word, Relaxed);
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

    /// Empties last-level caches and resets the state of threads: called after accesses that were not charged.
    pub fn forget(&self) {
        if self.configured.load(Acquire) == 2 {
            self.caches().iter().for_each(Cache::clear);
            self.epoch.fetch_add(1, Relaxed);
        }
    }

    /// Switches timing for all volumes of the machine, with empty caches. Stays off when the machine declares no
    /// timing (or none is emulated).
    pub fn set_timing(&self, on: bool) {
        if self.configured.load(Acquire) == 2 {
            self.forget();
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

    /// Time on the emulated machine since it was configured, ns. It stands still while the host cannot keep up:
    /// measure rates on the machine by this clock, not by the host's clock and the dilation.
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
    pub fn now_ns(&self) -> u64 {
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
    /// The node's virtual cores; at least one, for threads on a node without any.
    pub(super) fn cores(&self) -> &[AtomicU64] {
        let cores = (self.cores.load(Relaxed) as usize).clamp(1, MAX_EMULATED_CORES);
        &self.core_free_ns[..cores]
    }

    pub(super) fn has_cores(&self) -> bool {
        self.cores.load(Relaxed) > 0
    }
}
